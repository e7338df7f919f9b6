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
    /// What it does, before it has seen a graph.
    pub(crate) start: fn() -> Box<dyn Rewrite>,
}

/// What a pass does, which the driver leads from node to node of one graph, and then the next.
pub(crate) trait Rewrite {
    /// The operators at whose nodes a rewrite can begin; `None` for any.
    fn roots(&self) -> Option<Vec<&'static str>> {
        None
    }

    /// What there is to find, one formula or several.
    fn formulas(&self) -> Vec<Formula> {
        vec![Formula::default()]
    }

    /// Which of the formulas a graph may hold, before its nodes are visited.
    fn begin(&mut self, _may_hold: &[bool]) {}

    /// The rewrite that begins at this node, if there is one.
    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal>;

    /// How many rewrites the last patch stands for; never more than were left.
    fn n_rewrites(&self) -> usize {
        1
    }

    /// The graph is done for now: what is known of it holds no longer.
    fn end(&mut self) {}
}

/// The operators of a formula and of what replaces it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Formula {
    /// Operators of which a graph must have nodes, or else it does not hold the formula.
    pub(crate) needs: Vec<&'static str>,
    /// Operators of which a graph may have nodes once it is rewritten.
    pub(crate) makes: Vec<&'static str>,
}

/// Where a rewrite may begin, and what it may need to know.
#[derive(Clone, Copy)]
pub(crate) struct Site<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) id: NodeId,
    pub(crate) eval: &'a dyn ConstEval,
    pub(crate) options: &'a Options,
    /// The level that is being reached: passes of lower levels have found all they can, and run
    /// again on what those of this level leave.
    pub(crate) phase: Level,
    /// How many rewrites there may still be.
    pub(crate) rewrites_left: usize,
    /// Bytes that folded constants may still take.
    pub(crate) folded_bytes: &'a Cell<usize>,
}

impl<'a> Site<'a> {
    pub(crate) fn node(&self) -> &'a Node {
        self.graph.node(self.id)
    }
}

/// Why what looked like a match was left alone.
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
