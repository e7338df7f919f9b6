//! The kernels. `kernels!` declares each file and registers what it defines, in the order in which
//! they are asked: the first that takes a node compiles it.

use ort_ep::{Claim, CompileError, Kernel, PackStore};
use ort_graph::{Graph, NodeId};
use ort_kernels::Isa;

/// What a kernel file offers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelDef {
    /// The nodes it takes together with a root, or more in place than the operator's `eval` does;
    /// `None` leaves the root to others, which may still compile it as one node.
    pub(crate) claim: fn(&Graph, NodeId) -> Option<Claim>,
    /// The kernel for a claim; `None` if it is not for this file.
    pub(crate) compile: fn(&mut Compiler<'_>) -> Result<Option<Box<dyn Kernel>>, CompileError>,
}

/// What a kernel is compiled from.
pub(crate) struct Compiler<'a> {
    pub(crate) isa: Isa,
    pub(crate) graph: &'a Graph,
    pub(crate) claim: &'a Claim,
    pub(crate) packs: &'a mut dyn PackStore,
}

/// Declares the modules and collects their `DEF`s.
macro_rules! kernels {
    ($($module:ident),* $(,)?) => {
        $(mod $module;)*

        /// The definitions of every file.
        pub(crate) static ALL: &[KernelDef] = &[$($module::DEF),*];
    };
}

// One a line.
kernels! {}
