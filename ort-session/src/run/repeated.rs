//! The body of a loop: a plan that runs repeatedly on its own outputs.
//!
//! Layout and memory are reused between iterations. Loop-carried values are moved in, so that a
//! step that reads one last may turn it into its output, and outputs are moved out.

// collects are bounded: as long as the graph's lists

use std::sync::Arc;

use ort_tensor::{Value, ValueView};
use smallvec::SmallVec;

use super::error::RunError;
use super::frame::Frame;
use super::targets::Targets;
use super::watch::Reservation;
use super::{Given, Run};
use crate::check::check_body_inputs;
use crate::plan::{Args, Layout, Plan, State};

/// An input of a body.
#[derive(Debug)]
pub(crate) enum Arg<'v> {
    /// A borrowed value.
    View(ValueView<'v>),
    /// A value that the body owns.
    Moved(Value),
}

/// A plan that runs repeatedly with the same captured values.
#[derive(Debug)]
pub(crate) struct Repeated<'r> {
    run: &'r Run<'r>,
    plan: &'r Plan,
    captures: &'r [ValueView<'r>],
    /// The layout of the last iteration, and its memory.
    ready: Option<(Arc<Layout>, Box<State>)>,
    /// Counts what the next iteration is passed, until it starts.
    held: Option<Reservation<'r>>,
}

impl Arg<'_> {
    fn moved(&self) -> Option<&Value> {
        match self {
            Self::View(_) => None,
            Self::Moved(value) => Some(value),
        }
    }

    fn view(&self) -> ValueView<'_> {
        match self {
            Self::View(view) => *view,
            Self::Moved(value) => value.view(),
        }
    }
}

impl<'r> Repeated<'r> {
    pub(crate) fn new(run: &'r Run<'r>, plan: &'r Plan, captures: &'r [ValueView<'r>]) -> Self {
        Self { run, plan, captures, ready: None, held: None }
    }

    /// [`Repeated::lay_out`] on inputs of the declared shapes.
    ///
    /// # Errors
    /// If one has another: the shapes of the outputs were inferred from the declared ones.
    pub(crate) fn lay_out_declared(&mut self, args: &[Arg<'_>]) -> Result<&Layout, RunError> {
        check_body_inputs(&self.plan.graph, args.iter().map(Arg::view))?;
        self.lay_out(args)
    }

    /// Prepares an iteration on these inputs, and returns its layout. Dimensions
    /// that differ from the previous iteration are assumed to change
    /// again, so that a loop is not planned in each iteration.
    pub(crate) fn lay_out(&mut self, args: &[Arg<'_>]) -> Result<&Layout, RunError> {
        let views: SmallVec<[ValueView<'_>; 8]> = args.iter().map(Arg::view).collect();
        let views = Args { inputs: &views, captures: self.captures };
        let (plan, memory) = (self.plan, self.run.memory);
        let is_as_before = self.ready.as_ref().is_some_and(|(layout, _)| layout.serves(&views));
        if !is_as_before {
            let before = self.ready.take();
            let layout = self.run.bounded(|| match &before {
                None => plan.layout(&plan.whole, &views),
                Some((before, _)) => plan.looser_layout(&plan.whole, &views, before),
            })?;
            if let Some((_, state)) = before {
                self.run.put(plan, state);
            }
            let state = memory.take(plan, &layout)?;
            self.ready = Some((layout, state));
        }
        match &self.ready {
            Some((layout, _)) => Ok(layout),
            None => Err(RunError::NotComputed { value: String::new() }),
        }
    }

    /// Runs one iteration; returns all outputs without a target, in order.
    pub(crate) fn run(
        &mut self,
        args: SmallVec<[Arg<'_>; 8]>,
        targets: &mut Targets<'_>,
    ) -> Result<Vec<Value>, RunError> {
        self.lay_out(&args)?;
        let Some((layout, state)) = &mut self.ready else {
            return Err(RunError::NotComputed { value: String::new() });
        };
        self.held = None;
        let (plan, watch) = (self.plan, self.run.watch);
        let n_moved = watch.map_or(0, |watch| watch.n_bytes(args.iter().filter_map(Arg::moved)));
        let held = watch.map(|watch| watch.start(plan, layout, n_moved)).transpose()?;
        let inputs = plan.graph.inputs();
        let mut given: SmallVec<[Option<ValueView<'_>>; 8]> = SmallVec::new();
        for (arg, &id) in args.into_iter().zip(inputs) {
            given.push(match arg {
                Arg::View(view) => Some(view),
                Arg::Moved(value) => {
                    state.made.set(id, value);
                    None
                }
            });
        }
        let given = Given { inputs: &given, captures: self.captures };
        let outputs = plan.graph.outputs().iter().copied();
        let outputs: SmallVec<[_; 8]> = outputs.filter(|&id| !targets.has(id)).collect();
        let frame = Frame { plan, layout, given, outputs: &outputs, held: held.as_ref() };
        self.run.frame(&frame, state, targets)
    }

    /// Counts values that are moved into the next iteration, until it starts.
    pub(crate) fn hold(&mut self, args: &[Arg<'_>]) {
        let moved = args.iter().filter_map(Arg::moved);
        self.held = self.run.watch.map(|watch| watch.holding(watch.n_bytes(moved)));
    }
}

impl Drop for Repeated<'_> {
    fn drop(&mut self) {
        if let Some((_, state)) = self.ready.take() {
            self.run.put(self.plan, state);
        }
    }
}
