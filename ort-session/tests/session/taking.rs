//! A provider that claims the nodes of one operator for one kernel.

use std::fmt;
use std::sync::Arc;

use ort_ep::{Claim, CompileError, ExecutionProvider, Kernel, PackStore};
use ort_graph::{Graph, NodeId};

/// Claims `op_type`, whose kernel does not work in place. Its packing cannot be stored
/// in files.
pub(crate) struct Taking<K> {
    op_type: &'static str,
    kernel: K,
    compiling: Box<dyn Fn() + Send + Sync>,
}

impl<K> Taking<K> {
    pub(crate) fn new(op_type: &'static str, kernel: K) -> Arc<Self> {
        Self::compiling(op_type, kernel, || {})
    }

    /// The same with a hook that is called for each node that is compiled.
    pub(crate) fn compiling(
        op_type: &'static str,
        kernel: K,
        hook: impl Fn() + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { op_type, kernel, compiling: Box::new(hook) })
    }
}

impl<K> fmt::Debug for Taking<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Taking {}", self.op_type)
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
        (self.compiling)();
        Ok(Box::new(self.kernel.clone()))
    }
}
