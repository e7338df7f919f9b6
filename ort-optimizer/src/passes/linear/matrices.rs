//! What can be fused into a matrix product.

use ort_graph::{Attr, Attrs, Dim, Fact, Graph, Node, ValueId};
use ort_ops::ops::matmul::MatMul;
use ort_tensor::DType;

use crate::matching::Match;
use crate::pass::Refusal;

/// Checks that `c` broadcasts to the matrix that `product` computes, and not vice versa.
pub(super) fn expect_bias(graph: &Graph, product: &Node, c: &Fact) -> Result<(), Refusal> {
    let y = product.outputs.first().copied().flatten().and_then(|y| graph.fact(y).dims());
    let (Some(c), Some(y @ [_, _])) = (c.dims(), y) else {
        return Err(Refusal("the ranks are not known"));
    };
    let fits = |(c, y): (&Dim, &Dim)| *c == Dim::Known(1) || c.equals(y);
    if c.len() <= y.len() && c.iter().rev().zip(y.iter().rev()).all(fits) {
        Ok(())
    } else {
        Err(Refusal("the summand may broadcast the product"))
    }
}

/// A Gemm of the operator set of the matched MatMul.
pub(super) fn gemm_of_matmul(found: &Match<'_>) -> (i32, Attrs) {
    let version = match found.node("MatMul").since_version {
        ..9 => 7,
        9..13 => 9,
        _ => 13,
    };
    (version, Attrs::new())
}

/// Checks that ONNX Runtime's FusedMatMul supports an operand like this one.
pub(super) fn expect_fused_matmul(graph: &Graph, a: ValueId) -> Result<(), Refusal> {
    match graph.fact(a).dtype() {
        Some(DType::F32 | DType::F64) => Ok(()),
        _ => Err(Refusal("it computes with other types")),
    }
}

/// The attributes of a FusedMatMul.
pub(super) fn fused_matmul_attrs(op: &MatMul) -> Attrs {
    let flag = |is: bool| Attr::Int(i64::from(is));
    Attrs::new()
        .with("alpha", Attr::Float(op.alpha))
        .with("transA", flag(op.a.is_transposed))
        .with("transB", flag(op.b.is_transposed))
        .with("transBatchA", flag(op.a.is_batch_transposed))
        .with("transBatchB", flag(op.b.is_batch_transposed))
}
