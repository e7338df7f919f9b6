//! The events that a session emits through `tracing`.
//!
//! Where events go is decided by the program, which subscribes to them. In addition, a session can choose which
//! of its events are emitted at all, like ONNX Runtime's sessions.

use std::fmt;
use std::sync::Arc;

use tracing::{debug, error, info, trace, warn};

/// The severity of an event: ONNX Runtime's numbers and names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// 0: the begin and end of runs; `DEBUG`, and `TRACE` for details.
    Verbose,
    /// 1: what was loaded, optimized and compiled, and cancelled runs; `INFO`.
    Info,
    /// 2: harmless anomalies; `WARN`.
    Warning,
    /// 3: failed runs; `ERROR`.
    Error,
    /// 4: errors that end the program; sessions do not emit them.
    Fatal,
}

/// A number without a severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown severity {0}: expected a number from 0 to 4")]
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

/// Which events a session emits, and its name in them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    pub(crate) choice: Choice,
    pub(crate) id: Option<Arc<str>>,
}

/// Which events are emitted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Choice {
    /// The minimum severity; all if there is none.
    pub(crate) severity: Option<Severity>,
    /// The maximum verbosity of verbose events; all if there is none.
    pub(crate) verbosity: Option<u32>,
}

impl Log {
    /// Emits an event, unless it is filtered out.
    pub(crate) fn event(&self, severity: Severity, text: fmt::Arguments<'_>) {
        self.of_run(Choice::default()).event(severity, text);
    }

    /// Emits a detail: a verbose event of verbosity 1.
    pub(crate) fn detail(&self, text: fmt::Arguments<'_>) {
        self.of_run(Choice::default()).detail(text);
    }

    /// The same for a run, whose own choice takes precedence.
    pub(crate) fn of_run(&self, own: Choice) -> Events<'_> {
        let severity = own.severity.or(self.choice.severity);
        let verbosity = own.verbosity.or(self.choice.verbosity);
        Events { choice: Choice { severity, verbosity }, session: self.id.as_deref() }
    }
}

/// Which events are emitted, and the name of the session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Events<'a> {
    choice: Choice,
    session: Option<&'a str>,
}

impl Events<'_> {
    /// Emits an event, unless it is filtered out.
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
