//! What a Transpose costs.

use ort_graph::{Dim, Fact, Graph, Node, ValueId};
use ort_tensor::DType;

use super::perm::Perm;

/// What a dimension counts for that is not known: few such dimensions are as small as 1, and those
/// that stand in two values are the same.
const TYPICAL: usize = 16;

/// Bytes count first, the number of nodes only between equals: no region has as many.
const NODE: u64 = 1;
const BYTE: u64 = 1 << 12;
/// Sums of a region's costs stay far below 2⁶².
const MOST_BYTES: u64 = 1 << 40;

/// The bytes of a tensor, as far as dimensions are known.
pub(super) fn n_bytes(fact: &Fact) -> u64 {
    let (Some(dims), Some(dtype)) = (fact.dims(), fact.dtype()) else { return MOST_BYTES };
    let dims = dims.iter().map(|dim| dim.known().unwrap_or(TYPICAL));
    let n = dims.fold(1_usize, usize::saturating_mul);
    let n_bytes = dtype.n_bytes(n).unwrap_or(n.saturating_mul(size_of::<String>()));
    u64::try_from(n_bytes).map_or(MOST_BYTES, |n_bytes| n_bytes.min(MOST_BYTES))
}

/// What moving these bytes costs.
pub(super) fn of_bytes(n_bytes: u64) -> u64 {
    n_bytes.min(MOST_BYTES) * BYTE
}

/// One node more.
pub(super) const OF_NODE: u64 = NODE;

/// What it costs to put a value in another order: nothing where that is none, little where only
/// axes of one element move.
pub(super) fn of_transpose(fact: &Fact, perm: &Perm) -> u64 {
    let is_one =
        |axis: usize| fact.dims().is_some_and(|dims| dims.get(axis) == Some(&Dim::Known(1)));
    match perm.is_identity() {
        true => 0,
        false if perm.moves_nothing(is_one) => NODE,
        false => of_bytes(n_bytes(fact)) + NODE,
    }
}

/// The same for a Transpose that stands in the graph, and makes `result`: products take over one
/// that swaps the last two axes.
pub(super) fn of_existing(graph: &Graph, fact: &Fact, perm: &Perm, result: ValueId) -> u64 {
    let rank = perm.rank();
    let is_swap = rank >= 2
        && (perm.axis(rank - 2), perm.axis(rank - 1)) == (rank - 1, rank - 2)
        && perm.keeps_order(0..rank - 2);
    let is_float = matches!(fact.dtype(), Some(DType::F32 | DType::F64));
    let is_product = |node: &Node| matches!(&*node.op_type, "MatMul" | "FusedMatMul" | "Gemm");
    let readers = graph.consumers(result);
    let is_taken_over = is_swap
        && is_float
        && !readers.is_empty()
        && readers.iter().all(|&reader| is_product(graph.node(reader)))
        && !graph.is_output(result);
    if is_taken_over { NODE } else { of_transpose(fact, perm) }
}

/// What is known of a value as it is stored in an order.
pub(super) fn stored(fact: &Fact, perm: &Perm) -> Fact {
    match (fact.dtype(), fact.dims()) {
        (Some(dtype), Some(dims)) if dims.len() == perm.rank() => {
            Fact::tensor(dtype, perm.inverse().of_list(dims))
        }
        _ => Fact::UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_known_of_a_value_of_another_rank() {
        let fact = Fact::tensor(DType::F32, vec![]);
        assert_eq!(stored(&fact, &Perm::identity(2)), Fact::UNKNOWN);
        assert_eq!(stored(&fact, &Perm::identity(0)), fact);
    }
}
