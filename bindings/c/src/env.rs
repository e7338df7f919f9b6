//! `OrtEnv`: where messages go, and the defaults of session options.
//!
//! A process may have several. One without a logging function uses the process's listener, which writes to
//! stderr, or the program's own subscriber to `tracing`.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::{c_char, c_void};
use std::io::{Write as _, stderr};
use std::sync::atomic::{AtomicI32, Ordering};

use ort_session::{Listener, LogEvent, Severity, SharedPool};
use ort_sys::OrtLoggingFunction;

use crate::devices::Devices;
use crate::error::Error;
use crate::ffi::{
    AllocatedStrings, EnvOptions, Logger, Out, OutHandle, Shared, default_allocator, export,
};
use crate::providers::AVAILABLE;
use crate::table::BUILD_INFO;
use crate::threading::Threading;

/// An environment.
#[derive(Debug)]
pub(crate) struct Env {
    /// The minimum severity of messages of sessions that set none.
    severity: AtomicI32,
    /// Receives the messages of its sessions, unless the process has a listener.
    pub(crate) listener: Option<Listener>,
    /// Options of its threads.
    pub(crate) threading: Option<Threading>,
    /// Its threads, for sessions without their own.
    pub(crate) pool: SharedPool,
    pub(crate) devices: Devices,
}

impl Env {
    fn new(
        severity: i32,
        logger: Option<Logger>,
        threading: Option<&Threading>,
    ) -> Result<Self, Error> {
        check_severity(severity)?;
        if logger.is_none() {
            // A listener that exists already stays.
            let _ = Listener::new(write).install();
        }
        Ok(Self {
            severity: AtomicI32::new(severity),
            listener: logger.map(listener),
            threading: threading.cloned(),
            pool: SharedPool::default(),
            devices: Devices::default(),
        })
    }

    pub(crate) fn severity(&self) -> i32 {
        self.severity.load(Ordering::Relaxed)
    }
}

/// A listener that calls a function of the program.
pub(crate) fn listener(logger: Logger) -> Listener {
    Listener::new(move |event| {
        let LogEvent { severity, session, target, message, .. } = *event;
        logger.log(severity, ["onnxruntime", session, target, message]);
    })
}

/// Writes a message to stderr.
fn write(event: &LogEvent<'_>) {
    let letter = match event.severity {
        Severity::Verbose => 'V',
        Severity::Info => 'I',
        Severity::Warning => 'W',
        Severity::Error => 'E',
        Severity::Fatal => 'F',
    };
    // That stderr is closed cannot be reported anywhere.
    let _ = writeln!(stderr(), "[{letter}:onnxruntime:{}] {}", event.session, event.message);
}

fn check_severity(severity: i32) -> Result<(), Error> {
    let known = Severity::try_from(severity).map(drop);
    known.map_err(|error| Error::argument("log_severity_level", format!("is {severity}: {error}")))
}

fn logger(function: Option<OrtLoggingFunction>, param: *mut c_void) -> Result<Logger, Error> {
    let function = function.ok_or_else(|| Error::null("logging_function"))?;
    Ok(Logger::new(function, param))
}

export! {
    fn CreateEnv(log_severity_level: i32, _logid: &str, out: OutHandle<'_, Env>) {
        out.set(Env::new(log_severity_level, None, None)?);
        Ok(())
    }

    fn CreateEnvWithCustomLogger(
        logging_function: Option<OrtLoggingFunction>,
        logger_param: *mut c_void,
        log_severity_level: i32,
        _logid: &str,
        out: OutHandle<'_, Env>,
    ) {
        let logger = logger(logging_function, logger_param)?;
        out.set(Env::new(log_severity_level, Some(logger), None)?);
        Ok(())
    }

    fn CreateEnvWithGlobalThreadPools(
        log_severity_level: i32,
        _logid: &str,
        tp_options: &Threading,
        out: OutHandle<'_, Env>,
    ) {
        out.set(Env::new(log_severity_level, None, Some(tp_options))?);
        Ok(())
    }

    fn CreateEnvWithCustomLoggerAndGlobalThreadPools(
        logging_function: Option<OrtLoggingFunction>,
        logger_param: *mut c_void,
        log_severity_level: i32,
        _logid: &str,
        tp_options: &Threading,
        out: OutHandle<'_, Env>,
    ) {
        let logger = logger(logging_function, logger_param)?;
        out.set(Env::new(log_severity_level, Some(logger), Some(tp_options))?);
        Ok(())
    }

    fn CreateEnvWithOptions(options: EnvOptions<'_>, out: OutHandle<'_, Env>) {
        out.set(Env::new(options.severity, options.logger, options.threading)?);
        Ok(())
    }

    fn UpdateEnvWithCustomLogLevel(ort_env: Shared<'_, Env>, log_severity_level: i32) {
        check_severity(log_severity_level)?;
        ort_env.severity.store(log_severity_level, Ordering::Relaxed);
        Ok(())
    }

    fn ReleaseEnv(env: Option<Box<Env>>) -> () = (); {
        drop(env);
        Ok(())
    }

    /// Accepted; there is no telemetry.
    fn EnableTelemetryEvents(_env: &Env) {
        Ok(())
    }

    /// Accepted; there is no telemetry.
    fn DisableTelemetryEvents(_env: &Env) {
        Ok(())
    }

    /// Accepted; used only for telemetry.
    fn SetLanguageProjection(_ort_env: &Env, _projection: i32) {
        Ok(())
    }

    fn GetBuildInfoString() -> *const c_char = BUILD_INFO.as_ptr(); {
        Ok(BUILD_INFO.as_ptr())
    }

    fn GetAvailableProviders(
        out_ptr: Out<'_, *mut *mut c_char>,
        provider_length: Out<'_, i32>,
    ) {
        let allocator = default_allocator();
        let names = AVAILABLE.iter().map(|name| allocator.text(name));
        let names = names.collect::<Result<Vec<_>, _>>()?;
        out_ptr.set(allocator.array(&names)?);
        provider_length.set(i32::try_from(names.len()).unwrap_or(i32::MAX));
        Ok(())
    }

    fn ReleaseAvailableProviders(
        ptr: AllocatedStrings<'_>[providers_length],
        providers_length: i32,
    ) {
        let _ = providers_length;
        ptr.free(default_allocator())
    }
}
