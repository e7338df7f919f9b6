//! Fusions for transformers: activations, norms, attention.

pub(super) mod gelu;
mod layer_norm;

use ort_graph::{Dim, Fact, Graph, ValueId};
use ort_ops::ops::gelu::Gelu;
use ort_tensor::DType;

use crate::matching::Match;
use crate::pass::{Refusal, Site};

// One per line.
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

/// Checks that the node `Gelu` of ai.onnx is the exact one, in f32.
fn is_exact_gelu(found: &Match<'_>) -> Result<(), Refusal> {
    match found.node("Gelu").operator() {
        Some(Gelu::Exact) => is_f32(found),
        _ => Err(Refusal("it is the approximate Gelu")),
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

/// Whether two values are known to have the same shape.
fn has_same_dims(a: &Fact, b: &Fact) -> bool {
    a.dims().zip(b.dims()).is_some_and(|(a, b)| Dim::all_equal(a, b))
}

/// The newest of these versions of an operator of ai.onnx that the model's opset has; the first if
/// the opset is not known.
fn newest(site: &Site<'_>, versions: &[i32]) -> i32 {
    let opset = site.options.opset.unwrap_or(0);
    let known = versions.iter().copied().filter(|&version| i64::from(version) <= opset);
    known.max().unwrap_or(versions[0])
}
