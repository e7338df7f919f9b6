//! The events of sessions, and their filters.

use ort_session::{ModelBytes, Session, SessionBuilder, Severity};
use tracing::Level;

use crate::listener;
use crate::model::ModelWriter;

/// A model with a wrong declared shape, and a node without effect.
fn odd() -> Vec<u8> {
    ModelWriter::default()
        .input("x", &[2, 3])
        .declared("y", &[3, 2])
        .node("Identity", 16, &["x"], "a")
        .node("Relu", 14, &["a"], "y")
        .output("y")
        .bytes()
}

fn events(builder: SessionBuilder) -> Vec<(Level, Option<String>, String)> {
    listener::events(|| {
        builder.commit(ModelBytes::from_vec(odd())).unwrap();
    })
}

#[test]
fn stages_and_anomalies_are_reported() {
    let events = events(Session::builder().threads(1));
    let has = |level, text: &str| {
        events.iter().any(|(its, _, message)| *its == level && message.starts_with(text))
    };
    assert!(has(Level::INFO, "loaded "), "{events:?}");
    assert!(has(Level::WARN, "value `y`: "), "{events:?}");
    assert!(has(Level::TRACE, "EliminateIdentity rewrote 1 "), "{events:?}");
    assert!(has(Level::INFO, "optimized to all: "), "{events:?}");
    assert!(has(Level::INFO, "compiled 1 steps"), "{events:?}");
    assert!(events.iter().all(|(_, session, _)| session.is_none()));
}

#[test]
fn a_session_filters_events_by_severity() {
    let least = |builder: SessionBuilder| {
        let levels = events(builder.threads(1)).into_iter().map(|(level, ..)| level);
        levels.max()
    };
    let key = |value| Session::builder().config("session.log_severity_level", value).unwrap();
    assert_eq!(least(key("0")), Some(Level::TRACE));
    assert_eq!(least(key("1")), Some(Level::INFO));
    assert_eq!(least(key("2")), Some(Level::WARN));
    assert_eq!(least(key("3")), None);
    assert_eq!(least(Session::builder().log_severity(Severity::Error)), None);
    assert_eq!(least(Session::builder().log_severity(Severity::Warning)), Some(Level::WARN));
}

#[test]
fn details_can_be_omitted() {
    let details = |value| {
        let builder = Session::builder().config("session.log_verbosity_level", value).unwrap();
        let events = events(builder.threads(1));
        events.iter().filter(|(level, ..)| *level == Level::TRACE).count()
    };
    assert!(details("0") == 0 && details("1") > 0);
}

#[test]
fn events_have_the_name_of_their_session() {
    let builder = Session::builder().threads(1).config("session.log_id", "door").unwrap();
    let events = events(builder);
    assert!(!events.is_empty());
    assert!(events.iter().all(|(_, session, _)| session.as_deref() == Some("door")), "{events:?}");
}
