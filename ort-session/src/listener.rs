//! A receiver of events for programs that do not subscribe to `tracing` themselves: bindings for other
//! languages, which pass events to a callback.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber, dispatcher};

use crate::log::{Choice, Log, Severity};

/// An event that a session emits.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LogEvent<'a> {
    /// The severity.
    pub severity: Severity,
    /// The name of the session: [`SessionBuilder::log_id`](crate::SessionBuilder::log_id); may be empty.
    pub session: &'a str,
    /// The module that emits it.
    pub target: &'a str,
    /// The text of the event.
    pub message: &'a str,
}

impl LogEvent<'_> {
    /// Emits an event as a session of this name would: for kernels of providers.
    pub fn emit(severity: Severity, session: &str, message: &str) {
        let log = Log { choice: Choice::default(), id: Some(session.into()) };
        log.event(severity, format_args!("{message}"));
    }
}

/// Calls a function with the events that sessions emit.
///
/// ```
/// use ort_session::Listener;
///
/// let listener = Listener::new(|event| eprintln!("{:?}: {}", event.severity, event.message));
/// assert!(listener.install());
/// ```
#[derive(Clone, Debug)]
pub struct Listener {
    dispatch: Dispatch,
}

impl Listener {
    /// A listener that calls `receive` on the thread that emits the event, which waits for it.
    pub fn new(receive: impl Fn(&LogEvent<'_>) + Send + Sync + 'static) -> Self {
        Self { dispatch: Dispatch::new(Receiver { receive: Box::new(receive) }) }
    }

    /// Receives the events of the whole process from now on, unless it already has a subscriber; returns whether it does.
    #[must_use]
    pub fn install(self) -> bool {
        dispatcher::set_global_default(self.dispatch).is_ok()
    }

    /// Receives the events of this thread while `body` runs, instead of the process' subscriber.
    pub fn listen<R>(&self, body: impl FnOnce() -> R) -> R {
        dispatcher::with_default(&self.dispatch, body)
    }
}

struct Receiver {
    receive: Box<dyn Fn(&LogEvent<'_>) + Send + Sync>,
}

/// The fields of an event: message and session.
#[derive(Default)]
struct Fields {
    message: String,
    session: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let to = match field.name() {
            "message" => &mut self.message,
            "session" => &mut self.session,
            _ => return,
        };
        // Writing to a string cannot fail.
        let _ = write!(to, "{value:?}");
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

impl Subscriber for Receiver {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with("ort_")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let severity = match *event.metadata().level() {
            Level::ERROR => Severity::Error,
            Level::WARN => Severity::Warning,
            Level::INFO => Severity::Info,
            _ => Severity::Verbose,
        };
        let (session, message) = (fields.session.as_str(), fields.message.as_str());
        let target = event.metadata().target();
        (self.receive)(&LogEvent { severity, session, target, message });
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, PoisonError};

    use tracing::{info, warn};

    use super::*;

    #[test]
    fn a_listener_receives_the_events_of_its_thread_while_it_listens() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&heard);
        let listener = Listener::new(move |event| {
            let text = format!("{:?} {}: {}", event.severity, event.session, event.message);
            to.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        });
        listener.listen(|| {
            warn!(target: "ort_session", session = "a", "one {}", 1);
            info!(target: "ort_session", "two");
            info!(target: "other", "three");
        });
        warn!(target: "ort_session", "four");
        let heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(*heard, ["Warning a: one 1", "Info : two"]);
    }
}
