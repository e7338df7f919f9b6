//! How tests of kernels that claim several nodes run a graph: step by step, like a session.

// collects are bounded: used by tests only

use std::collections::HashMap;

use ort_ep::{Claim, ExecutionProvider, Io, Kernel};
use ort_graph::{Graph, ValueId};
use ort_kernels::Isa;
use ort_tensor::{AlignedBuf, Inputs, Output, Tensor, TensorViewMut, Value, ValueView};

use crate::case::{Packs, StdThreads, floats};
use crate::{CpuOptions, CpuProvider};

/// Asserts that a graph gives the same bits with fused steps as with one node per step, for every
/// instruction set and number of threads, and that its steps have these numbers of nodes.
pub(crate) fn assert_steps(text: &str, n_nodes: &[usize]) {
    let graph = Graph::parse(text, &ort_ops::registry()).unwrap();
    for isa in Isa::all() {
        let isa = isa.name().parse().unwrap();
        let options = CpuOptions { isa, max_threads: Some(3), ..CpuOptions::default() };
        let (expected, _) = run(&graph, CpuOptions { fuses: false, ..options }, 1);
        for n_threads in 1..=3 {
            let (found, steps) = run(&graph, options, n_threads);
            assert_eq!(found, expected, "{isa:?}, {n_threads} threads");
            assert_eq!(steps, n_nodes);
        }
    }
}

/// The values that a graph computes, and the number of nodes of each step.
fn run(graph: &Graph, options: CpuOptions, n_threads: usize) -> (Vec<Tensor>, Vec<usize>) {
    let provider = CpuProvider::new(options).unwrap();
    let mut values: HashMap<ValueId, Tensor> = HashMap::new();
    for id in graph.value_ids().filter(|&id| graph.producer(id).is_none()) {
        let shape = graph.fact(id).shape().unwrap();
        values.insert(id, graph.constant(id).cloned().unwrap_or_else(|| floats(&shape)));
    }
    let mut claims: Vec<Claim> = Vec::new();
    for id in graph.topological_order().unwrap().into_iter().rev() {
        if !claims.iter().any(|claim| claim.nodes.contains(&id)) {
            claims.push(provider.claim(graph, id).unwrap());
        }
    }
    for claim in claims.iter().rev() {
        let kernel = Packs::Made.compile(&provider, graph, claim);
        let y = compute(&*kernel, claim, &values, n_threads);
        values.insert(claim.outputs[0].unwrap(), y);
    }
    let outputs = graph.outputs().iter().map(|id| values[id].clone()).collect();
    (outputs, claims.iter().rev().map(|claim| claim.nodes.len()).collect())
}

/// Computes a step, in place if it has several nodes and supports it.
fn compute(
    kernel: &dyn Kernel,
    claim: &Claim,
    values: &HashMap<ValueId, Tensor>,
    n_threads: usize,
) -> Tensor {
    let inputs = claim.inputs.iter().map(|id| id.map(|id| &values[&id]));
    let inputs: Vec<Option<&Tensor>> = inputs.collect();
    let shapes: Vec<&[usize]> =
        inputs.iter().map(|input| input.map_or(&[][..], |tensor| tensor.shape())).collect();
    let prepared = kernel.prepare(&shapes).unwrap();
    let mut views: Vec<_> =
        inputs.iter().map(|input| input.map(|tensor| ValueView::Tensor(tensor.view()))).collect();
    let over = claim.in_place.first().filter(|_| claim.nodes.len() > 1).map(|&(input, _)| input);
    let shape = shapes[over.unwrap_or(0)];
    let mut data = over
        .and_then(|over| inputs[over])
        .map_or_else(Vec::new, |tensor| tensor.as_slice::<f32>().unwrap().to_vec());
    let output = match over {
        Some(over) => {
            views[over] = None;
            Output::in_place(TensorViewMut::from_slice(shape, &mut data).unwrap(), over)
        }
        None => Output::free(),
    };
    let mut outputs = [output];
    let threads = &StdThreads(n_threads);
    let inputs = Inputs::new(&views);
    // bounded: used by tests only
    let mut scratch = AlignedBuf::zeroed(prepared.scratch_bytes);
    let scratch = scratch.as_mut();
    let mut io = Io { inputs, outputs: &mut outputs, scratch, threads };
    kernel.run(&prepared, &mut io).unwrap();
    let [output] = outputs;
    match output.into_value() {
        Some(Value::Tensor(tensor)) => tensor,
        _ => Tensor::from_slice(shape, &data).unwrap(),
    }
}
