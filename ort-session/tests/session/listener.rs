//! Listens to what sessions, and these tests, tell through `tracing` on one thread.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// What is heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Severity, name of the session, and text.
    Event(Level, Option<String>, String),
    /// A span of this name, with its fields.
    Span(String),
    /// It begins.
    Enter,
    /// It ends.
    Exit,
}

/// All that is told while `body` runs.
pub(crate) fn heard(body: impl FnOnce()) -> Vec<Heard> {
    let listener = Listener::default();
    tracing::subscriber::with_default(listener.clone(), body);
    listener.0.lock().unwrap().clone()
}

/// The events among it: severity, name of the session, and text.
pub(crate) fn events(body: impl FnOnce()) -> Vec<(Level, Option<String>, String)> {
    let events = heard(body).into_iter().filter_map(|heard| match heard {
        Heard::Event(level, session, text) => Some((level, session, text)),
        _ => None,
    });
    events.collect()
}

#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Vec<Heard>>>);

impl Listener {
    fn add(&self, heard: Heard) {
        self.0.lock().unwrap().push(heard);
    }
}

#[derive(Default)]
struct Fields {
    session: Option<String>,
    text: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.text += &format!("{value:?}"),
            name => self.text += &format!(" {name}={value:?}"),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "session" => self.session = Some(value.to_owned()),
            _ => self.record_debug(field, &value),
        }
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        ["ort_session", "session"].iter().any(|start| metadata.target().starts_with(start))
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.add(Heard::Event(*event.metadata().level(), fields.session, fields.text));
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields::default();
        span.record(&mut fields);
        self.add(Heard::Span(span.metadata().name().to_owned() + &fields.text));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {
        self.add(Heard::Enter);
    }

    fn exit(&self, _: &Id) {
        self.add(Heard::Exit);
    }
}
