//! The memory of the graph and the plan: the sum of the sizes of their objects.

use std::mem::size_of_val;
use std::sync::Arc;

use ort_ep::Prepared;
use ort_graph::{Attr, Dim, Graph, Node, ValueInfo};
use ort_tensor::Tensor;

use super::Objects;
use crate::plan::{Action, Layout, Place, Plan, Step, StepLayout};

impl Objects {
    /// Adds a plan without its sub-plans.
    pub(super) fn add(&mut self, plan: &Plan) {
        self.graph += of_graph(&plan.graph);
        self.plan += plan.steps.iter().map(of_step).sum::<usize>();
        self.plan += size_of_val(plan.order.as_slice());
        plan.visit_layouts(&mut |layout| self.plan += of_layout(layout));
    }
}

fn of_graph(graph: &Graph) -> usize {
    let values = graph.value_ids().map(|id| of_value(graph.value(id)));
    let nodes = graph.node_ids().map(|id| of_node(graph.node(id)));
    values.sum::<usize>() + nodes.sum::<usize>()
}

fn of_value(value: &ValueInfo) -> usize {
    let dims = value.fact.dims().map_or(0, size_of_val::<[Dim]>);
    size_of::<ValueInfo>() + value.name.len() + dims
}

fn of_node(node: &Node) -> usize {
    let names = node.name.len() + node.domain.len() + node.op_type.len();
    let attributes = node.attrs.iter().map(|(name, attr)| name.len() + of_attribute(attr));
    let captured = size_of_val(node.captured.as_slice());
    let operator = size_of_val(&*node.op);
    size_of::<Node>() + names + captured + operator + attributes.sum::<usize>()
}

fn of_attribute(attr: &Attr) -> usize {
    let strings =
        |strings: &[String]| size_of_val(strings) + strings.iter().map(String::len).sum::<usize>();
    // The content: the elements of lists, the objects of graphs.
    let within = match attr {
        Attr::String(text) => text.len(),
        Attr::Tensor(tensor) => of_tensor(tensor),
        Attr::Graph(graph) => size_of::<Graph>() + of_graph(graph),
        Attr::Floats(list) => size_of_val(list.as_slice()),
        Attr::Ints(list) => size_of_val(list.as_slice()),
        Attr::Strings(list) => strings(list),
        Attr::Tensors(list) => list.iter().map(|it| size_of::<Tensor>() + of_tensor(it)).sum(),
        Attr::Graphs(list) => list.iter().map(|it| size_of::<Graph>() + of_graph(it)).sum(),
        _ => 0,
    };
    size_of::<String>() + size_of::<Attr>() + within
}

/// The elements, unless they are the model's.
fn of_tensor(tensor: &Tensor) -> usize {
    if tensor.is_shared() { 0 } else { tensor.n_bytes() }
}

fn of_step(step: &Step) -> usize {
    let kernel = match &step.action {
        Action::Run { kernel, .. } => size_of_val(&**kernel),
        _ => 0,
    };
    size_of::<Step>() + kernel
}

fn of_layout(layout: &Layout) -> usize {
    let of_prepared = |prepared: &Prepared| prepared.state.as_deref().map_or(0, size_of_val);
    let of_step = |step: &Arc<StepLayout>| match &**step {
        StepLayout::Static { prepared, .. } => of_prepared(prepared),
        _ => 0,
    };
    let prepared: usize = layout.steps.iter().map(of_step).sum();
    let places = layout.places.len() * size_of::<Place>();
    let steps = layout.steps.len() * size_of::<StepLayout>();
    size_of::<Layout>() + places + steps + prepared
}
