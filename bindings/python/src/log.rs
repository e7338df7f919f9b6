//! What sessions tell through `tracing`: to the standard error, or to a function of Python's.
//!
//! Sessions and runs choose themselves which of their events are emitted; here all that come are written.

use std::io::{Write as _, stderr};
use std::sync::{Mutex, PoisonError};

use ort_session::{Listener, LogEvent, Severity};
use pyo3::prelude::*;

static CALLBACK: Mutex<Option<Py<PyAny>>> = Mutex::new(None);

/// Calls a function with messages from now on, or writes them again.
#[pyfunction]
pub(crate) fn set_log_callback(callback: Option<Py<PyAny>>) {
    let old = {
        let mut current = CALLBACK.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *current, callback)
    };
    drop(old);
}

/// Listens from now on, unless the process has a listener.
pub(crate) fn listen() {
    // Whoever listens already goes on.
    let _ = Listener::new(receive).install();
}

/// Gives a message to the function, or writes it.
fn receive(event: &LogEvent<'_>) {
    let LogEvent { severity, session, target, message, .. } = *event;
    let (number, letter) = match severity {
        Severity::Verbose => (0, 'V'),
        Severity::Info => (1, 'I'),
        Severity::Warning => (2, 'W'),
        _ => (3, 'E'),
    };
    if !is_called_back((number, "ort_rs", session, target, message)) {
        // There is nobody else to tell that the standard error is closed.
        let _ = writeln!(stderr(), "[{letter}:ort_rs:{session}] {message}");
    }
}

/// Calls the function with a message, if there is one and it takes it.
fn is_called_back(message: (u8, &str, &str, &str, &str)) -> bool {
    let current = || CALLBACK.lock().unwrap_or_else(PoisonError::into_inner);
    if current().is_none() {
        return false;
    }
    // An interpreter that is about to end calls nobody.
    let called = Python::try_attach(|py| {
        let callback = current().as_ref().map(|callback| callback.clone_ref(py))?;
        let done = callback.call1(py, message);
        done.map_err(|error| error.write_unraisable(py, None)).ok()
    });
    called.flatten().is_some()
}
