//! The dimensions of the inputs of a mixture of experts, and their checks.

use ort_graph::{Dim, Dims, OpError};

use super::{Gate, MoE, Positions, ROUTER_WEIGHTS};
use crate::infer::{dims_product, known_or_zero};

/// The sizes of one mixture of experts; 0 for those that are not known.
pub(super) struct Sizes {
    pub(super) n_experts: usize,
    /// The columns of a token.
    pub(super) hidden: usize,
    /// The columns between the layers.
    pub(super) inner: usize,
    /// The rows of the first layer.
    pub(super) first: usize,
}

impl Sizes {
    /// The sizes of inputs of these dimensions.
    ///
    /// # Errors
    /// If two of them contradict each other.
    pub(super) fn new(op: &MoE, dims: &dyn Fn(usize) -> Option<Dims>) -> Result<Self, OpError> {
        let last = |index: usize| dims(index).and_then(|dims| dims.last().cloned());
        let or_unknown = |dim: Option<Dim>| dim.unwrap_or(Dim::Unknown);
        let x = dims(0);
        if let Some(found) = x.as_ref().map(|x| x.len()).filter(|rank| !matches!(rank, 2 | 3)) {
            return Err(OpError::InputRank { index: 0, expected: "2 or 3", found });
        }
        let n_tokens = x.as_ref().map(|x| dims_product(&x[..x.len() - 1]));
        let hidden = or_unknown(last(0));
        let router = [or_unknown(n_tokens), or_unknown(last(1))];
        expect("router logits", dims(1), &router)?;
        if op.quantization.is_some() {
            expect("router weights", dims(ROUTER_WEIGHTS), &router)?;
        }
        let [_, n_experts] = router;
        if let Some(len) = n_experts.known().filter(|&n| n < op.routing.k) {
            let index = i64::try_from(op.routing.k).unwrap_or(i64::MAX);
            return Err(OpError::Index { what: "experts of a token", index, len });
        }
        let bits = op.quantization.map_or(8, |quantization| quantization.bits[1]);
        let inner = or_unknown(last(op.layers()[1].weights));
        let inner = inner.map(|n| Some(n.checked_mul(8)? / bits));
        let first = match op.gate {
            Gate::Apart => inner.clone(),
            Gate::Interleaved | Gate::Halves => inner.map(|n| n.checked_mul(2)),
        };
        let layers = [[&first, &hidden], [&hidden, &inner], [&inner, &hidden]];
        for (layer, [rows, columns]) in layers.into_iter().enumerate() {
            expect_layer(op, dims, layer, [&n_experts, rows, columns])?;
        }
        let [n_experts, hidden, inner, first] =
            [n_experts, hidden, inner, first].map(|dim| dim.known().unwrap_or(0));
        Ok(Self { n_experts, hidden, inner, first })
    }
}

fn expect_layer(
    op: &MoE,
    dims: &dyn Fn(usize) -> Option<Dims>,
    layer: usize,
    [n_experts, rows, columns]: [&Dim; 3],
) -> Result<(), OpError> {
    let Positions { weights, bias, scales, zero_points } = op.layers()[layer];
    expect("bias", dims(bias), &[n_experts.clone(), rows.clone()])?;
    let Some(quantization) = op.quantization else {
        let expected = [n_experts, rows, columns].map(Clone::clone);
        return expect("weights", dims(weights), &expected);
    };
    let n_bytes = |n: usize| quantization.format(layer, 0).n_bytes(n);
    let packed = columns.map(n_bytes);
    expect("weights", dims(weights), &[n_experts.clone(), rows.clone(), packed])?;
    if quantization.block_size.is_none() {
        expect("scales", dims(scales), &[n_experts.clone(), rows.clone()])?;
        return expect("zero points", dims(zero_points), &[n_experts.clone(), rows.map(n_bytes)]);
    }
    let blocks = columns.map(|n| Some(quantization.format(layer, n).n_blocks()));
    let packed = blocks.map(n_bytes);
    expect("scales", dims(scales), &[n_experts.clone(), rows.clone(), blocks])?;
    expect("zero points", dims(zero_points), &[n_experts.clone(), rows.clone(), packed])
}

/// Checks that an input, if present and its rank is known, can have these dimensions.
fn expect(what: &'static str, found: Option<Dims>, expected: &[Dim]) -> Result<(), OpError> {
    let Some(found) = found else { return Ok(()) };
    let mut pairs = found.iter().zip(expected);
    if found.len() == expected.len() && pairs.all(|(a, b)| a.unify(b).is_some()) {
        return Ok(());
    }
    Err(OpError::Shapes { what, left: known_or_zero(&found), right: known_or_zero(expected) })
}
