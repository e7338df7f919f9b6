//! What a matrix product can take in.

use ort_graph::{Dim, Fact, Graph, Node};

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
