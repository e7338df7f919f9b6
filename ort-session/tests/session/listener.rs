//! Captures the `tracing` events of sessions, and of these tests, on one thread.

use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::OnceLock;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// A captured record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Severity, name of the session, and text.
    Event(Level, Option<String>, String),
    /// A span of this name, with its fields.
    Span(String),
    /// The span is entered.
    Enter,
    /// The span is exited.
    Exit,
}

thread_local! {
    /// The records of this thread since it started to listen, if it did.
    static HEARD: RefCell<Option<Vec<Heard>>> = const { RefCell::new(None) };
}

/// All records on this thread while `body` runs.
///
/// One subscriber serves the whole process: if each thread had its own, `tracing` might ask only
/// the thread that first reaches an event whether it is enabled, and cache the answer for all.
pub(crate) fn heard(body: impl FnOnce()) -> Vec<Heard> {
    static LISTENER: OnceLock<()> = OnceLock::new();
    LISTENER.get_or_init(|| {
        tracing::subscriber::set_global_default(Listener).unwrap();
        tracing::callsite::rebuild_interest_cache();
    });
    HEARD.set(Some(Vec::new()));
    body();
    HEARD.take().unwrap()
}

/// Its events: severity, name of the session, and text.
pub(crate) fn events(body: impl FnOnce()) -> Vec<(Level, Option<String>, String)> {
    let events = heard(body).into_iter().filter_map(|heard| match heard {
        Heard::Event(level, session, text) => Some((level, session, text)),
        _ => None,
    });
    events.collect()
}

struct Listener;

impl Listener {
    fn add(&self, heard: Heard) {
        HEARD.with_borrow_mut(|all| {
            if let Some(all) = all {
                all.push(heard);
            }
        });
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
