//! Options of one run.

// collects are bounded: as many as the caller gives

use std::path::PathBuf;
use std::time::{Duration, Instant};

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

    /// What the run is called: in errors, in traces, and by the field `tag` of a `tracing` span `run`, which
    /// has all that is told on the calling thread until the run is over.
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

    /// Ends the run with [`RunError::DeadlineExceeded`](crate::RunError::DeadlineExceeded) if it is
    /// not done by then.
    #[must_use]
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Ends the run with a [`LimitError`](crate::LimitError) if it wants more. Where these say
    /// nothing, those of [`SessionBuilder::run_limits`](crate::SessionBuilder::run_limits) hold.
    #[must_use]
    pub fn limits(mut self, limits: RunLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Asks for these outputs only, in this order: nodes that none of them needs do not run. What a
    /// set of outputs needs is worked out in its first run.
    #[must_use]
    pub fn outputs(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.outputs = Some(names.into_iter().map(Into::into).collect());
        self
    }
}

/// What is told of it.
impl RunOptions {
    /// Notes where this run's time goes, whether the session is profiled or not. When the run is over,
    /// done or failed, this is written to a file of its own, `PREFIX_2026-01-31_23-59-59_999.json`, as
    /// that of [`SessionBuilder::enable_profiling`](crate::SessionBuilder::enable_profiling); times count
    /// from when the run began. A file that cannot be written costs a warning, and nothing is ever
    /// overwritten. [`Session::run_profiled`](crate::Session::run_profiled) gives the steps of a run
    /// instead.
    #[must_use]
    pub fn enable_profiling(mut self, prefix: impl Into<PathBuf>) -> Self {
        self.profile = Some(prefix.into());
        self
    }

    /// The least severity of events that the run emits through `tracing`; by default that of
    /// [`SessionBuilder::log_severity`](crate::SessionBuilder::log_severity). A run that fails tells so
    /// with [`Severity::Error`], one that is ended early with [`Severity::Info`], and
    /// [`Severity::Verbose`] is when it begins and ends.
    #[must_use]
    pub fn log_severity(mut self, least: Severity) -> Self {
        self.told.severity = Some(least);
        self
    }

    /// How detailed verbose events are at most: with 0, types of inputs are not told; by default that
    /// of [`SessionBuilder::log_verbosity`](crate::SessionBuilder::log_verbosity).
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
