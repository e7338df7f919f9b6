//! SqueezeReorder: what is computed element by element of a squeezed convolution is computed before it is squeezed.
//!
//! ```text
//! f(Squeeze(x), c, …) = Squeeze(f(x, c', …))     x: a convolution, or such an f; c: constants, with the squeezed
//!                                                 dimensions as ones
//! ```
//! So a bias, a normalization and an activation reach the convolution, and the Squeeze the Unsqueeze before the next
//! one: tf2onnx writes Keras' one-dimensional layers as two-dimensional ones of one row. Our own pass: ONNX Runtime has
//! no equivalent.

use ort_graph::{Graph, NewNode, Node, Patch, ValueId};
use ort_ops::infer::normalize_axes;
use ort_ops::ops::squeeze::Squeeze;
use ort_tensor::Tensor;

use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "SqueezeReorder",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || Box::new(SqueezeReorder),
};

struct SqueezeReorder;

/// Operators that compute each element of the result from one of each operand. Before version 7 an attribute said
/// which dimensions the second has.
const BINARY: &[&str] = &["Add", "Sub", "Mul", "Div", "PRelu"];
/// Operators that compute each element of the result from one of the first operand.
const UNARY: &[&str] = &[
    "Relu",
    "Clip",
    "LeakyRelu",
    "Sigmoid",
    "HardSigmoid",
    "HardSwish",
    "Tanh",
    "Elu",
    "Selu",
    "Softplus",
    "Mish",
];
/// What a bias or an activation can be fused with.
const FUSING: &[&str] = &["Conv", "ConvTranspose", "BatchNormalization"];

impl Rewrite for SqueezeReorder {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some([BINARY, UNARY].concat())
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let (graph, node) = (site.graph, site.node());
        let Some(&Some(old)) = node.outputs.first() else { return Ok(None) };
        let Some((at, squeeze, x)) = squeezed(graph, node) else { return Ok(None) };
        let axes = axes(graph, squeeze, x).ok_or(Refusal("the squeezed axes are not known"))?;
        let mut patch = Patch::new(graph);
        let mut inputs = node.inputs.to_vec();
        for (i, input) in inputs.iter_mut().enumerate() {
            match *input {
                _ if i == at => *input = Some(x),
                Some(id) => {
                    let constant =
                        graph.constant(id).ok_or(Refusal("an operand is not constant"))?;
                    if let Some(constant) = unsqueezed(constant, &axes, graph, x)? {
                        *input = Some(patch.constant("", constant)?);
                    }
                }
                None => {}
            }
        }
        let before = patch.output_of(NewNode {
            name: node.name.clone(),
            domain: node.domain.clone(),
            op_type: node.op_type.clone(),
            since_version: node.since_version,
            inputs,
            attrs: node.attrs.clone(),
            ..NewNode::default()
        })?;
        let mut inputs = squeeze.inputs.to_vec();
        inputs[0] = Some(before);
        let new = patch.output_of(NewNode {
            name: squeeze.name.clone(),
            op_type: squeeze.op_type.clone(),
            since_version: squeeze.since_version,
            inputs,
            attrs: squeeze.attrs.clone(),
            ..NewNode::default()
        })?;
        patch.replace(old, new);
        Ok(Some(patch))
    }
}

/// How many operands are computed with element by element.
fn n_elementwise(node: &Node) -> usize {
    let op_type = node.op_type.as_str();
    match node.domain.as_str() {
        "" if BINARY.contains(&op_type) && node.since_version >= 7 => 2,
        "" if UNARY.contains(&op_type) => 1,
        _ => 0,
    }
}

/// The operand that is squeezed and used only here, its node, and what is squeezed.
fn squeezed<'g>(graph: &'g Graph, node: &Node) -> Option<(usize, &'g Node, ValueId)> {
    let found = |&id: &ValueId| {
        let squeeze = graph.node(graph.producer(id)?.0);
        let is_only = graph.consumers(id).len() == 1 && !graph.outputs().contains(&id);
        let x = squeeze.inputs.first().copied().flatten()?;
        let source = graph.node(graph.producer(x)?.0);
        let fuses = source.domain.is_empty() && FUSING.contains(&source.op_type.as_str());
        let is_fused = fuses || n_elementwise(source) > 0;
        (squeeze.operator::<Squeeze>().is_some() && is_only && is_fused).then_some((squeeze, x))
    };
    let mut operands = node.inputs.iter().enumerate().take(n_elementwise(node));
    operands.find_map(|(i, id)| found(id.as_ref()?).map(|(squeeze, x)| (i, squeeze, x)))
}

/// The squeezed axes of `x`.
fn axes(graph: &Graph, squeeze: &Node, x: ValueId) -> Option<Vec<usize>> {
    let given = match (squeeze.operator::<Squeeze>()?.axes.clone(), squeeze.inputs.get(1)) {
        (Some(axes), _) => axes,
        (None, Some(&Some(axes))) => graph.fact(axes).ints()?,
        (None, _) => return None,
    };
    normalize_axes(&given, graph.fact(x).dims()?.len()).ok()
}

/// A constant operand with the squeezed dimensions; `None` if it needs none.
fn unsqueezed(
    constant: &Tensor,
    axes: &[usize],
    graph: &Graph,
    x: ValueId,
) -> Result<Option<Tensor>, Refusal> {
    let rank = graph.fact(x).dims().map_or(0, <[_]>::len);
    if constant.shape().is_empty() {
        return Ok(None);
    }
    let n_added = (rank - axes.len()).checked_sub(constant.shape().len());
    let n_added = n_added.ok_or(Refusal("a constant has more dimensions"))?;
    let mut dims = std::iter::repeat_n(1, n_added).chain(constant.shape().iter().copied());
    // bounded: by the rank
    let shape: Vec<usize> = (0..rank)
        .map(|axis| if axes.contains(&axis) { 1 } else { dims.next().unwrap_or(1) })
        .collect();
    constant.reshaped(&shape).map(Some).map_err(|_| Refusal("a constant cannot be reshaped"))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn a_bias_and_an_activation_reach_the_convolution() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,2,1,w]) -> (y) {
               f = const float[2,2,1,3] fill 0.5
               axes = const int64[1] [-2]
               bias = const float[1,2,1] [3, 4]
               low = const float[] -1
               a = Conv-11 (x, f)
               b = Squeeze-13 (a, axes)
               c = Add-14 (bias, b)
               d = Clip-13 (c, low)
               e = Relu-14 (d)
               y = Unsqueeze-13 (e, axes)
             }",
            &expect![[r#"
                graph(x: float[n,2,1,w]) -> (y) {
                  f = const float[2,2,1,3] fill 0.5
                  axes = const int64[1] [-2]
                  low = const float[] -1
                  value = const float[1,2,1,1] [3, 4]
                  a = Conv-11 (x, f)
                  value_2 = Add-14 (value, a)
                  value_3 = Clip-13 (value_2, low)
                  value_4 = Relu-14 (value_3)
                  e = Squeeze-13 (value_4, axes)
                  y = Unsqueeze-13 (e, axes)
                }"#]],
        );
    }

    #[test]
    fn other_operands_stay() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,2,1,w], t: float[2,1], s: float[n,1,2], z: float[1,2,1,3]) -> (b, d, g, i, k, m, o) {
               f = const float[2,2,1,3] fill 0.5
               axes = const int64[1] [2]
               first = const int64[1] [1]
               deep = const float[1,1,1,1] [3]
               f1 = const float[1,2,1,3] fill 0.5
               ones = const float[4] fill 1
               a1 = Conv-11 (x, f)
               b = Squeeze-13 (a1, axes)
               c = Relu-14 (b)
               d = Neg-13 (c)
               a2 = Conv-11 (x, f)
               e = Squeeze-13 (a2, axes)
               g = Add-14 (e, t)
               a3 = Conv-11 (x, f)
               h = Squeeze-13 (a3, axes)
               i = Add-14 (h, deep)
               j = Squeeze-13 (s, first)
               k = Relu-14 (j)
               a4 = Conv-11 (x, f)
               l = Squeeze-1 [axes: [2]] (a4)
               old = const float[2] [1, 2]
               m = Add-6 [broadcast: 1, axis: 1] (l, old)
               a5 = Conv-11 (z, f1)
               low = Squeeze-1 [axes: [0, 1, 2, 3]] (a5)
               o = Clip-13 (ones, low)
             }",
            &expect![[r#"
                graph(x: float[n,2,1,w], t: float[2,1], s: float[n,1,2], z: float[1,2,1,3]) -> (b, d, g, i, k, m, o) {
                  f = const float[2,2,1,3] fill 0.5
                  axes = const int64[1] [2]
                  first = const int64[1] [1]
                  deep = const float[1,1,1,1] [3]
                  f1 = const float[1,2,1,3] fill 0.5
                  ones = const float[4] fill 1
                  old = const float[2] [1, 2]
                  a1 = Conv-11 (x, f)
                  b = Squeeze-13 (a1, axes)
                  c = Relu-14 (b)
                  d = Neg-13 (c)
                  a2 = Conv-11 (x, f)
                  e = Squeeze-13 (a2, axes)
                  g = Add-14 (e, t)
                  a3 = Conv-11 (x, f)
                  h = Squeeze-13 (a3, axes)
                  i = Add-14 (h, deep)
                  j = Squeeze-13 (s, first)
                  k = Relu-14 (j)
                  a4 = Conv-11 (x, f)
                  l = Squeeze-1 [axes: [2]] (a4)
                  m = Add-6 [axis: 1, broadcast: 1] (l, old)
                  a5 = Conv-11 (z, f1)
                  low = Squeeze-1 [axes: [0, 1, 2, 3]] (a5)
                  o = Clip-13 (ones, low)
                }
                1 refused: an operand is not constant
                1 refused: a constant has more dimensions"#]],
        );
    }
}
