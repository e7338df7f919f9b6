//! A place where nodes run.

use std::fmt::{self, Debug};

use ort_graph::{Graph, Node, NodeId, ValueId};
use smallvec::SmallVec;

use crate::error::CompileError;
use crate::kernel::Kernel;
use crate::pack::PackStore;

/// A place where nodes run: it says what it can take and compiles it once.
pub trait ExecutionProvider: Debug + Send + Sync {
    /// Its name, as profiles and reports show it: `CPUExecutionProvider`.
    fn name(&self) -> &'static str;

    /// The layout in which its convolutions run best.
    fn preferred_layout(&self) -> Layout {
        Layout::Nchw
    }

    /// The nodes it takes together with `root`; `None` if it does not take `root`. Pure and cheap.
    /// What it takes with others it can also compile alone: others may have been taken.
    fn claim(&self, graph: &Graph, root: NodeId) -> Option<Claim>;

    /// Compiles a claim: chooses the variant, packs the constants.
    ///
    /// # Errors
    /// If the nodes are not what they seemed.
    fn compile(
        &self,
        graph: &Graph,
        claim: &Claim,
        packs: &dyn PackStore,
    ) -> Result<Box<dyn Kernel>, CompileError>;

    /// What the bytes of packed constants and the choice of recipes depend on besides constants and
    /// shapes, as one line: the instruction set, options, the version of the recipes. Files keep
    /// packed constants for it. `None` if they cannot: what this provider packs is for one process.
    fn packing(&self) -> Option<String> {
        None
    }

    /// Calls `body` with the thread set up as the provider's kernels need it (rounding, denormals),
    /// and sets it back, also on a panic. Every thread that computes passes through here.
    fn scope(&self, body: &mut dyn FnMut()) {
        body();
    }

    /// Calls `body` and tells what denormals arithmetic of this thread met in it; `None` where the
    /// processor does not tell. A run that is profiled passes through here within [`scope`], with each
    /// step and each part that another thread does; others never do.
    ///
    /// [`scope`]: ExecutionProvider::scope
    fn watch(&self, body: &mut dyn FnMut()) -> Option<DenormalsMet> {
        body();
        None
    }
}

/// What denormal numbers arithmetic met, as far as a processor tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DenormalsMet {
    /// An operand was denormal, and counted as what it is. Where it counts as zero, nothing is told.
    pub operands: bool,
    /// A result was too small for a normal number, and was flushed to zero or rounded.
    pub results: bool,
}

impl fmt::Display for DenormalsMet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.operands, self.results) {
            (false, false) => "none",
            (true, false) => "operands",
            (false, true) => "results",
            (true, true) => "operands and results",
        })
    }
}

/// A tensor layout that a provider prefers for images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Channels before height and width.
    Nchw,
    /// Channels in blocks of `block`, which are innermost.
    Nchwc {
        /// Channels in a block.
        block: usize,
    },
}

/// Nodes that a provider runs as one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The nodes, in topological order, the root last.
    pub nodes: SmallVec<[NodeId; 1]>,
    /// What the step reads; `None` for an absent optional input.
    pub inputs: SmallVec<[Option<ValueId>; 4]>,
    /// What the step computes for others.
    pub outputs: SmallVec<[Option<ValueId>; 1]>,
    /// Pairs (input, output) of which the kernel can write the output over the input.
    pub in_place: SmallVec<[(usize, usize); 1]>,
}

impl Claim {
    /// One node, with its own inputs and outputs and what its operator can do in place.
    pub fn one(id: NodeId, node: &Node) -> Self {
        Self {
            nodes: SmallVec::from_elem(id, 1),
            inputs: node.inputs.clone(),
            outputs: node.outputs.clone(),
            in_place: node.op.behaviour().in_place.into(),
        }
    }

    /// The node the claim is named after.
    pub fn root(&self) -> Option<NodeId> {
        self.nodes.last().copied()
    }
}
