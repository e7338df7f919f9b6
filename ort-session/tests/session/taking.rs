//! A provider that takes the nodes of one operator for one kernel.

use std::sync::Arc;

use ort_ep::{Claim, CompileError, ExecutionProvider, Kernel, PackStore};
use ort_graph::{Graph, NodeId};

/// Takes `op_type`, whose kernel writes no output over an input. It does not say what packing depends
/// on.
#[derive(Debug)]
pub(crate) struct Taking<K> {
    op_type: &'static str,
    kernel: K,
}

impl<K> Taking<K> {
    pub(crate) fn new(op_type: &'static str, kernel: K) -> Arc<Self> {
        Arc::new(Self { op_type, kernel })
    }
}

impl<K: Kernel + Clone + 'static> ExecutionProvider for Taking<K> {
    fn name(&self) -> &'static str {
        "TakingExecutionProvider"
    }

    fn claim(&self, graph: &Graph, root: NodeId) -> Option<Claim> {
        let node = graph.get_node(root).filter(|node| node.op_type == self.op_type)?;
        Some(Claim { in_place: Default::default(), ..Claim::one(root, node) })
    }

    fn compile(
        &self,
        _: &Graph,
        _: &Claim,
        _: &dyn PackStore,
    ) -> Result<Box<dyn Kernel>, CompileError> {
        Ok(Box::new(self.kernel.clone()))
    }
}
