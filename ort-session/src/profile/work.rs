//! The work of a step: its operands, and the number of operations.

// collects are bounded: as long as the graph's lists

use std::collections::HashMap;

use ort_ep::ExecutionProvider;
use ort_graph::{Attr, Fact, Facts, Node, Type, ValueId};
use ort_tensor::n_elements;

use crate::plan::{Action, Plan, Step};

/// What a step computes, and how.
#[derive(Clone, Debug, Default)]
pub struct StepWork {
    /// The node's name, or its operator if it has none; if several nodes run as one step, the
    /// last one's.
    pub node: String,
    /// The operator.
    pub op_type: String,
    /// The node's index in its graph, the main graph or a subgraph.
    pub index: usize,
    /// The provider whose kernel ran; empty for control flow.
    pub provider: &'static str,
    /// The kernel that ran.
    pub variant: &'static str,
    /// The number of nodes in the step.
    pub n_nodes: usize,
    /// The types of its inputs, by position; unknown for absent ones.
    pub inputs: Vec<Type>,
    /// The types of its outputs, by position.
    pub outputs: Vec<Type>,
    /// The integer attributes of the node: strides, groups and so on.
    pub attributes: Vec<(String, Vec<i64>)>,
    /// Floating-point operations (or integer ones in quantized operators); 0 where arithmetic does not
    /// dominate, and for control flow, whose subgraphs have their own steps.
    pub flops: u64,
    /// The size of all inputs and outputs in bytes, whether read completely or not.
    pub n_bytes: usize,
    /// The part of it that is constant inputs.
    pub constant_bytes: usize,
    /// The part of it that is outputs.
    pub output_bytes: usize,
}

impl StepWork {
    /// The instruction set of its kernel, from the kernel's name: `avx512` of
    /// `gemm_f32/avx512_14x32`; `generic` if there is none.
    pub fn isa(&self) -> &'static str {
        let (_, tile) = self.variant.split_once('/').unwrap_or(("", "generic"));
        tile.split('_').next().unwrap_or(tile)
    }
}

/// Describes a step, with the facts of its values from `fact_of`.
pub(crate) fn describe(
    plan: &Plan,
    step: &Step,
    provider: Option<&dyn ExecutionProvider>,
    fact_of: &dyn Fn(ValueId) -> Fact,
) -> StepWork {
    let node = plan.graph.node(step.node);
    let variant = match &step.action {
        Action::Run { kernel, .. } => kernel.variant(),
        _ => "plan",
    };
    let values = step.inputs.iter().chain(&step.outputs).flatten();
    let facts: HashMap<ValueId, Fact> = values.map(|&id| (id, fact_of(id))).collect();
    let ty = |id: &Option<ValueId>| id.map_or(Type::Unknown, |id| facts[&id].ty.clone());
    let bytes_of = |ids: &[Option<ValueId>], is_counted: &dyn Fn(ValueId) -> bool| {
        let ids = ids.iter().flatten().filter(|&&id| is_counted(id));
        ids.filter_map(|id| n_bytes(&facts[id])).sum()
    };
    StepWork {
        node: node.label().to_owned(),
        op_type: node.op_type.clone(),
        index: step.node.index(),
        provider: provider.map_or("", ExecutionProvider::name),
        variant,
        n_nodes: step.nodes_before.len() + 1,
        inputs: step.inputs.iter().map(ty).collect(),
        outputs: step.outputs.iter().map(ty).collect(),
        attributes: integers(node),
        n_bytes: facts.values().filter_map(n_bytes).sum(),
        constant_bytes: bytes_of(&step.inputs, &|id| plan.graph.constant(id).is_some()),
        output_bytes: bytes_of(&step.outputs, &|_| true),
        flops: flops(plan, step, facts),
    }
}

fn integers(node: &Node) -> Vec<(String, Vec<i64>)> {
    let integers = node.attrs.iter().filter_map(|(name, attr)| match attr {
        Attr::Int(n) => Some((name.to_owned(), vec![*n])),
        Attr::Ints(n) => Some((name.to_owned(), n.clone())),
        _ => None,
    });
    integers.collect()
}

fn n_bytes(fact: &Fact) -> Option<usize> {
    fact.dtype()?.n_bytes(n_elements(&fact.shape()?)?)
}

/// The operations of all nodes of a step. The values between them are inferred.
fn flops(plan: &Plan, step: &Step, mut facts: HashMap<ValueId, Fact>) -> u64 {
    let mut sum = 0;
    for &id in step.nodes_before.iter().chain([&step.node]) {
        let node = plan.graph.node(id);
        let fact = |value: ValueId| facts.get(&value).unwrap_or(&Fact::UNKNOWN);
        let inferred = plan.graph.inferred(node, fact).unwrap_or_default();
        let given = |(i, id): (usize, &Option<ValueId>)| {
            let given = id.and_then(|id| facts.get(&id));
            given.or(inferred.get(i)).cloned().unwrap_or(Fact::UNKNOWN)
        };
        let outputs: Vec<Fact> = node.outputs.iter().enumerate().map(given).collect();
        let inputs: Vec<_> = node.inputs.iter().map(|id| id.map(fact)).collect();
        sum += node.op.flops(&Facts::new(&inputs), &outputs);
        let made = node.outputs.iter().copied().zip(outputs);
        facts.extend(made.filter_map(|(id, fact)| Some((id?, fact))));
    }
    sum
}
