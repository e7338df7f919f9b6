//! What networks of attention are made of: activations, norms, attention.

mod gelu;
mod layer_norm;

use ort_graph::{Fact, Graph, Node, ValueId};
use ort_ops::ops::gelu::Gelu;
use ort_ops::ops::layer_normalization::LayerNormalization;
use ort_tensor::DType;

use crate::matching::Match;
use crate::pass::{Refusal, Site};

// One a line.
passes! {
    gelu_fusion_l1,
    layer_norm_fusion_l1,
    gelu_fusion_l2,
    layer_norm_fusion_l2,
    simplified_layer_norm_fusion,
    fast_gelu_fusion,
    quick_gelu_fusion,
    hard_sigmoid_fusion,
    multi_head_attention_fusion,
    attention_fusion,
    embed_layer_norm_fusion,
    skip_layer_norm_fusion,
    bias_skip_layer_norm_fusion,
    bias_gelu_fusion,
    gelu_approximation,
    hard_swish_fusion,
}

/// ONNX Runtime's kernels of fused operators are for f32.
fn is_f32(found: &Match<'_>) -> Result<(), Refusal> {
    match found.root_fact().and_then(Fact::dtype) {
        Some(DType::F32) => Ok(()),
        _ => Err(Refusal("it is not f32")),
    }
}

/// That the node `Gelu` of ai.onnx is the exact one, in f32.
fn is_exact_gelu(found: &Match<'_>) -> Result<(), Refusal> {
    match found.node("Gelu").operator() {
        Some(Gelu::Exact) => is_f32(found),
        _ => Err(Refusal("it is another Gelu")),
    }
}

/// The terms of a sum, if the value is one.
fn terms(graph: &Graph, sum: ValueId) -> Option<[ValueId; 2]> {
    let (add, 0) = graph.producer(sum)? else { return None };
    let add = graph.node(add);
    match add.inputs[..] {
        [Some(a), Some(b)] if add.domain.is_empty() && add.op_type == "Add" => Some([a, b]),
        _ => None,
    }
}

/// The norm is of rows along the last of two or three dimensions, in f32, by constants for each
/// element of a row, and nobody asks for its moments.
fn normalizes_rows(graph: &Graph, norm: &Node, op: &LayerNormalization) -> Result<(), Refusal> {
    let fact = |index: usize| norm.inputs.get(index).copied().flatten().map(|id| graph.fact(id));
    if (0..3).filter_map(fact).any(|fact| fact.dtype() != Some(DType::F32)) {
        return Err(Refusal("it is not f32"));
    }
    if norm.outputs.iter().skip(1).flatten().any(|&moment| graph.is_used(moment)) {
        return Err(Refusal("its moments are used"));
    }
    let dims = fact(0).and_then(Fact::dims).unwrap_or_default();
    let ([_, hidden] | [_, _, hidden]) = dims else {
        return Err(Refusal("it has not two or three dimensions"));
    };
    if op.axis != -1 && usize::try_from(op.axis).ok() != Some(dims.len() - 1) {
        return Err(Refusal("its rows have more than one dimension"));
    }
    // Constants: what replaces the sum depends on the parameters.
    let is_row = |parameter: &Fact| {
        parameter.constant.is_some() && matches!(parameter.dims(), Some([n]) if n.equals(hidden))
    };
    match (1..3).filter_map(fact).all(is_row) {
        true => Ok(()),
        false => Err(Refusal("its parameters are not a constant for each element of a row")),
    }
}

/// Whether two values are known to have the same shape.
fn has_same_dims(a: &Fact, b: &Fact) -> bool {
    match (a.dims(), b.dims()) {
        (Some(a), Some(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.equals(b)),
        _ => false,
    }
}

/// The newest of these versions of an operator of ai.onnx that the model's opset has; the first if
/// the opset is not known.
fn newest(site: &Site<'_>, versions: &[i32]) -> i32 {
    let opset = site.options.opset.unwrap_or(0);
    let known = versions.iter().copied().filter(|&version| i64::from(version) <= opset);
    known.max().unwrap_or(versions[0])
}
