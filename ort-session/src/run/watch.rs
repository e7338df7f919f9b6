//! What may end a run before its end. A run looks at it between two steps and between two
//! iterations of a loop; a kernel that has begun ends first.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use ort_tensor::{Value, n_elements};

use super::ControlError;
use super::error::{LimitError, RunError};
use super::frame::Frame;
use crate::plan::{Layout, Place, Plan, State, Step};
use crate::run_options::{RunLimits, RunOptions};

/// What may end one run early, and how much of its limits it has used.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    options: &'a RunOptions,
    limits: RunLimits,
    start: Instant,
    /// Blocks and values of all plans that are under way, in bytes.
    n_bytes: AtomicUsize,
    n_iterations: AtomicU64,
}

impl<'a> Watch<'a> {
    /// For a run whose own limits stand before those of the session; `None` if nothing can end it
    /// early.
    pub(crate) fn of(options: &'a RunOptions, of_session: &RunLimits) -> Option<Self> {
        let limits = options.limits.or(of_session);
        let is_limited = limits != RunLimits::default();
        let can_end = is_limited || options.cancel.is_some() || options.deadline.is_some();
        can_end.then(|| Self {
            options,
            limits,
            start: Instant::now(),
            n_bytes: AtomicUsize::new(0),
            n_iterations: AtomicU64::new(0),
        })
    }

    /// Looks before a step, or before any.
    ///
    /// # Errors
    /// If the run is to end.
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

    /// Looks before a plan runs, the body of a loop for one, and counts what it will hold.
    ///
    /// # Errors
    /// If the run is to end, or would hold too much.
    pub(crate) fn start(&self, plan: &Plan, layout: &Layout) -> Result<Held<'_>, RunError> {
        self.check(plan, None)?;
        let planned = match self.limits.max_bytes {
            None => 0,
            Some(_) => layout.arena_bytes + layout.places.iter().map(own_bytes).sum::<usize>(),
        };
        let held = Held { watch: self, planned, counted: Cell::new(0) };
        held.set(planned, || {
            let most = (0..plan.steps.len()).max_by_key(|&i| layout.live_bytes.get(i));
            label(plan, most.map(|i| &plan.steps[i]))
        })?;
        Ok(held)
    }

    /// To count what the iterations of a loop leave behind.
    pub(super) fn collect(&self) -> Held<'_> {
        Held { watch: self, planned: 0, counted: Cell::new(0) }
    }

    /// Counts an iteration of a loop.
    ///
    /// # Errors
    /// If it is one too many.
    pub(crate) fn iteration(&self) -> Result<(), ControlError> {
        let Some(limit) = self.limits.max_iterations else { return Ok(()) };
        let found = self.n_iterations.fetch_add(1, Ordering::Relaxed) + 1;
        if found <= limit { Ok(()) } else { Err(ControlError::TooOften { limit, found }) }
    }
}

/// More bytes than the run may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TooMuch {
    pub(crate) limit: usize,
    pub(crate) found: usize,
}

/// What one plan or loop that is under way holds; nothing any more when this is dropped.
#[derive(Debug)]
pub(crate) struct Held<'w> {
    watch: &'w Watch<'w>,
    /// The block, and outputs of known shape.
    planned: usize,
    counted: Cell<usize>,
}

impl Held<'_> {
    /// Counts the values again, now that a step has made some whose size was not known.
    pub(super) fn made(
        &self,
        frame: &Frame<'_>,
        step: &Step,
        state: &State,
    ) -> Result<(), RunError> {
        if self.watch.limits.max_bytes.is_none() {
            return Ok(());
        }
        let places = frame.layout.places.iter().zip(&state.values);
        let dynamic = places.filter(|(place, _)| matches!(place, Place::Dynamic));
        let n_bytes = dynamic.filter_map(|(_, value)| value.as_ref()).map(bytes_of).sum::<usize>();
        self.set(self.planned + n_bytes, || label(frame.plan, Some(step)))
    }

    fn set(&self, n_bytes: usize, node: impl Fn() -> String) -> Result<(), RunError> {
        let TooMuch { limit, found } = match self.count(n_bytes) {
            Ok(()) => return Ok(()),
            Err(too_much) => too_much,
        };
        Err(LimitError::Bytes { limit, found, node: node() }.into())
    }

    /// Counts a value that an iteration of a loop leaves behind.
    pub(super) fn more(&self, value: &Value) -> Result<(), TooMuch> {
        if self.watch.limits.max_bytes.is_none() {
            return Ok(());
        }
        self.count(self.counted.get() + bytes_of(value))
    }

    fn count(&self, n_bytes: usize) -> Result<(), TooMuch> {
        let n_bytes_before = self.counted.replace(n_bytes);
        let total = &self.watch.n_bytes;
        let found = total.fetch_add(n_bytes, Ordering::Relaxed) + n_bytes - n_bytes_before;
        total.fetch_sub(n_bytes_before, Ordering::Relaxed);
        match self.watch.limits.max_bytes.filter(|limit| found > *limit) {
            None => Ok(()),
            Some(limit) => Err(TooMuch { limit, found }),
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.watch.n_bytes.fetch_sub(self.counted.get(), Ordering::Relaxed);
    }
}

/// The memory of an output of known shape.
fn own_bytes(place: &Place) -> usize {
    match place {
        Place::Own { dtype, shape, .. } => {
            n_elements(shape).and_then(|n| dtype.n_bytes(n)).unwrap_or(usize::MAX / 4)
        }
        _ => 0,
    }
}

fn bytes_of(value: &Value) -> usize {
    match value {
        Value::Tensor(tensor) => tensor.n_bytes(),
        Value::Sequence(items) => items.iter().map(bytes_of).sum(),
        Value::Optional(Some(value)) => bytes_of(value),
        _ => 0,
    }
}

fn label(plan: &Plan, step: Option<&Step>) -> String {
    step.map_or_else(String::new, |step| plan.graph.node(step.node).label().to_owned())
}
