//! Recorded data: spans, and the steps of runs. All times are relative to when the builder was committed;
//! those of [`Session::run_profiled`](crate::Session::run_profiled) to the start of the run.

use std::borrow::Cow;
use std::sync::Arc;

use ort_ep::DenormalsMet;
use smallvec::SmallVec;
use web_time::{Duration, Instant};

use super::recorder::Recorder;
use super::thread;
use super::work::StepWork;

/// The profile of a session: see [`SessionBuilder::collect_trace`](crate::SessionBuilder::collect_trace).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Trace {
    /// The stages of loading, ordered by their ends.
    pub spans: Vec<Span>,
    /// The runs, ordered by their ends.
    pub runs: Vec<RunTimes>,
    /// The number of dropped runs, after the limit of a million steps.
    pub n_dropped: usize,
    /// The number of steps of all runs.
    pub(super) n_steps: usize,
}

/// A stage of loading.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Span {
    /// The name of the stage.
    pub name: Cow<'static, str>,
    /// The start.
    pub start: Duration,
    /// The duration.
    pub time: Duration,
    /// The thread.
    pub thread: u64,
    /// Further details.
    pub args: Vec<(&'static str, String)>,
}

/// A run of the model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunTimes {
    /// The [`RunOptions::tag`](crate::RunOptions::tag).
    pub tag: String,
    /// The start.
    pub start: Duration,
    /// The duration.
    pub time: Duration,
    /// The calling thread.
    pub thread: u64,
    /// Its steps ordered by their ends: those of subgraphs before the step that runs them.
    pub steps: Vec<StepTime>,
}

/// One step of one run.
#[derive(Clone, Debug)]
pub struct StepTime {
    /// What it computed.
    pub work: Arc<StepWork>,
    /// The start.
    pub start: Duration,
    /// The duration.
    pub time: Duration,
    /// The thread that ran it, alone or with others.
    pub thread: u64,
    /// The shares of other threads.
    pub helpers: SmallVec<[Share; 1]>,
    /// The denormals met on all these threads, as far as the processor reports them: not for operands that are treated as
    /// zero, nor for matrix tiles. `None` if it reports nothing, and for control flow, whose
    /// subgraphs have their own steps.
    pub denormals: Option<DenormalsMet>,
}

/// The share of another thread in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// The thread.
    pub thread: u64,
    /// How often it helped.
    pub n_turns: u64,
    /// When it first helped.
    pub start: Duration,
    /// The time from its first start to its last end.
    pub time: Duration,
    /// The time it worked within that.
    pub busy: Duration,
}

impl Trace {
    /// The trace of one run; times are relative to its start.
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
    /// A run that started at `begin` and ends now.
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
