//! Options of one run.

// collects are bounded: as many as the caller gives

use std::path::PathBuf;

use web_time::{Duration, Instant};

use crate::cancel::Cancel;
use crate::log::{Choice, Severity};

/// Options of one run, or of many: nothing in them is used up.
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
    /// The start of the path of the run's own trace.
    pub(crate) profile: Option<PathBuf>,
    /// Which of its events the run emits, as far as it chooses.
    pub(crate) told: Choice,
}

/// What a run may use; without a number, as much as it takes, but of memory three quarters of what the
/// machine, or the smallest control group that the process is in, has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunLimits {
    /// Bytes of its blocks of memory and of the values beside them: what
    /// [`Session::activations`](crate::Session::activations) tells, what operators need beside it
    /// while they compute, what dynamic steps make, and what the iterations of a loop leave behind.
    /// The first is refused before the run begins, the others before they are taken from the system,
    /// but for what an iteration leaves, which is counted after it.
    pub max_bytes: Option<usize>,
    /// How long it may take. A step that passes it ends with the part of its work that it is at.
    pub max_time: Option<Duration>,
    /// Iterations of Loop, Scan and SequenceMap, of all in the run together.
    pub max_iterations: Option<u64>,
}

impl RunOptions {
    /// No options: the run goes to its end, and all outputs are the caller's.
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

/// What is told of it.
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
    /// [`Severity::Error`], a run that was ended early [`Severity::Info`], and the begin and end of
    /// runs are [`Severity::Verbose`].
    #[must_use]
    pub fn log_severity(mut self, least: Severity) -> Self {
        self.told.severity = Some(least);
        self
    }

    /// The maximum verbosity of verbose events: with 0, types of inputs are omitted; by default that of
    /// [`SessionBuilder::log_verbosity`](crate::SessionBuilder::log_verbosity).
    #[must_use]
    pub fn log_verbosity(mut self, most: u32) -> Self {
        self.told.verbosity = Some(most);
        self
    }
}

impl RunLimits {
    /// These limits, with memory of at most so many bytes where they say nothing.
    pub(crate) fn or_share(self, share: Option<usize>) -> Self {
        Self { max_bytes: self.max_bytes.or(share), ..self }
    }

    /// These limits, and the other ones where these say nothing.
    pub(crate) fn or(&self, other: &Self) -> Self {
        Self {
            max_bytes: self.max_bytes.or(other.max_bytes),
            max_time: self.max_time.or(other.max_time),
            max_iterations: self.max_iterations.or(other.max_iterations),
        }
    }
}
