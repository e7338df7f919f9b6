//! A plan: the flat list of steps that a graph compiles to, and its layouts.
//!
//! Compiling looks at the graph once: who runs which nodes ([`compile`]), in which order. A
//! [`Layout`] looks at one signature of input shapes: which shape every value has, and where in
//! the run's memory it lives. A run then only walks the steps.

mod arena;
mod branches;
mod compile;
mod extensions;
mod layout;
mod liveness;
mod order;
mod pool;
mod regions;
mod selection;
mod shapes;
mod signatures;
mod split;
mod unread;

use ort_ep::Kernel;
use ort_graph::{Graph, NodeId, ValueId};
use smallvec::SmallVec;

pub(crate) use self::branches::Branches;
pub(crate) use self::compile::Compiler;
pub use self::compile::PlanError;
pub(crate) use self::layout::{Layout, Place, StepLayout};
use self::order::takers_last;
pub(crate) use self::pool::{MadeValues, Pool, State};
use self::regions::ParallelRegions;
pub(crate) use self::selection::Selection;
use self::selection::Selections;
pub(crate) use self::shapes::{Args, fact_of};
pub(crate) use self::split::{Piece, Pieces, Slab, Slabs, Split, divide};
pub(crate) use self::unread::Released;
use crate::control::ScanSpec;

/// A graph that is ready to run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) graph: Graph,
    /// The graph's nodes in topological order.
    pub(crate) order: Vec<NodeId>,
    pub(crate) steps: Vec<Step>,
    /// Where branches of the graph may run side by side.
    regions: ParallelRegions,
    /// All outputs, as most runs want them.
    pub(crate) whole: Selection,
    /// Those that runs chose of late.
    chosen: Selections,
    /// Memory for runs, whatever their signature.
    pub(crate) pool: Pool,
    /// Whether it is run by a step of another plan, which may move inputs in.
    pub(crate) is_body: bool,
}

/// One step of a plan.
#[derive(Debug)]
pub(crate) struct Step {
    /// The node that the step is named after.
    pub(crate) node: NodeId,
    /// The nodes that run before it as part of the step.
    pub(crate) nodes_before: SmallVec<[NodeId; 0]>,
    /// What it reads. A step of control flow reads what its subgraphs capture after its inputs.
    pub(crate) inputs: SmallVec<[Option<ValueId>; 4]>,
    pub(crate) outputs: SmallVec<[Option<ValueId>; 1]>,
    /// Pairs (input, output) that may share memory.
    pub(crate) in_place: SmallVec<[(usize, usize); 1]>,
    pub(crate) action: Action,
}

/// What a step does.
#[derive(Debug)]
pub(crate) enum Action {
    /// A provider's kernel computes the outputs.
    Run {
        /// The kernel.
        kernel: Box<dyn Kernel>,
        /// The provider's place in the session's list.
        provider: usize,
        /// Output 0 is input 0 under another shape: where the layout can say so, nothing runs.
        is_alias: bool,
    },
    /// Runs one of two plans.
    If { then_branch: SubPlan, else_branch: SubPlan },
    /// Runs a plan while its first output is true.
    Loop { body: SubPlan },
    /// Runs a plan for each slice of its scanned inputs.
    Scan { body: SubPlan, scan: ScanSpec },
    /// Runs a plan for each item of its sequences.
    SequenceMap { body: SubPlan },
}

/// A subgraph's plan, and where it finds what it captures.
#[derive(Debug)]
pub(crate) struct SubPlan {
    pub(crate) plan: Box<Plan>,
    /// For each capture of the subgraph, the position among the step's inputs.
    pub(crate) captures: Vec<usize>,
}

impl Step {
    /// The place of the provider that runs it in the session's list.
    pub(crate) const fn provider(&self) -> Option<usize> {
        match self.action {
            Action::Run { provider, .. } => Some(provider),
            _ => None,
        }
    }
}

impl Plan {
    /// For steps in topological order; `n_branches` may run side by side.
    pub(crate) fn new(
        graph: Graph,
        order: Vec<NodeId>,
        steps: Vec<Step>,
        n_branches: usize,
    ) -> Self {
        let steps = takers_last(&graph, steps);
        let (steps, regions) = ParallelRegions::arrange(&graph, steps, n_branches);
        let whole = Selection::new(&graph, &steps, graph.outputs());
        let (chosen, pool) = (Selections::default(), Pool::new(pool::N_STATES));
        Self { graph, order, steps, regions, whole, chosen, pool, is_body: false }
    }

    /// Every plan below this one, this one included.
    pub(crate) fn visit(&self, visit: &mut dyn FnMut(&Plan)) {
        visit(self);
        for step in &self.steps {
            match &step.action {
                Action::Run { .. } => {}
                Action::If { then_branch, else_branch } => {
                    then_branch.plan.visit(visit);
                    else_branch.plan.visit(visit);
                }
                Action::Loop { body }
                | Action::Scan { body, .. }
                | Action::SequenceMap { body } => body.plan.visit(visit),
            }
        }
    }

    /// The same, to edit.
    pub(crate) fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut Plan)) {
        visit(self);
        for step in &mut self.steps {
            match &mut step.action {
                Action::Run { .. } => {}
                Action::If { then_branch, else_branch } => {
                    then_branch.plan.visit_mut(visit);
                    else_branch.plan.visit_mut(visit);
                }
                Action::Loop { body }
                | Action::Scan { body, .. }
                | Action::SequenceMap { body } => body.plan.visit_mut(visit),
            }
        }
    }
}
