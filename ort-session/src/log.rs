//! What a session tells through `tracing`, and which of it it keeps to itself.
//!
//! Where events go is the program's choice, which subscribes to them. A session chooses besides which
//! of its events are emitted at all, as ONNX Runtime's sessions do.

use std::fmt;
use std::sync::Arc;

use tracing::{debug, error, info, trace, warn};

/// How much an event matters: ONNX Runtime's numbers and names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// 0: when runs begin and end; `DEBUG`, and `TRACE` for details.
    Verbose,
    /// 1: what was loaded, optimized and compiled, and runs that were ended early; `INFO`.
    Info,
    /// 2: what is odd, but does no harm; `WARN`.
    Warning,
    /// 3: runs that failed; `ERROR`.
    Error,
    /// 4: what ends the program; no session has such events.
    Fatal,
}

/// A number that is no severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no severity has the number {0}: expected a number from 0 to 4")]
pub struct UnknownSeverity(pub i32);

impl TryFrom<i32> for Severity {
    type Error = UnknownSeverity;

    fn try_from(number: i32) -> Result<Self, UnknownSeverity> {
        match number {
            0 => Ok(Self::Verbose),
            1 => Ok(Self::Info),
            2 => Ok(Self::Warning),
            3 => Ok(Self::Error),
            4 => Ok(Self::Fatal),
            _ => Err(UnknownSeverity(number)),
        }
    }
}

/// Which events a session emits, and the name it gives them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    pub(crate) choice: Choice,
    pub(crate) id: Option<Arc<str>>,
}

/// Which events are emitted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Choice {
    /// The least severity; every one if nothing was chosen.
    pub(crate) severity: Option<Severity>,
    /// The most detailed of verbose events; all of them if nothing was chosen.
    pub(crate) verbosity: Option<u32>,
}

impl Log {
    /// Emits an event, unless the session keeps it to itself.
    pub(crate) fn event(&self, severity: Severity, text: fmt::Arguments<'_>) {
        self.of_run(Choice::default()).event(severity, text);
    }

    /// Emits a detail: a verbose event of verbosity 1.
    pub(crate) fn detail(&self, text: fmt::Arguments<'_>) {
        self.of_run(Choice::default()).detail(text);
    }

    /// The same for a run that chooses for itself, as far as it does.
    pub(crate) fn of_run(&self, own: Choice) -> Told<'_> {
        let severity = own.severity.or(self.choice.severity);
        let verbosity = own.verbosity.or(self.choice.verbosity);
        Told { choice: Choice { severity, verbosity }, session: self.id.as_deref() }
    }
}

/// Which events are emitted just now, and the name of the session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told<'a> {
    choice: Choice,
    session: Option<&'a str>,
}

impl Told<'_> {
    /// Emits an event, unless it is kept back.
    pub(crate) fn event(self, severity: Severity, text: fmt::Arguments<'_>) {
        if self.choice.severity.is_some_and(|least| severity < least) {
            return;
        }
        let session = self.session;
        match severity {
            Severity::Verbose => debug!(session, "{text}"),
            Severity::Info => info!(session, "{text}"),
            Severity::Warning => warn!(session, "{text}"),
            Severity::Error | Severity::Fatal => error!(session, "{text}"),
        }
    }

    /// Emits a detail: a verbose event of verbosity 1.
    pub(crate) fn detail(self, text: fmt::Arguments<'_>) {
        let Choice { severity, verbosity } = self.choice;
        let is_on = severity.is_none_or(|least| least == Severity::Verbose);
        if is_on && verbosity.is_none_or(|most| most >= 1) {
            trace!(session = self.session, "{text}");
        }
    }
}
