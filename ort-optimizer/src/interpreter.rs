//! Runs a graph by `Operator::eval` alone: what every graph means.

use std::collections::HashMap;

use ort_graph::{Attr, Control, Graph, Node, ValueId};
use ort_tensor::{Bool, Inputs, Output, Tensor, Value};

type Values = HashMap<ValueId, Value>;

/// The outputs of a graph for inputs by name.
pub(crate) fn run(graph: &Graph, inputs: &[(String, Tensor)]) -> Vec<Tensor> {
    let mut values = Values::new();
    for &id in graph.inputs() {
        let info = graph.value(id);
        let given = inputs.iter().find(|(name, _)| *name == info.name).map(|(_, tensor)| tensor);
        let tensor = given.or(info.default.as_ref()).expect("every input is given");
        values.insert(id, tensor.clone().into());
    }
    let outputs = run_with(graph, values);
    outputs.iter().map(|value| value.as_tensor().unwrap().clone()).collect()
}

fn run_with(graph: &Graph, mut values: Values) -> Vec<Value> {
    for id in graph.value_ids() {
        if let Some(tensor) = graph.constant(id) {
            values.entry(id).or_insert_with(|| tensor.clone().into());
        }
    }
    for id in graph.topological_order().unwrap() {
        let node = graph.node(id);
        let outputs = match node.op.behaviour().control {
            Some(Control::If) => run_if(node, &values),
            Some(_) => panic!("only If is interpreted"),
            None => eval(node, &values),
        };
        values.extend(node.outputs.iter().zip(outputs).filter_map(|(id, v)| Some(((*id)?, v?))));
    }
    graph.outputs().iter().map(|id| values[id].clone()).collect()
}

fn eval(node: &Node, values: &Values) -> Vec<Option<Value>> {
    let inputs: Vec<_> = node.inputs.iter().map(|id| id.map(|id| values[&id].view())).collect();
    let mut outputs: Vec<_> = node.outputs.iter().map(|_| Output::free()).collect();
    let done = node.op.eval(Inputs::new(&inputs), &mut outputs);
    done.unwrap_or_else(|error| panic!("{}: {error}", node.label()));
    outputs.into_iter().map(Output::into_value).collect()
}

fn run_if(node: &Node, values: &Values) -> Vec<Option<Value>> {
    let condition = &values[&node.inputs[0].unwrap()];
    let is_true = condition.as_tensor().unwrap().as_slice::<Bool>().unwrap()[0].get();
    let branch = node.attrs.get(if is_true { "then_branch" } else { "else_branch" });
    let Some(Attr::Graph(branch)) = branch else { panic!("no branch") };
    let captured = branch.captures().iter().map(|&(here, there)| (here, values[&there].clone()));
    run_with(branch, captured.collect()).into_iter().map(Some).collect()
}
