//! Nodes of float16 computed in float between casts, where ONNX Runtime's CPU has no kernel of float16.
//!
//! Source: ONNX Runtime 1.32, `InsertCastTransformer` and its CPU kernels.

use std::collections::{HashMap, HashSet};

use ort_graph::{Attr, Attrs, CycleError, Fact, Graph, NewNode, NodeId, Registry, Type, ValueId};
use ort_tensor::DType;

/// Operators of ai.onnx that ONNX Runtime's CPU has kernels of float16 for.
const KERNELS: &[&str] = &[
    "Attention",
    "BitCast",
    "Cast",
    "Celu",
    "Clip",
    "Compress",
    "Concat",
    "ConcatFromSequence",
    "ConstantOfShape",
    "Dropout",
    "Expand",
    "Flatten",
    "Gather",
    "GatherElements",
    "GatherND",
    "Identity",
    "If",
    "IsInf",
    "IsNaN",
    "LayerNormalization",
    "Loop",
    "Max",
    "Min",
    "Mod",
    "Optional",
    "OptionalGetElement",
    "OptionalHasElement",
    "QuantizeLinear",
    "RMSNormalization",
    "Reshape",
    "ReverseSequence",
    "RotaryEmbedding",
    "Round",
    "Scan",
    "Scatter",
    "ScatterElements",
    "ScatterND",
    "SequenceAt",
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceErase",
    "SequenceInsert",
    "SequenceLength",
    "SequenceMap",
    "Shape",
    "Shrink",
    "Sign",
    "SimplifiedLayerNormalization",
    "Size",
    "Slice",
    "Split",
    "SplitToSequence",
    "Squeeze",
    "TensorScatter",
    "Transpose",
    "Unsqueeze",
];

/// The same of com.microsoft.
const CONTRIB_KERNELS: &[&str] = &[
    "ExpandDims",
    "GatherND",
    "GroupQueryAttention",
    "Inverse",
    "MatMulNBits",
    "QMoE",
    "RotaryEmbedding",
    "SkipLayerNormalization",
    "SkipSimplifiedLayerNormalization",
    "SparseAttention",
    "UnfoldTensor",
];

/// Puts casts around nodes of a graph and those below it.
pub(super) fn insert(
    graph: &mut Graph,
    registry: &Registry,
    opset: Option<i64>,
) -> Result<(), CycleError> {
    // In order: what a node reads is known once the one that computes it is what it will be.
    let ids = graph.topological_order()?;
    let lacking: HashSet<_> = { ids.iter().copied() }.filter(|&id| lacks_kernel(graph, id)).collect();
    let alone = { ids.iter().copied() }.filter(|&id| is_alone(graph, &lacking, id));
    let in_float: HashSet<_> = alone.chain(lacking.iter().copied()).collect();
    let mut casts = Casts { version: cast_version(opset), as_float: HashMap::new() };
    for id in ids {
        if graph.node(id).attrs.graphs().next().is_some() {
            graph.edit_subgraphs(id, |subgraph| insert(subgraph, registry, opset))?;
        }
        if in_float.contains(&id) || casts.reads_known(graph, id) {
            casts.surround(graph, registry, id);
        }
    }
    let is_cast = |&id: &NodeId| graph.node(id).op_type == "Cast";
    let all: Vec<NodeId> = graph.node_ids().filter(is_cast).collect();
    graph.sweep(all);
    Ok(())
}

/// The version of Cast in a set of ai.onnx.
pub(crate) fn cast_version(opset: Option<i64>) -> i32 {
    match opset {
        Some(..9) => 6,
        Some(9..13) => 9,
        _ => 13,
    }
}

fn lacks_kernel(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    let known = match &*node.domain {
        "" => KERNELS,
        "com.microsoft" => CONTRIB_KERNELS,
        _ => return false,
    };
    let mut values = node.inputs.iter().chain(&node.outputs).copied().flatten();
    !known.contains(&&*node.op_type) && values.any(|value| is_half(graph, value))
}

/// Whether a node has a kernel, but stands between nodes that have none: it computes in float as they do.
fn is_alone(graph: &Graph, lacking: &HashSet<NodeId>, id: NodeId) -> bool {
    let node = graph.node(id);
    let half = |value: &ValueId| is_half(graph, *value);
    let is_lacking = |id: NodeId| lacking.contains(&id);
    let mut reads = node.inputs.iter().flatten().copied().filter(half).peekable();
    let mut gives = node.outputs.iter().flatten().copied().filter(half).peekable();
    node.attrs.graphs().next().is_none()
        && reads.peek().is_some()
        && gives.peek().is_some()
        && reads.all(|value| match graph.producer(value) {
            Some((producer, _)) => is_lacking(producer),
            None => graph.constant(value).is_some(),
        })
        && gives.all(|value| {
            let consumers = graph.consumers(value);
            !graph.outputs().contains(&value) && consumers.iter().copied().all(is_lacking)
        })
}

fn is_half(graph: &Graph, value: ValueId) -> bool {
    graph.fact(value).dtype() == Some(DType::F16)
}

/// The casts of a graph.
struct Casts {
    version: i32,
    /// What is known as float already.
    as_float: HashMap<ValueId, ValueId>,
}

impl Casts {
    /// Whether a node is a cast of what is known as float. Of what was float before a cast to float16, too, ONNX
    /// Runtime does not take the rounding for meant.
    fn reads_known(&mut self, graph: &Graph, id: NodeId) -> bool {
        let node = graph.node(id);
        let (Some(&Some(from)), Some(&Some(to))) = (node.inputs.first(), node.outputs.first()) else {
            return false;
        };
        if node.op_type != "Cast" {
            return false;
        }
        if is_half(graph, to) && graph.fact(from).dtype() == Some(DType::F32) {
            self.as_float.insert(to, from);
        }
        !is_half(graph, to) && self.as_float.contains_key(&from)
    }

    /// Lets a node read and give float. It stays as it is if it cannot be had so: an attribute may name its type.
    fn surround(&mut self, graph: &mut Graph, registry: &Registry, id: NodeId) {
        let node = graph.node(id).clone();
        graph.remove_node(id);
        let of = |graph: &mut Graph, cast: &mut Self, value: Option<ValueId>| {
            let value = value?;
            if is_half(graph, value) { cast.to_float(graph, registry, value) } else { Some(value) }
        };
        let inputs: Vec<_> = node.inputs.iter().map(|&value| of(graph, self, value)).collect();
        let outputs: Vec<_> = { node.outputs.iter() }
            .map(|&value| match value {
                Some(value) if is_half(graph, value) => float_like(graph, value, "uncast"),
                other => other,
            })
            .collect();
        let new = |inputs, outputs| NewNode {
            name: node.name.clone(),
            domain: node.domain.clone(),
            op_type: node.op_type.clone(),
            since_version: node.since_version,
            inputs,
            outputs,
            captured: node.captured.clone(),
            attrs: node.attrs.clone(),
        };
        if graph.add_node(new(inputs, outputs.clone()), registry).is_err() {
            // What it was cannot fail: it was there.
            let _ = graph.add_node(new(node.inputs.to_vec(), node.outputs.to_vec()), registry);
            return;
        }
        for (&was, is) in node.outputs.iter().zip(outputs) {
            if let (Some(was), Some(is)) = (was, is)
                && was != is
            {
                self.cast(graph, registry, (is, was), DType::F16);
                // Who wants it as float need not read what float16 leaves of it.
                self.as_float.insert(was, is);
            }
        }
    }

    /// A value as float.
    fn to_float(
        &mut self,
        graph: &mut Graph,
        registry: &Registry,
        value: ValueId,
    ) -> Option<ValueId> {
        if let Some(&known) = self.as_float.get(&value) {
            return Some(known);
        }
        let cast = float_like(graph, value, "float")?;
        self.cast(graph, registry, (value, cast), DType::F32)?;
        self.as_float.insert(value, cast);
        Some(cast)
    }

    fn cast(
        &self,
        graph: &mut Graph,
        registry: &Registry,
        (from, to): (ValueId, ValueId),
        dtype: DType,
    ) -> Option<NodeId> {
        let node = NewNode {
            name: format!("{}/Cast", graph.value(to).name),
            op_type: "Cast".to_owned(),
            since_version: self.version,
            inputs: vec![Some(from)],
            outputs: vec![Some(to)],
            attrs: Attrs::new().with("to", Attr::Int(i64::from(dtype.onnx()))),
            ..NewNode::default()
        };
        graph.add_node(node, registry).ok()
    }
}

/// A value of float that nothing computes yet, with the shape of another and a name that ends in `suffix`.
fn float_like(graph: &mut Graph, value: ValueId, suffix: &str) -> Option<ValueId> {
    let Type::Tensor(mut tensor) = graph.fact(value).ty.clone() else { return None };
    tensor.dtype = DType::F32;
    let name = format!("{}/{suffix}", graph.value(value).name);
    graph.add_value(name, Fact::from(Type::Tensor(tensor))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parse;

    #[test]
    fn what_has_no_kernel_of_float16_reads_and_gives_float() {
        let mut graph = parse(
            "graph(x: float16[n,3], w: float16[3], c: bool[]) -> (d, f) {
               a = Add-14 (x, w)
               b = Mul-14 (a, w)
               d = Transpose-13 (b)
               f = If-13 [then_branch: graph() -> (p) { p = Exp-13 (a) },
                          else_branch: graph() -> (q) { q = Identity-13 (a) }] (c)
             }",
        );
        insert(&mut graph, &ort_ops::registry(), Some(14)).unwrap();
        graph.verify().unwrap();
        let of = |graph: &Graph, name: &str| {
            let nodes = graph.node_ids().map(|id| graph.node(id));
            let found = nodes.filter(|node| node.op_type == name);
            found.map(|node| graph.fact(node.inputs[0].unwrap()).dtype().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(of(&graph, "Add"), [DType::F32]);
        assert_eq!(of(&graph, "Mul"), [DType::F32]);
        assert_eq!(of(&graph, "Transpose"), [DType::F16]);
        // x, w once, and what Add and Mul give; Mul reads what Add gave before its cast.
        assert_eq!(of(&graph, "Cast").len(), 4);
        let id = graph.node_ids().find(|&id| graph.node(id).op_type == "If").unwrap();
        for (name, branch) in graph.node(id).attrs.graphs() {
            let exp = if name == "then_branch" { &[DType::F32][..] } else { &[] };
            assert_eq!(of(branch, "Exp"), exp);
            assert_eq!(of(branch, "Cast").len(), 2 * exp.len());
        }
    }

    #[test]
    fn what_stands_between_nodes_without_a_kernel_computes_in_float() {
        let mut graph = parse(
            "graph(x: float16[n]) -> (c, d) {
               a = Exp-13 (x)
               b = Round-11 (a)
               c = Exp-13 (b)
               d = Round-11 (c)
             }",
        );
        insert(&mut graph, &ort_ops::registry(), Some(13)).unwrap();
        let rounds = graph.node_ids().map(|id| graph.node(id)).filter(|node| node.op_type == "Round");
        let dtypes = rounds.map(|node| graph.fact(node.inputs[0].unwrap()).dtype().unwrap());
        let mut dtypes: Vec<_> = dtypes.collect();
        dtypes.sort_unstable();
        assert_eq!(dtypes, [DType::F32, DType::F16]);
    }

    #[test]
    fn what_names_its_type_itself_stays() {
        let text = "graph(x: int32[2,2]) -> (y) { y = EyeLike-9 [dtype: 10] (x) }";
        let mut graph = parse(text);
        insert(&mut graph, &ort_ops::registry(), Some(14)).unwrap();
        assert_eq!(graph.text().to_string(), parse(text).text().to_string());
    }
}
