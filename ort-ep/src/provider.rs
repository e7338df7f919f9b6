//! The interface of an execution provider.

use std::fmt::{self, Debug};

use ort_graph::{Graph, Node, NodeId, ValueId};
use smallvec::SmallVec;

use crate::error::CompileError;
use crate::kernel::Kernel;
use crate::pack::PackStore;

/// An execution provider: it claims nodes and compiles each claim once.
pub trait ExecutionProvider: Debug + Send + Sync {
    /// Its name in profiles and reports: `CPUExecutionProvider`.
    fn name(&self) -> &'static str;

    /// The layout in which its convolutions are fastest.
    fn preferred_layout(&self) -> Layout {
        Layout::Nchw
    }

    /// The nodes it claims together with `root`; `None` if it does not run `root`. Pure and cheap.
    /// It must be able to compile each node of a claim alone, too: other claims may have taken the rest.
    fn claim(&self, graph: &Graph, root: NodeId) -> Option<Claim>;

    /// Compiles a claim: selects the variant and packs the constants.
    ///
    /// # Errors
    /// If types, shapes or constants are not what the kernel needs.
    fn compile(
        &self,
        graph: &Graph,
        claim: &Claim,
        packs: &dyn PackStore,
    ) -> Result<Box<dyn Kernel>, CompileError>;

    /// What the bytes of packed constants and the choice of recipes depend on besides constants and
    /// shapes, as one line: the instruction set, options, the version of the recipes. Packed files state
    /// it. `None` if its packed constants cannot be stored in a file.
    fn packing(&self) -> Option<String> {
        None
    }

    /// Calls `body` with the thread set up as the provider's kernels need it (rounding, denormals),
    /// and restores it, also on a panic. Every thread that computes goes through here.
    fn scope(&self, body: &mut dyn FnMut()) {
        body();
    }

    /// Calls `body` and reports which denormals this thread's arithmetic met in it; `None` where the
    /// processor does not report them. Profiled runs call it within [`scope`], for each step and for each
    /// part that another thread runs; other runs never do.
    ///
    /// [`scope`]: ExecutionProvider::scope
    fn watch(&self, body: &mut dyn FnMut()) -> Option<DenormalsMet> {
        body();
        None
    }
}

/// The denormal numbers that arithmetic met, as far as the processor reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DenormalsMet {
    /// An operand was denormal, and used as such. Not reported where denormals count as zero.
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

/// A tensor layout that a provider prefers for convolutions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// NCHW: channels before height and width.
    Nchw,
    /// NCHWc: channels in blocks of `block`, which are innermost.
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
    /// The inputs of the step; `None` for an absent optional input.
    pub inputs: SmallVec<[Option<ValueId>; 4]>,
    /// The outputs of the step that others read.
    pub outputs: SmallVec<[Option<ValueId>; 1]>,
    /// Pairs (input, output) where the kernel can write the output over the input.
    pub in_place: SmallVec<[(usize, usize); 1]>,
}

impl Claim {
    /// One node, with its inputs and outputs and its operator's in-place pairs.
    pub fn one(id: NodeId, node: &Node) -> Self {
        Self {
            nodes: SmallVec::from_elem(id, 1),
            inputs: node.inputs.clone(),
            outputs: node.outputs.clone(),
            in_place: node.op.behaviour().in_place.into(),
        }
    }

    /// The node after which the claim is named.
    pub fn root(&self) -> Option<NodeId> {
        self.nodes.last().copied()
    }
}
