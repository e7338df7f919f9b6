//! The simplest provider: every node runs its operator's own `eval`.

use std::sync::Arc;

use ort_graph::{Graph, NodeId, Operator};

use crate::error::{CompileError, KernelError};
use crate::kernel::{Io, Kernel, Prepared};
use crate::pack::PackStore;
use crate::provider::{Claim, ExecutionProvider};

/// Runs every node by its operator's `eval`, on the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reference;

impl ExecutionProvider for Reference {
    fn name(&self) -> &'static str {
        "ReferenceExecutionProvider"
    }

    fn claim(&self, graph: &Graph, root: NodeId) -> Option<Claim> {
        let node = graph.get_node(root)?;
        Some(Claim::one(root, node))
    }

    fn compile(
        &self,
        graph: &Graph,
        claim: &Claim,
        _packs: &dyn PackStore,
    ) -> Result<Box<dyn Kernel>, CompileError> {
        EvalKernel::compile(self.name(), graph, claim)
    }

    fn packing(&self) -> Option<String> {
        Some(self.name().to_owned())
    }
}

/// A node that runs its operator's `eval`.
#[derive(Debug)]
pub struct EvalKernel(Arc<dyn Operator>);

impl EvalKernel {
    /// Compiles a claim of one node for the provider of this name.
    ///
    /// # Errors
    /// If the claim is not one node.
    pub fn compile(
        provider: &'static str,
        graph: &Graph,
        claim: &Claim,
    ) -> Result<Box<dyn Kernel>, CompileError> {
        match claim.nodes.as_slice() {
            [id] => Ok(Box::new(Self(graph.node(*id).op.clone()))),
            nodes => {
                let root = nodes.last().map(|id| graph.node(*id).op_type.clone());
                Err(CompileError::NotClaimed { provider, op_type: root.unwrap_or_default() })
            }
        }
    }
}

impl Kernel for EvalKernel {
    fn run(&self, _prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        Ok(self.0.eval(io.inputs, io.outputs)?)
    }

    fn takes(&self) -> &'static [(usize, usize)] {
        self.0.behaviour().takes
    }
}
