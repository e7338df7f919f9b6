//! A plan: the flat list of steps that a graph is compiled to, and its layouts.
//!
//! Compilation processes the graph once: it assigns nodes to providers ([`compile`]) and orders them. A
//! [`Layout`] is computed for one signature of input shapes: the shape of every value, and its place in
//! the run's memory. A run only executes the steps.

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

/// A graph that is compiled to steps.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) graph: Graph,
    /// The graph's nodes in topological order.
    pub(crate) order: Vec<NodeId>,
    pub(crate) steps: Vec<Step>,
    /// The parallel regions.
    regions: ParallelRegions,
    /// All outputs, as in most runs.
    pub(crate) whole: Selection,
    /// Selections of recent runs.
    chosen: Selections,
    /// Memory of runs, for any signature.
    pub(crate) pool: Pool,
    /// Whether a step of another plan runs it, which may move inputs in.
    pub(crate) is_body: bool,
}

/// One step of a plan.
#[derive(Debug)]
pub(crate) struct Step {
    /// The node after which the step is named.
    pub(crate) node: NodeId,
    /// The nodes that run before it in the same step.
    pub(crate) nodes_before: SmallVec<[NodeId; 0]>,
    /// Its inputs. For control flow, the captures of its subgraphs follow.
    pub(crate) inputs: SmallVec<[Option<ValueId>; 4]>,
    pub(crate) outputs: SmallVec<[Option<ValueId>; 1]>,
    /// Pairs (input, output) that may share memory.
    pub(crate) in_place: SmallVec<[(usize, usize); 1]>,
    pub(crate) action: Action,
}

/// The action of a step.
#[derive(Debug)]
pub(crate) enum Action {
    /// A provider's kernel computes the outputs.
    Run {
        /// The kernel.
        kernel: Box<dyn Kernel>,
        /// The provider's index in the session's list.
        provider: usize,
        /// Output 0 is input 0 with another shape: where the layout can make it an alias, nothing runs.
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

/// A subgraph's plan, and the positions of its captures.
#[derive(Debug)]
pub(crate) struct SubPlan {
    pub(crate) plan: Box<Plan>,
    /// For each capture of the subgraph, the position among the step's inputs.
    pub(crate) captures: Vec<usize>,
}

impl Step {
    /// The index in the session's list of the provider that runs it.
    pub(crate) const fn provider(&self) -> Option<usize> {
        match self.action {
            Action::Run { provider, .. } => Some(provider),
            _ => None,
        }
    }
}

impl Plan {
    /// For steps in topological order; up to `n_branches` may run in parallel.
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

    /// Every sub-plan, including this one.
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

    /// The same, mutably.
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
