//! What sessions tell through `tracing`: to the standard error, or to a function of Python's.
//!
//! Sessions and runs choose themselves which of their events are emitted; here all that come are written.

use std::fmt::{self, Write as _};
use std::io::{Write as _, stderr};
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

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
    let _ = tracing::subscriber::set_global_default(Listener);
}

#[derive(Debug)]
struct Listener;

/// A message and its session.
#[derive(Default)]
struct Told {
    message: String,
    session: String,
}

impl Visit for Told {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let to = match field.name() {
            "message" => &mut self.message,
            "session" => &mut self.session,
            _ => return,
        };
        // Writing to a string does not fail.
        let _ = write!(to, "{value:?}");
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with("ort_")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut told = Told::default();
        event.record(&mut told);
        let (number, letter) = match *event.metadata().level() {
            Level::ERROR => (3, 'E'),
            Level::WARN => (2, 'W'),
            Level::INFO => (1, 'I'),
            _ => (0, 'V'),
        };
        let Told { message, session } = told;
        let place = event.metadata().target();
        if !is_called_back((number, "ort_rs", &session, place, &message)) {
            // There is nobody else to tell that the standard error is closed.
            let _ = writeln!(stderr(), "[{letter}:ort_rs:{session}] {message}");
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
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
