//! What was noted: spans of time, and the steps of runs. All times count from when the session began to be
//! built; those of [`Session::run_profiled`](crate::Session::run_profiled) from when the run began.

use std::borrow::Cow;
use std::sync::Arc;

use ort_ep::DenormalsMet;
use smallvec::SmallVec;
use web_time::{Duration, Instant};

use super::recorder::Recorder;
use super::thread;
use super::work::StepWork;

/// What was noted of a session: see [`SessionBuilder::collect_trace`](crate::SessionBuilder::collect_trace).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Trace {
    /// The stages of loading, each when it was over.
    pub spans: Vec<Span>,
    /// The runs, likewise.
    pub runs: Vec<RunTimes>,
    /// How many runs are left out because there was no more room: a trace has a million steps at most.
    pub n_dropped: usize,
    /// Those of all runs.
    pub(super) n_steps: usize,
}

/// A stage of loading.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Span {
    /// What was done.
    pub name: Cow<'static, str>,
    /// When it began.
    pub start: Duration,
    /// How long it took.
    pub time: Duration,
    /// The thread that did it.
    pub thread: u64,
    /// What else is to be said of it.
    pub args: Vec<(&'static str, String)>,
}

/// A run of the model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunTimes {
    /// What [`RunOptions::tag`](crate::RunOptions::tag) called it.
    pub tag: String,
    /// When it began.
    pub start: Duration,
    /// How long it took.
    pub time: Duration,
    /// The thread that called for it.
    pub thread: u64,
    /// Its steps in the order in which they ended: those of subgraphs before the step that runs them.
    pub steps: Vec<StepTime>,
}

/// One step of one run.
#[derive(Clone, Debug)]
pub struct StepTime {
    /// What it computed.
    pub work: Arc<StepWork>,
    /// When it began.
    pub start: Duration,
    /// How long it took.
    pub time: Duration,
    /// The thread that ran it, alone or with others.
    pub thread: u64,
    /// What other threads did of it.
    pub helpers: SmallVec<[Share; 1]>,
    /// The denormals met on all these threads, as far as the processor tells: no operand that counts as
    /// zero, nothing of what matrix tiles do. `None` if it tells nothing, and for control flow, whose
    /// subgraphs have steps of their own.
    pub denormals: Option<DenormalsMet>,
}

/// What one other thread did of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// The thread.
    pub thread: u64,
    /// How often it came to help.
    pub n_turns: u64,
    /// When it first came.
    pub start: Duration,
    /// From then until it last went.
    pub time: Duration,
    /// How long it was at work in this time.
    pub busy: Duration,
}

impl Trace {
    /// That of one run; times count from its beginning.
    pub(crate) fn of_run(run: &RunTimes) -> Self {
        let mut run = run.clone();
        let begin = std::mem::take(&mut run.start);
        for step in &mut run.steps {
            step.start = step.start.saturating_sub(begin);
            for share in &mut step.helpers {
                share.start = share.start.saturating_sub(begin);
            }
        }
        Self { n_steps: run.steps.len(), runs: vec![run], ..Self::default() }
    }
}

impl RunTimes {
    /// A run that began at `begin` and is over now.
    pub(crate) fn until_now(recorder: Recorder<'_>, begin: Instant, tag: String) -> Self {
        let (start, time) = (begin.duration_since(recorder.origin()), begin.elapsed());
        Self { tag, start, time, thread: thread::id(), steps: recorder.into_steps() }
    }
}

impl StepTime {
    /// Whether a denormal was met.
    pub fn met_denormal(&self) -> bool {
        self.denormals.is_some_and(|met| met != DenormalsMet::default())
    }
}
