//! Nodes of float16 computed in float between casts, where ONNX Runtime's CPU has no kernel of float16.
//!
//! Source: ONNX Runtime 1.32, `InsertCastTransformer` and its CPU kernels.

use ort_graph::Node;

use crate::options::{Exactness, Level};
use crate::pass::Pass;
use crate::passes::InsertCastTransformer;

pub(super) const PASS: Pass = Pass {
    name: "InsertCastTransformer",
    level: Level::Basic,
    exactness: Exactness::Rounding,
    start: || Box::new(InsertCastTransformer { is_first: lacks_kernel }),
};

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

/// The same for com.microsoft.
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

fn lacks_kernel(node: &Node) -> bool {
    let known = match &*node.domain {
        "" => KERNELS,
        "com.microsoft" => CONTRIB_KERNELS,
        _ => return false,
    };
    !known.contains(&&*node.op_type)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::lower_for_onnx_runtime;
    use crate::options::Exactness;
    use crate::testing::{assert_equivalent, parse};

    #[test]
    fn what_has_no_kernel_of_float16_reads_and_gives_float() {
        let before = parse(
            "graph(x: float16[2,3], w: float16[3], c: bool[]) -> (d, f) {
               a = Add-14 (x, w)
               b = Mul-14 (a, w)
               d = Transpose-13 (b)
               f = If-13 [then_branch: graph() -> (p) { p = Exp-13 (x) },
                          else_branch: graph() -> (q) { q = Identity-13 (x) }] (c)
             }",
        );
        let before_text = before.to_string();
        let (after, _) = lower_for_onnx_runtime(before, &ort_ops::registry(), Some(14)).unwrap();
        expect![[r#"
            graph(x: float16[2,3], w: float16[3], c: bool[]) -> (d, f) {
              f = If-13 [else_branch: graph() -> (q) {
                q = Identity-13 (x)
              }, then_branch: graph() -> (p) {
                x_2 = Cast-13 [to: 1] (x)
                p_2 = Exp-13 (x_2)
                p = Cast-13 [to: 10] (p_2)
              }] (c)
              x_2 = Cast-13 [to: 1] (x)
              w_2 = Cast-13 [to: 1] (w)
              a_2 = Add-14 (x_2, w_2)
              w_3 = Cast-13 [to: 1] (w)
              b_2 = Mul-14 (a_2, w_3)
              d_2 = Transpose-13 (b_2)
              d = Cast-13 [to: 10] (d_2)
            }"#]]
        .assert_eq(&after.to_string());
        assert_equivalent(&parse(&before_text), &after, Exactness::Rounding);
    }
}
