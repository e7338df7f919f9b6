//! What a Transpose costs.

use ort_graph::{Dim, Fact, Graph, Node, ValueId};
use ort_tensor::DType;

use super::perm::Perm;

/// The assumed size of an unknown dimension: few are as small as 1, and those shared by two values are equal.
const TYPICAL: usize = 16;

/// Bytes dominate, and the number of nodes breaks ties: no region has that many.
const NODE: u64 = 1;
const BYTE: u64 = 1 << 12;
/// Sums of a region's costs stay far below 2⁶².
const MOST_BYTES: u64 = 1 << 40;

/// The estimated bytes of a tensor.
pub(super) fn n_bytes(fact: &Fact) -> u64 {
    let (Some(dims), Some(dtype)) = (fact.dims(), fact.dtype()) else { return MOST_BYTES };
    let dims = dims.iter().map(|dim| dim.known().unwrap_or(TYPICAL));
    let n = dims.fold(1_usize, usize::saturating_mul);
    let n_bytes = dtype.n_bytes(n).unwrap_or(n.saturating_mul(size_of::<String>()));
    u64::try_from(n_bytes).map_or(MOST_BYTES, |n_bytes| n_bytes.min(MOST_BYTES))
}

/// The cost of moving these bytes.
pub(super) fn of_bytes(n_bytes: u64) -> u64 {
    n_bytes.min(MOST_BYTES) * BYTE
}

/// The cost of one more node.
pub(super) const OF_NODE: u64 = NODE;

/// The cost of a Transpose: nothing if it is the identity, little if only axes of one element move.
pub(super) fn of_transpose(fact: &Fact, perm: &Perm) -> u64 {
    let is_one =
        |axis: usize| fact.dims().is_some_and(|dims| dims.get(axis) == Some(&Dim::Known(1)));
    match perm.is_identity() {
        true => 0,
        false if perm.moves_nothing(is_one) => NODE,
        false => of_bytes(n_bytes(fact)) + NODE,
    }
}

/// The same for an existing Transpose with this result: products fuse one that swaps the last two axes.
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

/// The fact of a value as stored in this order.
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
