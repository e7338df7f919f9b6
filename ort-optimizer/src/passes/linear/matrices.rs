//! What a matrix product can take in.

use ort_graph::{Attrs, Dim, Fact, Graph, Node};

use crate::matching::Match;
use crate::pass::Refusal;

/// That `c` stretches to the matrix that `product` computes, and not the other way round.
pub(super) fn expect_bias(graph: &Graph, product: &Node, c: &Fact) -> Result<(), Refusal> {
    let y = product.outputs.first().copied().flatten().and_then(|y| graph.fact(y).dims());
    let (Some(c), Some(y @ [_, _])) = (c.dims(), y) else {
        return Err(Refusal("the ranks are not known"));
    };
    let fits = |(c, y): (&Dim, &Dim)| *c == Dim::Known(1) || c.equals(y);
    if c.len() <= y.len() && c.iter().rev().zip(y.iter().rev()).all(fits) {
        Ok(())
    } else {
        Err(Refusal("the summand may stretch the product"))
    }
}

/// A Gemm of the operator sets that have the matched MatMul.
pub(super) fn gemm_of_matmul(found: &Match<'_>) -> (i32, Attrs) {
    let version = match found.node("MatMul").since_version {
        ..9 => 7,
        9..13 => 9,
        _ => 13,
    };
    (version, Attrs::new())
}
