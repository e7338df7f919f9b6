//! Functions that a convolution in NCHWc applies to its result.

use ort_graph::{Attr, Attrs, Graph, Node};
use ort_ops::activation::Activation;

/// Whether a convolution in NCHWc can apply this: as ONNX Runtime supports it, or the provider's kernels.
pub(super) const fn is_allowed(activation: Activation, is_free: bool) -> bool {
    match activation {
        Activation::None
        | Activation::Relu
        | Activation::LeakyRelu { .. }
        | Activation::Tanh
        | Activation::Sigmoid
        | Activation::Clip { .. }
        | Activation::HardSigmoid { .. } => true,
        Activation::HardSwish | Activation::QuickGelu { .. } => is_free,
        _ => false,
    }
}

/// The attributes by which a convolution applies `node` to its result.
pub(super) fn attrs_of(graph: &Graph, node: &Node, is_free: bool) -> Option<Attrs> {
    if !node.domain.is_empty() && node.op_type != "QuickGelu" {
        return None;
    }
    let float = |name: &str, default: f32| match node.attrs.get(name) {
        Some(Attr::Float(value)) => *value,
        _ => default,
    };
    // Before version 11 the bounds are attributes.
    let bound = |index: usize, name: &str, default: f32| match node.inputs.get(index) {
        Some(&Some(id)) => Some(*graph.constant(id)?.as_slice::<f32>().ok()?.first()?),
        _ => Some(float(name, default)),
    };
    let params = match node.op_type.as_str() {
        "Relu" | "Sigmoid" | "Tanh" => Vec::new(),
        "HardSwish" if is_free => Vec::new(),
        "QuickGelu" if is_free => vec![float("alpha", 1.702)],
        "LeakyRelu" => vec![float("alpha", 0.01)],
        "HardSigmoid" => vec![float("alpha", 0.2), float("beta", 0.5)],
        "Clip" => vec![bound(1, "min", f32::MIN)?, bound(2, "max", f32::MAX)?],
        _ => return None,
    };
    let attrs = Attrs::new().with("activation", Attr::String(node.op_type.clone()));
    Some(if params.is_empty() {
        attrs
    } else {
        attrs.with("activation_params", Attr::Floats(params))
    })
}
