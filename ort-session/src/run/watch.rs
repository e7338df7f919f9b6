//! Cancellation, deadline and limits of a run. A run checks them between two steps and between two
//! iterations of a loop, and kernels check between the parts of their work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use ort_graph::ValueId;
use ort_tensor::{Ending, Value};
use web_time::Instant;

use super::ControlError;
use super::ends::Ends;
use super::error::{LimitError, RunError};
use super::frame::Frame;
use crate::plan::{Layout, MadeValues, Place, Plan, Step};
use crate::run_options::{RunLimits, RunOptions};

/// The conditions that stop one run early, and how much of its limits is used.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    options: &'a RunOptions,
    limits: RunLimits,
    start: Instant,
    /// Blocks and values of all active plans, in bytes.
    n_bytes: AtomicUsize,
    n_iterations: AtomicU64,
    /// The conditions for kernels; `None` if the run can neither be cancelled nor time out.
    pub(crate) ending: Option<Arc<dyn Ending>>,
}

impl<'a> Watch<'a> {
    /// For a run whose own limits override those of the session; `None` if nothing can stop it
    /// early.
    pub(crate) fn of(options: &'a RunOptions, of_session: &RunLimits) -> Option<Self> {
        let limits = options.limits.or(of_session);
        let is_limited = limits != RunLimits::default();
        let can_end = is_limited || options.cancel.is_some() || options.deadline.is_some();
        can_end.then(|| {
            let start = Instant::now();
            let (n_bytes, n_iterations) = (AtomicUsize::new(0), AtomicU64::new(0));
            let ending = ending(options, limits.max_time.and_then(|time| start.checked_add(time)));
            Self { options, limits, start, n_bytes, n_iterations, ending }
        })
    }

    /// Checks before a step, or before all.
    ///
    /// # Errors
    /// If the run must stop.
    pub(crate) fn check(&self, plan: &Plan, step: Option<&Step>) -> Result<(), RunError> {
        let options = self.options;
        let tag = || options.tag.clone();
        if options.cancel.as_ref().is_some_and(|cancel| cancel.is_cancelled()) {
            return Err(RunError::Cancelled { tag: tag() });
        }
        if options.deadline.is_none() && self.limits.max_time.is_none() {
            return Ok(());
        }
        let now = Instant::now();
        if options.deadline.is_some_and(|deadline| now >= deadline) {
            return Err(RunError::DeadlineExceeded { tag: tag() });
        }
        let found = now.duration_since(self.start);
        match self.limits.max_time.filter(|limit| found >= *limit) {
            None => Ok(()),
            Some(limit) => {
                let node = label(plan, step.or(plan.steps.first()));
                Err(LimitError::Time { limit, found, node }.into())
            }
        }
    }

    /// Checks before a plan runs, such as the body of a loop, and counts its memory and the inputs that are moved in,
    /// of `n_moved` bytes.
    ///
    /// # Errors
    /// If the run must stop, or exceeds its memory limit.
    pub(crate) fn start(
        &self,
        plan: &Plan,
        layout: &Layout,
        n_moved: usize,
    ) -> Result<Reservation<'_>, RunError> {
        self.check(plan, None)?;
        let planned = layout.arena_bytes.saturating_add(layout.own_bytes).saturating_add(n_moved);
        let held = self.nothing_yet();
        match held.more(planned.min(usize::MAX / 4)) {
            Ok(()) => Ok(held),
            Err(TooMuch { limit, found }) => {
                let most = (0..plan.steps.len()).max_by_key(|&i| layout.live_bytes.get(i));
                let node = label(plan, most.map(|i| &plan.steps[i]));
                Err(LimitError::Bytes { limit, found, node }.into())
            }
        }
    }

    /// The size of values in memory, if it is limited.
    pub(super) fn n_bytes<'v>(&self, values: impl IntoIterator<Item = &'v Value>) -> usize {
        match self.limits.max_bytes {
            None => 0,
            Some(_) => values.into_iter().map(Value::held_bytes).fold(0, usize::saturating_add),
        }
    }

    /// The limit of bytes, and the rest of it; `None` without one.
    pub(super) fn left(&self) -> Option<(usize, usize)> {
        let limit = self.limits.max_bytes?;
        Some((limit, limit.saturating_sub(self.n_bytes.load(Ordering::Relaxed))))
    }

    /// An empty reservation, for the results of iterations.
    pub(crate) fn nothing_yet(&self) -> Reservation<'_> {
        Reservation { watch: self, counted: AtomicUsize::new(0) }
    }

    /// Counts memory that is already in use.
    pub(super) fn holding(&self, n_bytes: usize) -> Reservation<'_> {
        let held = self.nothing_yet();
        let _over_limit = held.add(n_bytes);
        held
    }

    /// Counts an iteration of a loop.
    ///
    /// # Errors
    /// If it exceeds the limit.
    pub(crate) fn iteration(&self) -> Result<(), ControlError> {
        let Some(limit) = self.limits.max_iterations else { return Ok(()) };
        let found = self.n_iterations.fetch_add(1, Ordering::Relaxed) + 1;
        if found <= limit { Ok(()) } else { Err(ControlError::TooOften { limit, found }) }
    }
}

/// More bytes than the limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TooMuch {
    pub(crate) limit: usize,
    pub(crate) found: usize,
}

/// The memory of one active plan or loop; released on drop.
#[derive(Debug)]
pub(crate) struct Reservation<'w> {
    watch: &'w Watch<'w>,
    counted: AtomicUsize,
}

impl Reservation<'_> {
    /// The error of a step that was denied this many bytes.
    pub(super) fn too_much(&self, plan: &Plan, step: &Step, n_bytes: usize) -> RunError {
        let limit = self.watch.limits.max_bytes.unwrap_or(usize::MAX);
        let found = self.watch.n_bytes.load(Ordering::Relaxed).saturating_add(n_bytes);
        // Other memory of the step was counted while it ran.
        let found = found.max(limit.saturating_add(1));
        LimitError::Bytes { limit, found, node: label(plan, Some(step)) }.into()
    }

    /// Counts outputs of a step whose size was not known in advance.
    pub(super) fn made(
        &self,
        frame: &Frame<'_>,
        step: &Step,
        made: &MadeValues,
    ) -> Result<(), RunError> {
        if self.watch.limits.max_bytes.is_none() {
            return Ok(());
        }
        let outputs = step.outputs.iter().flatten();
        let n_bytes = outputs.map(|&id| n_dynamic_bytes(frame, id, made.get(id))).sum();
        self.add(n_bytes).map_err(|TooMuch { limit, found }| {
            LimitError::Bytes { limit, found, node: label(frame.plan, Some(step)) }.into()
        })
    }

    /// Stops counting a dropped value.
    pub(super) fn cleared(&self, frame: &Frame<'_>, id: ValueId, value: Option<&Value>) {
        if self.watch.limits.max_bytes.is_some() {
            let n_bytes = n_dynamic_bytes(frame, id, value);
            self.counted.fetch_sub(n_bytes, Ordering::Relaxed);
            self.watch.n_bytes.fetch_sub(n_bytes, Ordering::Relaxed);
        }
    }

    /// Counts memory that no layout does.
    pub(crate) fn more(&self, n_bytes: usize) -> Result<(), TooMuch> {
        self.watch.limits.max_bytes.map_or(Ok(()), |_| self.add(n_bytes))
    }

    fn add(&self, n_bytes: usize) -> Result<(), TooMuch> {
        self.counted.fetch_add(n_bytes, Ordering::Relaxed);
        let found = self.watch.n_bytes.fetch_add(n_bytes, Ordering::Relaxed) + n_bytes;
        match self.watch.limits.max_bytes.filter(|limit| found > *limit) {
            None => Ok(()),
            Some(limit) => Err(TooMuch { limit, found }),
        }
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.watch.n_bytes.fetch_sub(*self.counted.get_mut(), Ordering::Relaxed);
    }
}

/// The memory of a value whose size the layout does not count: one of dynamic size, or an input that was moved in.
fn n_dynamic_bytes(frame: &Frame<'_>, id: ValueId, value: Option<&Value>) -> usize {
    match frame.place(id) {
        Place::Dynamic | Place::Input { .. } => value.map_or(0, Value::held_bytes),
        _ => 0,
    }
}

fn ending(options: &RunOptions, end: Option<Instant>) -> Option<Arc<dyn Ending>> {
    let deadline = options.deadline.into_iter().chain(end).min();
    let cancel = options.cancel.clone();
    let can_end = cancel.is_some() || deadline.is_some();
    can_end.then(|| Arc::new(Ends { cancel, deadline }) as Arc<dyn Ending>)
}

fn label(plan: &Plan, step: Option<&Step>) -> String {
    step.map_or_else(String::new, |step| plan.graph.node(step.node).label().to_owned())
}
