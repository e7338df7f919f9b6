//! The functions at the end of fused operators, by ONNX Runtime's names.

use ort_graph::{Attr, Attrs, Graph, Node};
use ort_ops::ops::activation::Activation;
use ort_ops::ops::clip::Clip;
use ort_tensor::DType;

use crate::matching::Match;
use crate::pass::Refusal;
use crate::pattern::{Pat, absent, op, var};

/// Nodes that FusedConv can fuse.
pub(super) const OF_CONV: [&str; 6] =
    ["Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip", "HardSigmoid"];

/// Nodes that FusedGemm can fuse.
pub(super) const OF_GEMM: [&str; 12] = [
    "Relu",
    "Sigmoid",
    "Tanh",
    "LeakyRelu",
    "HardSigmoid",
    "Elu",
    "Selu",
    "Softplus",
    "Softsign",
    "ThresholdedRelu",
    "ScaledTanh",
    "ParametricSoftplus",
];

/// `product` with and without its optional third input, `c`.
pub(super) fn with_and_without_bias(product: &'static str) -> [Pat; 2] {
    [absent(), var("c")].map(|c| op(product, [var("a"), var("b"), c]).labelled("product"))
}

/// The operands of a matched product, which computes in f32, as those of a fused one.
pub(super) fn fused(name: &'static str, product: &Pat, attrs: fn(&Match<'_>) -> Attrs) -> Pat {
    let Pat::Op(product) = product else { unreachable!("invariant: a product is a node") };
    let [a, b, c] = [0, 1, 2].map(|i| product.inputs[i].clone());
    op(name, [a, b, c]).of("com.microsoft").since(1, attrs)
}

/// Checks that ONNX Runtime's kernel for the fused operator supports the type of the product.
pub(super) fn expect_f32(found: &Match<'_>) -> Result<(), Refusal> {
    let is_f32 = found.fact("a").dtype() == Some(DType::F32);
    if is_f32 { Ok(()) } else { Err(Refusal("it does not compute in f32")) }
}

/// The parameters of the function that a node applies to its first input.
pub(super) fn parameters(graph: &Graph, node: &Node) -> Result<Vec<f32>, Refusal> {
    if let Some(clip) = node.operator::<Clip>() {
        let bounds = bounds(graph, node, clip).filter(|bounds| !bounds.iter().any(|b| b.is_nan()));
        return bounds.map(|bounds| bounds.to_vec()).ok_or(Refusal("its bounds are not known"));
    }
    Ok(match node.operator::<Activation>() {
        None => Vec::new(),
        Some(&(Activation::Elu { alpha } | Activation::LeakyRelu { alpha })) => vec![alpha],
        Some(&Activation::ThresholdedRelu { alpha }) => vec![alpha],
        Some(
            &(Activation::HardSigmoid { alpha, beta }
            | Activation::ScaledTanh { alpha, beta }
            | Activation::ParametricSoftplus { alpha, beta }),
        ) => vec![alpha, beta],
        Some(&Activation::Selu { alpha, gamma }) => vec![alpha, gamma],
        Some(_) => return Err(Refusal("fused operators do not have this function")),
    })
}

/// An absent bound is infinite.
fn bounds(graph: &Graph, node: &Node, clip: &Clip) -> Option<[f32; 2]> {
    if let Clip::Attributes { min, max } = *clip {
        return Some([min, max]);
    }
    let bound = |index: usize, absent| match node.inputs.get(index).copied().flatten() {
        None => Some(absent),
        Some(bound) => match graph.constant(bound)?.as_slice::<f32>() {
            Ok([bound]) => Some(*bound),
            _ => None,
        },
    };
    Some([bound(1, f32::NEG_INFINITY)?, bound(2, f32::INFINITY)?])
}

/// `attrs` with the function that a node applies, in the form of FusedConv.
pub(super) fn of_conv(attrs: &Attrs, graph: &Graph, node: &Node) -> Attrs {
    let parameters = parameters(graph, node).unwrap_or_default();
    let attrs = attrs.clone().with("activation", Attr::String(node.op_type.clone()));
    if parameters.is_empty() {
        return attrs;
    }
    attrs.with("activation_params", Attr::Floats(parameters))
}

/// `attrs` with the function that a node applies, in the form of FusedGemm.
pub(super) fn of_gemm(attrs: &Attrs, graph: &Graph, node: &Node) -> Attrs {
    let attrs = attrs.clone().with("activation", Attr::String(node.op_type.clone()));
    let second = if node.op_type == "Selu" { "activation_gamma" } else { "activation_beta" };
    let parameters = parameters(graph, node).unwrap_or_default().into_iter();
    ["activation_alpha", second]
        .into_iter()
        .zip(parameters)
        .fold(attrs, |attrs, (name, value)| attrs.with(name, Attr::Float(value)))
}
