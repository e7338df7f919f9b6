//! Options of a run, which can cancel it from another thread.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ort_session::{Cancel, Severity};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::adapter::LoraAdapter;
use crate::convert::{Flag, Number, Text, entry};

/// Options of one run, or of many.
#[pyclass(frozen, module = "ort_rs.capi.onnxruntime_pybind11_state")]
#[derive(Debug)]
pub(crate) struct RunOptions {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    severity: Option<i32>,
    verbosity: i32,
    tag: String,
    cancel: Cancel,
    only_execute_path_to_fetches: bool,
    entries: BTreeMap<String, String>,
    adapters: Vec<Py<LoraAdapter>>,
}

impl RunOptions {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A feed with the parameters of the active adapters.
    pub(crate) fn adapted<'py>(&self, feed: Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>> {
        let py = feed.py();
        let adapters: Vec<_> = self.state().adapters.iter().map(|it| it.clone_ref(py)).collect();
        if adapters.is_empty() {
            return Ok(feed);
        }
        let feed = feed.copy()?;
        adapters.iter().try_for_each(|adapter| adapter.get().put(&feed))?;
        Ok(feed)
    }

    /// The same as ort-session's type.
    pub(crate) fn of_run(&self) -> ort_session::RunOptions {
        let state = self.state();
        let options = ort_session::RunOptions::new().tag(state.tag.as_str()).cancel(&state.cancel);
        let options = options.log_verbosity(u32::try_from(state.verbosity).unwrap_or_default());
        match state.severity.map(Severity::try_from) {
            Some(Ok(severity)) => options.log_severity(severity),
            _ => options,
        }
    }
}

#[pymethods]
impl RunOptions {
    #[new]
    fn new() -> Self {
        Self { state: Mutex::default() }
    }

    /// True cancels every run with these options, from any thread; they raise `Fail`. Runs started later are cancelled
    /// as well, until it is set to False.
    #[getter]
    fn terminate(&self) -> bool {
        self.state().cancel.is_cancelled()
    }

    #[setter]
    fn set_terminate(&self, is_on: Flag) {
        let mut state = self.state();
        match (is_on.0, state.cancel.is_cancelled()) {
            (true, _) => state.cancel.cancel(),
            (false, true) => state.cancel = Cancel::new(),
            (false, false) => {}
        }
    }

    /// The name of the run in log messages and errors.
    #[getter]
    fn logid(&self) -> String {
        self.state().tag.clone()
    }

    #[setter]
    fn set_logid(&self, id: Text) {
        self.state().tag = id.0;
    }

    /// The minimum severity that the run logs: 0 verbose, 1 info, 2 warning, 3 error, 4 fatal; -1 for the
    /// session's.
    #[getter]
    fn log_severity_level(&self) -> i32 {
        self.state().severity.unwrap_or(-1)
    }

    #[setter]
    fn set_log_severity_level(&self, level: Number) {
        self.state().severity = (level.0 != -1).then_some(level.0);
    }

    /// How detailed verbose messages of the run are.
    #[getter]
    fn log_verbosity_level(&self) -> i32 {
        self.state().verbosity
    }

    #[setter]
    fn set_log_verbosity_level(&self, level: Number) {
        self.state().verbosity = level.0;
    }

    /// Accepted; always the case: nodes that no requested output needs do not run.
    #[getter]
    fn only_execute_path_to_fetches(&self) -> bool {
        self.state().only_execute_path_to_fetches
    }

    #[setter]
    fn set_only_execute_path_to_fetches(&self, is_on: Flag) {
        self.state().only_execute_path_to_fetches = is_on.0;
    }

    /// Accepted and remembered; no key has an effect on the CPU.
    fn add_run_config_entry(&self, key: Text, value: Text) -> PyResult<()> {
        let (key, value) = entry(key, value)?;
        self.state().entries.insert(key, value);
        Ok(())
    }

    /// The value of a key that was added.
    fn get_run_config_entry(&self, key: Text) -> PyResult<String> {
        let key = key.0;
        let found = self.state().entries.get(&key).cloned();
        let missing = || format!("RunOptions does not have configuration with key: {key}");
        found.ok_or_else(|| PyRuntimeError::new_err(missing()))
    }

    /// The parameters of the adapter are inputs of every run with these options, in place of those that are fed.
    fn add_active_adapter(&self, adapter: Py<LoraAdapter>) {
        self.state().adapters.push(adapter);
    }

    fn __repr__(&self) -> String {
        let state = self.state();
        let is_over = state.cancel.is_cancelled();
        format!("RunOptions(logid={:?}, terminate={is_over})", state.tag)
    }
}
