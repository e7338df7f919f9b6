//! Runs a graph by `Operator::eval` alone: the reference semantics of a graph.

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
            Some(Control::Loop) => run_loop(node, &values),
            Some(Control::Scan) => run_scan(node, &values),
            Some(Control::SequenceMap) => run_sequence_map(node, &values),
            Some(_) => panic!("this control flow is not interpreted"),
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
    run_body(branch, Vec::new(), values).into_iter().map(Some).collect()
}

fn run_body(body: &Graph, inputs: Vec<Value>, around: &Values) -> Vec<Value> {
    let captured = body.captures().iter().map(|&(here, there)| (here, around[&there].clone()));
    run_with(body, captured.chain(body.inputs().iter().copied().zip(inputs)).collect())
}

/// The first values are states, the others are stacked.
fn run_loop(node: &Node, values: &Values) -> Vec<Option<Value>> {
    let Some(Attr::Graph(body)) = node.attrs.get("body") else { panic!("no body") };
    let input = |i: usize| node.inputs.get(i).copied().flatten().map(|id| values[&id].clone());
    let first = |value: &Value| value.as_tensor().unwrap().as_slice::<Bool>().unwrap()[0].get();
    let trips = input(0).map(|n| n.as_tensor().unwrap().as_slice::<i64>().unwrap()[0]);
    let mut continues = input(1).as_ref().is_none_or(first);
    let mut states: Vec<Value> = (2..node.inputs.len()).map(|i| input(i).unwrap()).collect();
    let mut scanned = vec![Vec::new(); node.outputs.len() - states.len()];
    let mut trip = 0;
    while continues && trips.is_none_or(|trips| trip < trips) {
        let mut inputs = vec![Tensor::scalar(trip).into(), Tensor::scalar(Bool::from(true)).into()];
        inputs.append(&mut states);
        let mut made = run_body(body, inputs, values).into_iter();
        continues = first(&made.next().unwrap());
        states = made.by_ref().take(node.inputs.len() - 2).collect();
        scanned.iter_mut().zip(made).for_each(|(all, one)| all.push(one));
        trip += 1;
    }
    states.into_iter().chain(scanned.iter().map(|all| stacked(all))).map(Some).collect()
}

/// Of version 9 and up, along the first axes and forward.
fn run_scan(node: &Node, values: &Values) -> Vec<Option<Value>> {
    let Some(Attr::Graph(body)) = node.attrs.get("body") else { panic!("no body") };
    let Some(Attr::Int(n)) = node.attrs.get("num_scan_inputs") else { panic!("no inputs") };
    let mut states: Vec<Value> =
        node.inputs.iter().map(|id| values[&id.unwrap()].clone()).collect();
    let xs = states.split_off(states.len() - usize::try_from(*n).unwrap());
    let n_states = states.len();
    let mut scanned = vec![Vec::new(); node.outputs.len() - n_states];
    for t in 0..xs[0].as_tensor().unwrap().shape()[0] {
        states.extend(xs.iter().map(|x| slice(x.as_tensor().unwrap(), t).into()));
        let mut made = run_body(body, states, values).into_iter();
        states = made.by_ref().take(n_states).collect();
        scanned.iter_mut().zip(made).for_each(|(all, one)| all.push(one));
    }
    states.into_iter().chain(scanned.iter().map(|all| stacked(all))).map(Some).collect()
}

fn run_sequence_map(node: &Node, values: &Values) -> Vec<Option<Value>> {
    let Some(Attr::Graph(body)) = node.attrs.get("body") else { panic!("no body") };
    let given: Vec<&Value> = node.inputs.iter().map(|id| &values[&id.unwrap()]).collect();
    let mut mapped = vec![Vec::new(); node.outputs.len()];
    for i in 0..given[0].view().sequence().unwrap().len() {
        let item = |value: &&Value| match value {
            Value::Sequence(items) => items[i].clone(),
            value => (*value).clone(),
        };
        let made = run_body(body, given.iter().map(item).collect(), values);
        mapped.iter_mut().zip(made).for_each(|(all, one)| all.push(one));
    }
    mapped.into_iter().map(|items| Some(Value::Sequence(items))).collect()
}

fn slice(x: &Tensor, t: usize) -> Tensor {
    let bytes = x.view().as_bytes().unwrap();
    let n = bytes.len() / x.shape()[0];
    Tensor::from_bytes(x.dtype(), &x.shape()[1..], bytes[t * n..][..n].to_vec().into()).unwrap()
}

fn stacked(all: &[Value]) -> Value {
    let first =
        all.first().expect("a stacked output without iterations has no shape").as_tensor().unwrap();
    let shape: Vec<usize> = [&[all.len()], first.shape()].concat();
    let bytes = all.iter().flat_map(|one| one.as_tensor().unwrap().view().as_bytes().unwrap());
    let bytes: Vec<u8> = bytes.copied().collect();
    Tensor::from_bytes(first.dtype(), &shape, bytes.into()).unwrap().into()
}
