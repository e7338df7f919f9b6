//! What every pass is, whether it is a rule or code.

use std::cell::Cell;

use ort_graph::{Graph, Node, NodeId, Patch, PatchError};

use crate::eval::ConstEval;
use crate::options::{Exactness, Level, Options};

/// One pass, as `passes!` lists it.
#[derive(Clone, Copy)]
pub(crate) struct Pass {
    /// ONNX Runtime's name for it, where it has one.
    pub(crate) name: &'static str,
    pub(crate) level: Level,
    pub(crate) exactness: Exactness,
    /// Creates its rewrite.
    pub(crate) start: fn() -> Box<dyn Rewrite>,
}

/// The rewrite of a pass, which the driver applies to the nodes of one graph after another.
pub(crate) trait Rewrite {
    /// The operators at whose nodes a rewrite can begin; `None` for any.
    fn roots(&self) -> Option<Vec<&'static str>> {
        None
    }

    /// The formulas to find, one or several.
    fn formulas(&self) -> Vec<Formula> {
        vec![Formula::default()]
    }

    /// Which of the formulas a graph may hold, before its nodes are visited.
    fn begin(&mut self, _may_hold: &[bool]) {}

    /// The rewrite that begins at this node, if there is one.
    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal>;

    /// How many rewrites the last patch counts for; at most `rewrites_left`.
    fn n_rewrites(&self) -> usize {
        1
    }

    /// Called when the graph is done: what is known of it becomes invalid.
    fn end(&mut self) {}
}

/// The operators of a formula and of what replaces it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Formula {
    /// Operators that a graph must contain, or it does not contain the formula.
    pub(crate) needs: Vec<&'static str>,
    /// Operators that the rewritten graph may contain.
    pub(crate) makes: Vec<&'static str>,
}

/// Where a rewrite may begin, with its context.
#[derive(Clone, Copy)]
pub(crate) struct Site<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) id: NodeId,
    pub(crate) eval: &'a dyn ConstEval,
    pub(crate) options: &'a Options,
    /// The current level: passes of lower levels are at a fixed point, and run again after those of this level.
    pub(crate) phase: Level,
    /// How many rewrites are still allowed.
    pub(crate) rewrites_left: usize,
    /// Bytes that folded constants may still take.
    pub(crate) folded_bytes: &'a Cell<usize>,
}

impl<'a> Site<'a> {
    pub(crate) fn node(&self) -> &'a Node {
        self.graph.node(self.id)
    }
}

/// Why a possible match was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) &'static str);

impl From<PatchError> for Refusal {
    fn from(error: PatchError) -> Self {
        Refusal(match error {
            PatchError::OutputName { .. } => "it would change the name of a graph output",
            PatchError::Type { .. } => "the replacement has another type",
            _ => "the replacement is not valid",
        })
    }
}
