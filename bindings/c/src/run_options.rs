//! `OrtRunOptions`: options of a run, which can cancel it from another thread.

#![expect(non_snake_case, reason = "names of the C API")]

use std::collections::BTreeMap;
use std::ffi::{CString, c_char};
use std::path::{Path, PathBuf};
use std::ptr::null;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ort_session::{Adapter, Cancel, Severity};

use crate::error::text;
use crate::ffi::{Out, OutHandle, Shared, export};
use crate::lora::LoraAdapter;
use crate::memory_report::KEY;

/// Options of one run, or of many.
#[derive(Debug, Default)]
pub(crate) struct RunOptions {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    severity: i32,
    verbosity: i32,
    tag: CString,
    cancel: Cancel,
    entries: BTreeMap<CString, CString>,
    profile: Option<PathBuf>,
    adapters: Vec<Arc<Adapter>>,
}

/// The options of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct OfRun {
    pub(crate) options: ort_session::RunOptions,
    /// Their parameters are inputs, and replace those with the same name.
    pub(crate) adapters: Vec<Arc<Adapter>>,
    /// Where the memory of the session is reported after the run.
    pub(crate) memory_report: Option<PathBuf>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            severity: -1,
            verbosity: 0,
            tag: CString::default(),
            cancel: Cancel::new(),
            entries: BTreeMap::new(),
            profile: None,
            adapters: Vec::new(),
        }
    }
}

impl RunOptions {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same as a run takes it.
    pub(crate) fn of_run(&self) -> OfRun {
        let state = self.state();
        let options = ort_session::RunOptions::new().cancel(&state.cancel);
        let mut options = options.log_verbosity(u32::try_from(state.verbosity).unwrap_or_default());
        if !state.tag.is_empty() {
            options = options.tag(state.tag.to_string_lossy());
        }
        if let Ok(severity) = Severity::try_from(state.severity) {
            options = options.log_severity(severity);
        }
        if let Some(prefix) = &state.profile {
            options = options.enable_profiling(prefix);
        }
        let memory_report = state.entries.get(&text(KEY)).map(|path| path.to_string_lossy());
        let memory_report = memory_report.map(|path| PathBuf::from(path.into_owned()));
        OfRun { options, adapters: state.adapters.clone(), memory_report }
    }
}

export! {
    fn CreateRunOptions(out: OutHandle<'_, RunOptions>) {
        out.set(RunOptions::default());
        Ok(())
    }

    /// Its parameters are inputs of every run with these options, in place of those that the program passes.
    fn RunOptionsAddActiveLoraAdapter(options: Shared<'_, RunOptions>, adapter: &LoraAdapter) {
        options.state().adapters.push(Arc::clone(&adapter.0));
        Ok(())
    }

    fn ReleaseRunOptions(options: Option<Box<RunOptions>>) -> () = (); {
        drop(options);
        Ok(())
    }

    fn RunOptionsSetRunLogVerbosityLevel(
        options: Shared<'_, RunOptions>,
        log_verbosity_level: i32,
    ) {
        options.state().verbosity = log_verbosity_level;
        Ok(())
    }

    fn RunOptionsSetRunLogSeverityLevel(options: Shared<'_, RunOptions>, log_severity_level: i32) {
        options.state().severity = log_severity_level;
        Ok(())
    }

    fn RunOptionsSetRunTag(options: Shared<'_, RunOptions>, run_tag: &str) {
        options.state().tag = text(run_tag);
        Ok(())
    }

    fn RunOptionsGetRunLogVerbosityLevel(
        options: &RunOptions,
        log_verbosity_level: Out<'_, i32>,
    ) {
        log_verbosity_level.set(options.state().verbosity);
        Ok(())
    }

    fn RunOptionsGetRunLogSeverityLevel(options: &RunOptions, log_severity_level: Out<'_, i32>) {
        log_severity_level.set(options.state().severity);
        Ok(())
    }

    /// The pointer is valid until another tag is set.
    fn RunOptionsGetRunTag(options: &RunOptions, run_tag: Out<'_, *const c_char>) {
        run_tag.set(options.state().tag.as_ptr());
        Ok(())
    }

    /// Cancels every run that has these options, from any thread, including those started later.
    fn RunOptionsSetTerminate(options: Shared<'_, RunOptions>) {
        options.state().cancel.cancel();
        Ok(())
    }

    fn RunOptionsUnsetTerminate(options: Shared<'_, RunOptions>) {
        let mut state = options.state();
        if state.cancel.is_cancelled() {
            state.cancel = Cancel::new();
        }
        Ok(())
    }

    /// Accepted and remembered; no key of onnxruntime's has an effect on the CPU.
    fn AddRunConfigEntry(options: Shared<'_, RunOptions>, config_key: &str, config_value: &str) {
        options.state().entries.insert(text(config_key), text(config_value));
        Ok(())
    }

    /// The pointer is valid until another value is set.
    fn GetRunConfigEntry(options: &RunOptions, config_key: &str) -> *const c_char = null(); {
        Ok(options.state().entries.get(&text(config_key)).map_or(null(), |value| value.as_ptr()))
    }

    fn RunOptionsEnableProfiling(options: Shared<'_, RunOptions>, profile_file_prefix: &Path) {
        options.state().profile = Some(profile_file_prefix.to_owned());
        Ok(())
    }

    fn RunOptionsDisableProfiling(options: Shared<'_, RunOptions>) {
        options.state().profile = None;
        Ok(())
    }
}
