//! Events of sessions from `tracing`: written to stderr, or passed to a Python function.
//!
//! Sessions and runs filter their events themselves; here, all that arrive are written.

use std::io::{Write as _, stderr};
use std::sync::{Mutex, PoisonError};

use ort_session::{Listener, LogEvent, Severity};
use pyo3::prelude::*;

static CALLBACK: Mutex<Option<Py<PyAny>>> = Mutex::new(None);

/// Calls a function with messages from now on; `None` writes them to stderr again.
#[pyfunction]
pub(crate) fn set_log_callback(callback: Option<Py<PyAny>>) {
    let old = {
        let mut current = CALLBACK.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *current, callback)
    };
    drop(old);
}

/// Installs the listener, unless the process has one.
pub(crate) fn listen() {
    // A listener that exists already stays.
    let _ = Listener::new(receive).install();
}

/// Passes a message to the function, or writes it.
fn receive(event: &LogEvent<'_>) {
    let LogEvent { severity, session, target, message, .. } = *event;
    let (number, letter) = match severity {
        Severity::Verbose => (0, 'V'),
        Severity::Info => (1, 'I'),
        Severity::Warning => (2, 'W'),
        _ => (3, 'E'),
    };
    if !is_called_back((number, "ort_rs", session, target, message)) {
        // That stderr is closed cannot be reported anywhere.
        let _ = writeln!(stderr(), "[{letter}:ort_rs:{session}] {message}");
    }
}

/// Calls the function with a message, if there is one; whether it succeeded.
fn is_called_back(message: (u8, &str, &str, &str, &str)) -> bool {
    let current = || CALLBACK.lock().unwrap_or_else(PoisonError::into_inner);
    if current().is_none() {
        return false;
    }
    // A finalizing interpreter cannot call it.
    let called = Python::try_attach(|py| {
        let callback = current().as_ref().map(|callback| callback.clone_ref(py))?;
        let done = callback.call1(py, message);
        done.map_err(|error| error.write_unraisable(py, None)).ok()
    });
    called.flatten().is_some()
}
