//! `OrtLogger`: messages of custom kernels, which go where those of their session go.

#![expect(non_snake_case, reason = "names of the C API")]

use ort_session::{Listener, LogEvent, Severity};
use ort_sys::OrtLoggingLevel;

use crate::error::Error;
use crate::ffi::{Out, export, level};
use crate::session::with_listener;

/// Receives messages of kernels.
#[derive(Clone, Debug)]
pub(crate) struct KernelLogger {
    pub(crate) listener: Option<Listener>,
    /// The minimum severity.
    pub(crate) severity: Severity,
    /// The session's name.
    pub(crate) id: String,
}

export! {
    /// Places in source files are not part of messages.
    fn Logger_LogMessage(
        logger: &KernelLogger,
        log_severity_level: i32,
        message: &str,
        _file_path: *const ort_sys::os_char,
        _line_number: i32,
        _func_name: *const std::ffi::c_char,
    ) {
        let unknown = |error| Error::argument("log_severity_level", format!("is {log_severity_level}: {error}"));
        let severity = Severity::try_from(log_severity_level).map_err(unknown)?;
        if severity >= logger.severity {
            let emit = || LogEvent::emit(severity, &logger.id, message);
            with_listener(logger.listener.as_ref(), emit);
        }
        Ok(())
    }

    fn Logger_GetLoggingSeverityLevel(logger: &KernelLogger, out: Out<'_, OrtLoggingLevel>) {
        out.set(level(logger.severity));
        Ok(())
    }
}
