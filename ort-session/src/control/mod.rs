//! Control flow: If, Loop, Scan and SequenceMap run sub-plans.
//!
//! Loop-carried values are moved into the body and out of it. Scanned inputs are read in
//! place, and stacked outputs are written in place.

// collects are bounded: as long as the graph's lists

mod loops;
mod scan;
mod sequence_map;
mod slices;
mod stack;

use ort_ep::KernelError;
use ort_graph::OpError;
use ort_tensor::{Bool, TensorError, Value, ValueView};
use smallvec::SmallVec;

pub(crate) use self::scan::ScanSpec;
use crate::plan::{Action, SubPlan};
use crate::run::{Arg, ControlError, Repeated, Reservation, Run, Targets, Views};

/// The inputs of one iteration.
type Arguments<'v> = SmallVec<[Arg<'v>; 8]>;

/// The values that a subgraph captures.
type Captures<'v> = SmallVec<[ValueView<'v>; 8]>;

impl Run<'_> {
    /// Runs a control flow step. The first `n_own` of `inputs` are the node's, the others
    /// are captured by its subgraphs.
    pub(crate) fn control(
        &self,
        action: &Action,
        inputs: &Views<'_>,
        n_own: usize,
    ) -> Result<Vec<Value>, ControlError> {
        match action {
            Action::If { then_branch, else_branch } => {
                let branch = if truth(inputs, 0)? { then_branch } else { else_branch };
                let captures = captures(branch, inputs)?;
                let mut branch = Repeated::new(self, &branch.plan, &captures);
                let made = branch.run(Arguments::new(), &mut Targets::default());
                made.map_err(ControlError::Run)
            }
            Action::Loop { body } => self.run_loop(body, inputs, n_own),
            Action::Scan { body, scan } => self.run_scan(body, scan, inputs, n_own),
            Action::SequenceMap { body } => self.run_sequence_map(body, &inputs[..n_own], inputs),
            Action::Run { .. } => Ok(Vec::new()),
        }
    }

    /// Starts one iteration of a loop, unless the run exceeds its limit.
    fn iteration(
        &self,
        body: &mut Repeated<'_>,
        args: Arguments<'_>,
        targets: &mut Targets<'_>,
    ) -> Result<Vec<Value>, ControlError> {
        self.watch.map_or(Ok(()), |watch| watch.iteration())?;
        body.run(args, targets).map_err(ControlError::Run)
    }
}

/// What an item of a list takes in addition to its elements, in bytes.
const ITEM_BYTES: usize = 256;

/// Counts the memory of a loop's results, if the run has a limit.
#[derive(Debug)]
struct Held<'r>(Option<Reservation<'r>>);

impl<'r> Held<'r> {
    /// Nothing yet.
    fn new(run: &Run<'r>) -> Self {
        Self(run.watch.map(|watch| watch.nothing_yet()))
    }

    fn more(&self, n_bytes: usize) -> Result<(), ControlError> {
        self.0.as_ref().map_or(Ok(()), |held| held.more(n_bytes).map_err(ControlError::TooMuch))
    }
}

fn captures<'v>(sub: &SubPlan, outer: &Views<'v>) -> Result<Captures<'v>, TensorError> {
    let captured = |&index: &usize| outer[index].ok_or(TensorError::MissingInput { index });
    sub.captures.iter().map(captured).collect()
}

fn truth(inputs: &Views<'_>, index: usize) -> Result<bool, KernelError> {
    let view = inputs.get(index).copied().flatten().ok_or(TensorError::MissingInput { index })?;
    Ok(first(view.tensor()?.as_slice::<Bool>()?, index)?.get())
}

fn first<T: Copy>(values: &[T], index: usize) -> Result<T, OpError> {
    values.first().copied().ok_or(OpError::InputValue { index, what: "should have one element" })
}

fn axis(axis: i64, rank: usize) -> Result<usize, OpError> {
    ort_ops::infer::normalize_axis(axis, rank)
}
