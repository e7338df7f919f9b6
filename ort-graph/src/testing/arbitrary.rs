//! Tensors and graphs of any kind.

use ort_tensor::{AlignedBuf, DType, Tensor};
use proptest::prelude::*;

use super::registry;
use crate::{Attr, Attrs, Dim, Fact, Graph, NewNode, TensorType, Type, ValueId};

/// Any shape of up to two dimensions, any element type, any bits.
pub(crate) fn arbitrary_tensor() -> impl Strategy<Value = Tensor> {
    let shape = prop::collection::vec(0_usize..4, 0..3);
    let bytes = prop::collection::vec(any::<u8>(), 9 * 16);
    (0..DType::ALL.len(), shape, bytes, ".*").prop_map(|(dtype, shape, bytes, string)| {
        let (dtype, n) = (DType::ALL[dtype], shape.iter().product());
        if dtype == DType::String {
            return Tensor::from_strings(&shape, vec![string; n]).unwrap();
        }
        let bytes = &bytes[..dtype.n_bytes(n).unwrap()];
        let mut tensor = Tensor::zeros(dtype, &shape).unwrap();
        if dtype.is_packed() {
            let elements: Vec<u8> = bytes.iter().cycle().take(n).map(|byte| byte & 3).collect();
            tensor.view_mut().pack(&elements).unwrap();
            return tensor;
        }
        Tensor::from_bytes(dtype, &shape, bytes::Bytes::from_owner(AlignedBuf::copy_of(bytes)))
            .unwrap()
    })
}

fn arbitrary_attr() -> impl Strategy<Value = Attr> {
    let float = prop_oneof![any::<f32>(), Just(f32::INFINITY), Just(-0.0)];
    prop_oneof![
        any::<i64>().prop_map(Attr::Int),
        float.clone().prop_map(Attr::Float),
        ".*".prop_map(Attr::String),
        arbitrary_tensor().prop_map(Attr::Tensor),
        prop::collection::vec(any::<i64>(), 0..3).prop_map(Attr::Ints),
        prop::collection::vec(float, 0..3).prop_map(Attr::Floats),
        prop::collection::vec(".*", 0..3).prop_map(Attr::Strings),
        prop::collection::vec(arbitrary_tensor(), 0..3).prop_map(Attr::Tensors),
    ]
}

fn arbitrary_type() -> impl Strategy<Value = Type> {
    let dim = prop_oneof![
        (0_usize..5).prop_map(Dim::Known),
        Just(Dim::Unknown),
        "\\PC+".prop_map(|name: String| Dim::Symbol(name.into())),
    ];
    let dims = prop::option::of(prop::collection::vec(dim, 0..3));
    let tensor = (prop::sample::select(DType::ALL), dims).prop_map(|(dtype, dims)| {
        Type::Tensor(TensorType { dtype, dims: dims.map(|dims| dims.into_iter().collect()) })
    });
    tensor.prop_recursive(2, 4, 1, |inner| {
        let sequence = inner.clone().prop_map(|item| Type::Sequence(Box::new(item)));
        let map = inner.prop_map(|value| Type::Map { key: DType::I64, value: Box::new(value) });
        prop_oneof![sequence, map]
    })
}

/// A chain of nodes, each of which reads earlier values and may have a subgraph that captures one,
/// under this name or, without any, under the one it has.
pub(crate) fn arbitrary_graph(captured: Option<&'static str>) -> impl Strategy<Value = Graph> {
    let node = ("\\PC*", arbitrary_attr(), arbitrary_type(), any::<[u8; 3]>());
    let parts = (arbitrary_tensor(), "\\PC+", prop::collection::vec(node, 0..5));
    parts.prop_map(move |(tensor, symbol, nodes)| {
        let mut graph = Graph::new();
        let dims = [Dim::Symbol(symbol.as_str().into()), Dim::Unknown, Dim::Known(2)];
        let x = graph.add_value("x", Fact::tensor(DType::F32, dims)).unwrap();
        let w = graph.add_value("w", Fact::shaped(tensor.dtype(), tensor.shape())).unwrap();
        graph.value_mut(w).default = Some(tensor.clone());
        graph.set_inputs(vec![x, w]);
        let c = graph.add_constant("c", tensor).unwrap();
        let mut values = vec![x, w, c];
        for (i, (name, attr, ty, picks)) in nodes.into_iter().enumerate() {
            let pick = |pick: u8| values[usize::from(pick) % values.len()];
            let mut attrs = Attrs::new().with("a", attr);
            let there = pick(picks[2]);
            let body = (picks[2] % 2 == 0).then(|| {
                let name = captured.unwrap_or(&graph.value(there).name);
                body(&graph, there, name)
            });
            let captures = body.iter().flat_map(|body| body.captures());
            let captured = captures.map(|&(_, there)| there).collect();
            if let Some(body) = body {
                attrs.set("body", Attr::Graph(Box::new(body)));
            }
            let y = graph.add_value(format!("{name}{i}"), ty.into()).unwrap();
            let inputs = vec![Some(pick(picks[0])), None, Some(pick(picks[1]))];
            let (op_type, outputs) = ("Op".to_owned(), vec![None, Some(y)]);
            // Two nodes may not have one name in a file.
            let name = if i == 0 || name.is_empty() { name } else { format!("{name}{i}") };
            let new = NewNode {
                name,
                op_type,
                since_version: 7,
                inputs,
                outputs,
                captured,
                attrs,
                ..NewNode::default()
            };
            graph.add_node(new, &registry()).unwrap();
            values.push(y);
        }
        graph.set_outputs(values.split_off(1));
        graph
    })
}

/// A subgraph that reads a value of the enclosing graph.
fn body(enclosing: &Graph, there: ValueId, name: &str) -> Graph {
    let mut graph = Graph::new();
    let here = graph.add_captured(name, enclosing, there).unwrap();
    let z = graph.add_value("z", Fact::unranked(DType::F32)).unwrap();
    let (inputs, outputs) = (vec![Some(here)], vec![Some(z)]);
    let op_type = "Op".to_owned();
    let new = NewNode { op_type, since_version: 1, inputs, outputs, ..NewNode::default() };
    graph.add_node(new, &registry()).unwrap();
    graph.set_outputs(vec![z]);
    graph
}
