//! Rotary positions: pairs of the features of a head are rotated by an angle that depends on the position.

use ort_ep::KernelError;
use ort_kernels::{Isa, vec};
use ort_ops::ops::microsoft::group_query_attention::GroupQueryAttention;
use ort_tensor::Inputs;

use super::super::floats::Floats;

/// Cosines and sines, `[rows, pairs]`, and the positions if they do not follow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rotation<'a> {
    cos: Floats<'a>,
    sin: Floats<'a>,
    pairs: usize,
    n_rows: usize,
    /// Whether a pair is `(2i, 2i + 1)`, not `(i, i + pairs)`.
    is_interleaved: bool,
    ids: Option<&'a [i64]>,
}

/// A query of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Its index among all queries of all batches.
    pub(super) index: usize,
    /// Its index in its batch.
    pub(super) query: usize,
    /// Its position, and the length of its sequence.
    pub(super) position: usize,
    pub(super) total: usize,
    /// Whether no batch has a past.
    pub(super) is_first: bool,
}

impl<'a> Rotation<'a> {
    /// The tables of a node, `None` if their shapes do not fit heads of `size`.
    pub(super) fn read(
        op: &GroupQueryAttention,
        inputs: Inputs<'a>,
        size: usize,
    ) -> Result<Option<Self>, KernelError> {
        let (cos, sin) = (inputs.tensor(7)?, inputs.tensor(8)?);
        let ids = inputs.optional_tensor(9)?.map(|ids| ids.as_slice::<i64>()).transpose()?;
        let &[n_rows, pairs] = cos.shape() else { return Ok(None) };
        if sin.shape() != cos.shape() || 2 * pairs > size {
            return Ok(None);
        }
        let (cos, sin) = (Floats::of(cos)?, Floats::of(sin)?);
        let is_interleaved = op.rotary_interleaved;
        Ok(Some(Self { cos, sin, pairs, n_rows, is_interleaved, ids }))
    }

    /// The row of the tables for a query, if they have one.
    pub(super) fn row(&self, place: Place) -> Option<usize> {
        let row = match self.ids {
            // A first step counts from its first position.
            Some(&[first, ..]) if place.is_first => {
                usize::try_from(first).ok()?.checked_add(place.query)?
            }
            Some(ids) => usize::try_from(*ids.get(place.index)?).ok()?,
            // Padding may have any position.
            None if place.position >= place.total => 0,
            None => place.position,
        };
        (row < self.n_rows).then_some(row)
    }

    /// `y = (a·cos − b·sin, a·sin + b·cos)` for each pair `(a, b)` of a head `x`, by a row of the tables;
    /// what is behind the pairs stays. `buffer` is as long as the head.
    pub(super) fn rotate(
        &self,
        isa: Isa,
        (x, row): (&[f32], usize),
        (y, buffer): (&mut [f32], &mut [f32]),
    ) {
        let (first, n) = (row * self.pairs, self.pairs);
        if let (Floats::F32(cos), Floats::F32(sin)) = (self.cos, self.sin) {
            let table = [cos, sin].map(|table| &table[first..][..n]);
            return vec::rotate(isa, x, table, self.is_interleaved, y);
        }
        let (cos, sin) = buffer[..2 * n].split_at_mut(n);
        self.cos.widen(isa, first, cos);
        self.sin.widen(isa, first, sin);
        vec::rotate(isa, x, [cos, sin], self.is_interleaved, y);
    }
}
