//! InsertCastTransformer: nodes that gain little from 16 bits, and nodes after them, compute in float.
//!
//! ```text
//! Conv(x, w) = Cast(Conv(Cast(x), Cast(w)))        Relu(Cast(x)) = Cast(Relu(x))        Cast(Cast(x)) = x
//! ```
//! where the inner casts are to float, and readers of a cast from float read its operand. Processors convert 16-bit
//! floats as fast as they load them, but have little arithmetic for them; and between the first and last such node
//! nothing is rounded to 16 bits any more.
//!
//! Source: ONNX Runtime 1.32, `InsertCastTransformer`, which does so for all nodes without a float16 kernel, at every
//! level.

use ort_graph::{
    Attr, Attrs, Fact, Graph, NewNode, Node, NodeId, Patch, PatchError, Type, ValueId,
};
use ort_tensor::DType;

use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "InsertCastTransformer",
    level: Level::Basic,
    exactness: Exactness::Rounding,
    start: || {
        // The standard's operator reads 16 bits, that of com.microsoft is mostly a product.
        let is_first = |node: &Node| {
            let is_attention = node.domain.is_empty() && node.op_type == "Attention";
            FIRST.contains(&&*node.op_type) && !is_attention
        };
        Box::new(InsertCastTransformer { is_first })
    },
};

/// Operators worth casts of their inputs: their kernels compute in float only.
const FIRST: &[&str] = &[
    "AffineGrid",
    "Attention",
    "BatchNormalization",
    "Col2Im",
    "Conv",
    "ConvTranspose",
    "DeformConv",
    "Einsum",
    "FusedMatMul",
    "GRU",
    "Gemm",
    "GridSample",
    "GroupNormalization",
    "InstanceNormalization",
    "LRN",
    "LSTM",
    "LogSoftmax",
    "MatMul",
    "Pow",
    "QuantizeLinear",
    "RNN",
    "Resize",
    "RoiAlign",
    "RotaryEmbedding",
    "Softmax",
    "Upsample",
];

/// Operators that compute in float if one of their inputs comes from float, such as residual sums.
const JOINING: &[&str] = &["Add", "Div", "LayerNormalization", "Mul", "RMSNormalization", "Sub"];

/// Operators that state their result type, or whose result is not a tensor.
const NEVER: &[&str] = &[
    "BitCast",
    "Cast",
    "CastLike",
    "ConstantOfShape",
    "EyeLike",
    "If",
    "Loop",
    "Optional",
    "Scan",
    "SequenceConstruct",
    "SequenceInsert",
    "SequenceMap",
    "SplitToSequence",
];

pub(crate) struct InsertCastTransformer {
    /// Whether a node that reads 16-bit floats is worth casts.
    pub(crate) is_first: fn(&Node) -> bool,
}

impl Rewrite for InsertCastTransformer {
    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let (graph, node) = (site.graph, site.node());
        let halves =
            || node.inputs.iter().flatten().copied().filter(|&value| is_half(graph, value));
        if halves().next().is_none() {
            return Ok(None);
        }
        let is_float = |value| float_of(graph, value).is_some();
        let is_behind = || {
            halves().any(is_float)
                && (JOINING.contains(&&*node.op_type)
                    || halves().all(|value| is_float(value) || graph.constant(value).is_some()))
        };
        let may_be = !NEVER.contains(&&*node.op_type) && node.attrs.graphs().next().is_none();
        if may_be && ((self.is_first)(node) || is_behind()) {
            in_float(site).map(Some)
        } else {
            Ok(None)
        }
    }
}

/// The node, computing in float.
fn in_float(site: &Site<'_>) -> Result<Patch, Refusal> {
    let (graph, node) = (site.graph, site.node());
    let version = cast_version(site.options.opset);
    let mut patch = Patch::new(graph);
    let mut inputs = node.inputs.to_vec();
    for input in &mut inputs {
        let Some(value) = input.filter(|&value| is_half(graph, value)) else { continue };
        let known = float_of(graph, value);
        let cast = || cast(&mut patch, graph, (value, value), (version, DType::F32));
        *input = Some(known.map_or_else(cast, Ok)?);
    }
    let mut outputs = node.outputs.to_vec();
    for output in outputs.iter_mut().flatten() {
        let info = graph.value(*output);
        *output = patch.value(info.name.clone(), float_like(&info.fact))?;
    }
    let results = outputs.clone();
    patch.node(NewNode {
        name: node.name.clone(),
        domain: node.domain.clone(),
        op_type: node.op_type.clone(),
        since_version: node.since_version,
        inputs,
        outputs,
        attrs: node.attrs.clone(),
        ..NewNode::default()
    });
    for (&was, is) in node.outputs.iter().zip(results) {
        let (Some(was), Some(mut is)) = (was, is) else { continue };
        if let Some(dtype) = graph.fact(was).dtype().filter(|_| is_half(graph, was)) {
            if let Some(output) = cast_back(graph, was) {
                patch.replace(output, is);
            }
            is = cast(&mut patch, graph, (is, was), (version, dtype))?;
        }
        patch.replace(was, is);
    }
    Ok(patch)
}

/// The result of the model's own cast to float of a value that is now cast from float; if there are several, only one
/// can take the value's name.
fn cast_back(graph: &Graph, value: ValueId) -> Option<ValueId> {
    let of_float = |&id: &NodeId| {
        let node = graph.node(id);
        let output = node.outputs.first().copied().flatten()?;
        let is_cast = node.op_type == "Cast" && node.domain.is_empty();
        (is_cast && graph.fact(output).dtype() == Some(DType::F32)).then_some(output)
    };
    graph.consumers(value).iter().find_map(of_float)
}

/// The version of Cast in a set of ai.onnx.
fn cast_version(opset: Option<i64>) -> i32 {
    match opset {
        Some(..9) => 6,
        Some(9..13) => 9,
        _ => 13,
    }
}

fn is_half(graph: &Graph, value: ValueId) -> bool {
    matches!(graph.fact(value).dtype(), Some(DType::F16 | DType::Bf16))
}

/// The float that a value was cast from.
fn float_of(graph: &Graph, value: ValueId) -> Option<ValueId> {
    let producer = graph.node(graph.producer(value)?.0);
    let from = producer.inputs.first().copied().flatten()?;
    let is_cast = producer.op_type == "Cast" && producer.domain.is_empty();
    (is_cast && graph.fact(from).dtype() == Some(DType::F32)).then_some(from)
}

/// The fact of a 16-bit tensor as float; other facts unchanged.
fn float_like(fact: &Fact) -> Fact {
    match &fact.ty {
        Type::Tensor(tensor) if matches!(tensor.dtype, DType::F16 | DType::Bf16) => {
            let mut tensor = tensor.clone();
            tensor.dtype = DType::F32;
            Type::Tensor(tensor).into()
        }
        ty => ty.clone().into(),
    }
}

/// A cast of `from`, named for `like`.
fn cast(
    patch: &mut Patch,
    graph: &Graph,
    (from, like): (ValueId, ValueId),
    (version, dtype): (i32, DType),
) -> Result<ValueId, PatchError> {
    let info = graph.value(like);
    let fact = if dtype == DType::F32 { float_like(&info.fact) } else { info.fact.clone() };
    let output = patch.value(info.name.clone(), Fact::from(fact.ty))?;
    patch.node(NewNode {
        op_type: "Cast".to_owned(),
        since_version: version,
        inputs: vec![Some(from)],
        outputs: vec![Some(output)],
        attrs: Attrs::new().with("to", Attr::Int(i64::from(dtype.onnx()))),
        ..NewNode::default()
    });
    Ok(output)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::{assert_optimized, assert_rewritten};

    #[test]
    fn what_follows_a_convolution_reads_it_before_its_cast() {
        assert_optimized(
            super::PASS,
            "graph(x: float16[1,2,4,4], w: float16[2,2,3,3], b: float16[2]) -> (e, f) {
               a = Conv-11 (x, w)
               p, i = MaxPool-12 [kernel_shape: [2, 2]] (a)
               c = Relu-14 (p)
               e = MatMul-13 (c, c)
               f = Add-14 (c, x)
             }",
            &expect![[r#"
                graph(x: float16[1,2,4,4], w: float16[2,2,3,3], b: float16[2]) -> (e, f) {
                  x_2 = Cast-13 [to: 1] (x)
                  w_2 = Cast-13 [to: 1] (w)
                  a_2 = Conv-11 (x_2, w_2)
                  p_2, i = MaxPool-12 [kernel_shape: [2, 2]] (a_2)
                  c_2 = Relu-14 (p_2)
                  e_2 = MatMul-13 (c_2, c_2)
                  e = Cast-13 [to: 10] (e_2)
                  x_3 = Cast-13 [to: 1] (x)
                  f_2 = Add-14 (c_2, x_3)
                  f = Cast-13 [to: 10] (f_2)
                }"#]],
        );
    }

    #[test]
    fn a_cast_back_reads_what_was_cast() {
        // A rounding to 16 bits is removed, so the results differ more than random tests allow for float.
        let text = "graph(x: bfloat16[1,2,4,4], w: bfloat16[2,2,3,3]) -> (b, c, d) {
               a = Conv-22 (x, w)
               b = Cast-13 [to: 1] (a)
               c = Cast-13 [to: 1] (a)
               e = Cast-13 [to: 1] (a)
               d = Neg-13 (e)
             }";
        assert_rewritten(
            super::PASS,
            text,
            &expect![[r#"
                graph(x: bfloat16[1,2,4,4], w: bfloat16[2,2,3,3]) -> (b, c, d) {
                  x_2 = Cast-13 [to: 1] (x)
                  w_2 = Cast-13 [to: 1] (w)
                  b = Conv-22 (x_2, w_2)
                  a = Cast-13 [to: 16] (b)
                  c = Cast-13 [to: 1] (a)
                  e = Cast-13 [to: 1] (a)
                  d = Neg-13 (e)
                }"#]],
        );
    }

    #[test]
    fn what_nothing_else_computes_in_float_stays_and_so_do_casts_of_the_model() {
        let text = "graph(x: float[n], h: bfloat16[n]) -> (c, d, e) {
               a = Cast-13 [to: 10] (x)
               c = Cast-13 [to: 1] (a)
               d = Relu-14 (h)
               p = Neg-13 (x)
               q = Cast-13 [to: 10] (p)
               e = Cast-13 [to: 1] (q)
             }";
        assert_optimized(
            super::PASS,
            text,
            &expect![[r#"
                graph(x: float[n], h: bfloat16[n]) -> (c, d, e) {
                  a = Cast-13 [to: 10] (x)
                  c = Cast-13 [to: 1] (a)
                  d = Relu-14 (h)
                  p = Neg-13 (x)
                  q = Cast-13 [to: 10] (p)
                  e = Cast-13 [to: 1] (q)
                }"#]],
        );
    }
}
