//! Options of one run.

// collects are bounded: as many as the caller gives

use std::path::PathBuf;

use web_time::{Duration, Instant};

use crate::cancel::Cancel;
use crate::log::{Choice, Severity};

/// Options of one or many runs: using them does not consume them.
///
/// ```
/// use std::time::{Duration, Instant};
/// use ort_session::{Cancel, RunOptions};
///
/// let cancel = Cancel::new();
/// let options = RunOptions::new()
///     .tag("request 17")
///     .deadline(Instant::now() + Duration::from_millis(50))
///     .cancel(&cancel);
/// # drop(options);
/// ```
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    pub(crate) tag: String,
    pub(crate) cancel: Option<Cancel>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) limits: RunLimits,
    pub(crate) outputs: Option<Vec<String>>,
    /// The prefix of the path of the run's own trace.
    pub(crate) profile: Option<PathBuf>,
    /// Which of its events the run emits; unset values are the session's.
    pub(crate) events: Choice,
}

/// The resource limits of a run. Without a number there is none, except that memory is limited to three quarters of
/// that of the machine, or of the smallest control group of the process, minus what loading took for copies of constants and files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunLimits {
    /// The bytes of its blocks and of values outside of them:
    /// [`Session::activations`](crate::Session::activations), temporary memory of operators,
    /// outputs of dynamic steps, and results of loop iterations.
    /// The first is checked before the run starts, the others before they are allocated,
    /// except results of iterations, which are counted afterwards.
    pub max_bytes: Option<usize>,
    /// The duration. A step that exceeds it stops after the current part of its work.
    pub max_time: Option<Duration>,
    /// Iterations of all Loop, Scan and SequenceMap nodes in the run together.
    pub max_iterations: Option<u64>,
}

impl RunOptions {
    /// The default options: no limits, and all outputs are returned.
    pub fn new() -> Self {
        Self::default()
    }

    /// The name of the run: in errors, in traces, and as the field `tag` of a `tracing` span `run`,
    /// which contains all events on the calling thread until the run ends.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tag = tag.into();
        self
    }

    /// Ends the run with [`RunError::Cancelled`](crate::RunError::Cancelled) as soon as `cancel` is
    /// cancelled.
    #[must_use]
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.cancel = Some(cancel.clone());
        self
    }

    /// Ends the run with [`RunError::DeadlineExceeded`](crate::RunError::DeadlineExceeded) if it has
    /// not finished by then.
    #[must_use]
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Ends the run with a [`LimitError`](crate::LimitError) if it exceeds a limit. Those of
    /// [`SessionBuilder::run_limits`](crate::SessionBuilder::run_limits) are the defaults.
    #[must_use]
    pub fn limits(mut self, limits: RunLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Selects these outputs, in this order: only the nodes that they depend on run. The first run with
    /// a set of outputs determines these nodes.
    #[must_use]
    pub fn outputs(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.outputs = Some(names.into_iter().map(Into::into).collect());
        self
    }
}

/// The events of a run.
impl RunOptions {
    /// Profiles this run, whether the session is profiled or not. When the run ends, successfully or
    /// not, the trace is written to a separate file, `PREFIX_2026-01-31_23-59-59_999.json`, like that
    /// of [`SessionBuilder::enable_profiling`](crate::SessionBuilder::enable_profiling); times are
    /// relative to the start of the run. A file that cannot be written costs a warning, and nothing is
    /// overwritten. [`Session::run_profiled`](crate::Session::run_profiled) returns the steps of a run
    /// instead.
    #[must_use]
    pub fn enable_profiling(mut self, prefix: impl Into<PathBuf>) -> Self {
        self.profile = Some(prefix.into());
        self
    }

    /// The minimum severity of events that the run emits through `tracing`; by default that of
    /// [`SessionBuilder::log_severity`](crate::SessionBuilder::log_severity). A failed run emits
    /// [`Severity::Error`], a cancelled run [`Severity::Info`], and the begin and end of
    /// runs are [`Severity::Verbose`].
    #[must_use]
    pub fn log_severity(mut self, least: Severity) -> Self {
        self.events.severity = Some(least);
        self
    }

    /// The maximum verbosity of verbose events: with 0, types of inputs are omitted; by default that of
    /// [`SessionBuilder::log_verbosity`](crate::SessionBuilder::log_verbosity).
    #[must_use]
    pub fn log_verbosity(mut self, most: u32) -> Self {
        self.events.verbosity = Some(most);
        self
    }
}

impl RunLimits {
    /// These limits, with `share` as the limit for memory if there is none.
    pub(crate) fn or_share(self, share: Option<usize>) -> Self {
        Self { max_bytes: self.max_bytes.or(share), ..self }
    }

    /// These limits, with missing ones from `other`.
    pub(crate) fn or(&self, other: &Self) -> Self {
        Self {
            max_bytes: self.max_bytes.or(other.max_bytes),
            max_time: self.max_time.or(other.max_time),
            max_iterations: self.max_iterations.or(other.max_iterations),
        }
    }
}
