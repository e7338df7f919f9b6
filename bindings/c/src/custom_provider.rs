//! Runs the nodes of custom operators: one kernel of the program for each, which lives as long as its session.

use std::any::Any;
use std::sync::Arc;

use ort_session::provider::{
    Claim, CompileError, ExecutionProvider, Fact, Facts, Graph, Io, Kernel, KernelError, Node,
    NodeId, OpError, PackStore, Prepared, ValueId,
};

use crate::custom_operator::{CustomOperator, custom, dynamic_input, output_types};
use crate::error::Error;
use crate::ffi::{CustomKernel, CustomOp};
use crate::kernel_context::{KernelContext, OutputRules};
use crate::kernel_info::{KernelInfo, OfSession};

/// The provider of the CPU's custom operators.
#[derive(Debug)]
pub(crate) struct CustomProvider(pub(crate) Arc<OfSession>);

/// The operator of a node, if it is a custom one.
fn operator(node: &Node) -> Option<&CustomOperator> {
    let op: &dyn Any = &*node.op;
    op.downcast_ref()
}

/// The operator of the program that fits a node.
fn chosen<'a>(
    graph: &Graph,
    node: &Node,
    operator: &'a CustomOperator,
) -> Result<&'a CustomOp, OpError> {
    let fact = |id: &Option<ValueId>| id.map(|id| graph.fact(id));
    let facts: Vec<Option<&Fact>> = node.inputs.iter().map(fact).collect();
    operator.chosen(&Facts::new(&facts))
}

impl ExecutionProvider for CustomProvider {
    fn name(&self) -> &'static str {
        "CustomOperators"
    }

    fn claim(&self, graph: &Graph, root: NodeId) -> Option<Claim> {
        let node = graph.get_node(root)?;
        let op = chosen(graph, node, operator(node)?).ok()?;
        let mut claim = Claim::one(root, node);
        let pairs = op.in_place().into_iter().chain(op.aliases());
        let is_there = |&(input, output): &(usize, usize)| {
            input < node.inputs.len() && output < node.outputs.len()
        };
        claim.in_place.extend(pairs.filter(is_there));
        Some(claim)
    }

    fn compile(
        &self,
        graph: &Graph,
        claim: &Claim,
        _packs: &dyn PackStore,
    ) -> Result<Box<dyn Kernel>, CompileError> {
        let node = claim.root().and_then(|root| graph.get_node(root));
        let found = node.and_then(|node| Some((node, operator(node)?)));
        let Some((node, operator)) = found else {
            let op_type = node.map(|node| node.op_type.clone()).unwrap_or_default();
            return Err(CompileError::NotClaimed { provider: self.name(), op_type });
        };
        let op = chosen(graph, node, operator)?;
        let rules = OutputRules {
            dtypes: output_types(op, node.outputs.len())?,
            dynamic_input: dynamic_input(op, node.inputs.len())?,
            aliases: op.aliases(),
        };
        let info = KernelInfo::new(graph, claim, node, Arc::clone(&self.0)).map_err(custom)?;
        // C keeps the address.
        let info = Box::new(info);
        let kernel = op.kernel(&info).map_err(custom)?;
        Ok(Box::new(CustomStep { kernel, info, rules }))
    }

    /// Nothing is packed.
    fn packing(&self) -> Option<String> {
        Some(self.name().to_owned())
    }
}

/// A node with its kernel. The kernel is destroyed before what it may refer to.
#[derive(Debug)]
struct CustomStep {
    kernel: CustomKernel,
    info: Box<KernelInfo>,
    rules: OutputRules,
}

impl Kernel for CustomStep {
    fn run(&self, _prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let mut compute = || {
            let context = KernelContext::new(&self.info, &self.rules, io)?;
            self.kernel.compute(&context)?;
            context.finish()
        };
        compute().map_err(|error: Error| KernelError::Provider(error.message().into()))
    }

    fn variant(&self) -> &'static str {
        "custom"
    }
}
