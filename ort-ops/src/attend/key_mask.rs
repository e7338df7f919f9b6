//! Which keys a mask of int32 lets a query see, in the forms of com.microsoft.

use ort_graph::{Dim, Fact, Facts, OpError};
use ort_tensor::{DType, Inputs, Pace, Room, TensorError, TensorView, collected, filled};

use super::bias::Biases;
use super::{Query, Sizes};
use crate::infer::expect_dims;

/// What a call adds to scores: a mask of keys, and biases.
#[derive(Debug)]
pub(crate) struct ScoreBiases {
    mask: Option<KeyMask>,
    biases: Option<Biases>,
    /// How many keys come before the first query, if no query sees a later key.
    past: Option<usize>,
    q_len: usize,
}

/// The operands of [`ScoreBiases`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Masking {
    pub(crate) mask: usize,
    pub(crate) biases: usize,
    /// What is added to the score of a masked key.
    pub(crate) filter: f32,
    pub(crate) is_causal: bool,
}

impl ScoreBiases {
    pub(crate) fn new(
        masking: Masking,
        inputs: Inputs<'_>,
        sizes: Sizes,
        past: usize,
    ) -> Result<Self, OpError> {
        let mask = inputs.optional_tensor(masking.mask)?;
        let biases = inputs.optional_tensor(masking.biases)?;
        Ok(Self {
            mask: mask.map(|view| KeyMask::new(view, masking, sizes, past)).transpose()?,
            biases: biases.map(|view| Biases::new(masking.biases, view, sizes)).transpose()?,
            past: masking.is_causal.then_some(past),
            q_len: sizes.q_len,
        })
    }

    /// Writes what is added to the score of each key to `row`, which is zeros.
    pub(crate) fn bias(&self, query: Query, row: &mut [f64]) {
        if let Some(biases) = &self.biases {
            biases.fill(query, row);
        }
        if let Some(mask) = &self.mask {
            mask.add(query, row);
        }
        // The last query sees every key: there are no later ones, or they belong to another
        // sequence.
        if let Some(past) = self.past.filter(|_| query.index + 1 < self.q_len)
            && let Some(later) = row.get_mut(past + query.index + 1..)
        {
            later.fill(f64::NEG_INFINITY);
        }
    }
}

/// Biases with strides for batch and query.
#[derive(Debug)]
struct KeyMask {
    values: Vec<f64>,
    start: usize,
    strides: [usize; 2],
    len: usize,
}

impl KeyMask {
    /// `mask` is `[B, T]`, `[B, S, T]` or `[B, 1, M, M]` (from row `past` on) of numbers above 0 for visible keys; or
    /// a vector of the ends of the keys of each batch, alone, followed by their starts, or (3·B + 2) by the packing
    /// of a batch. `[B or 1, 1]` masks nothing.
    fn new(
        mask: TensorView<'_>,
        masking: Masking,
        sizes: Sizes,
        past: usize,
    ) -> Result<Self, OpError> {
        let (batch, q_len, len) = (sizes.batch, sizes.q_len, sizes.kv_len);
        let given = mask.as_slice::<i32>()?;
        let flags = || given.iter().map(|&flag| if flag > 0 { 0.0 } else { masking.filter.into() });
        let strided =
            |start, strides| Ok(Self { values: collected(flags())?, start, strides, len });
        match *mask.shape() {
            [b, t] if b == batch && t == len => strided(0, [len, 0]),
            [b, 1] if b == 1 || b == batch => {
                Ok(Self { values: filled(0.0, len)?, start: 0, strides: [0, 0], len })
            }
            [b, s, t] if [b, s, t] == [batch, q_len, len] => strided(0, [q_len * len, len]),
            [b, 1, m, n] if b == batch && m == n && m >= len && past <= m && q_len <= m - past => {
                strided(past * m, [m * m, m])
            }
            [n] => Self::of_ranges(given, masking, sizes)?.ok_or(OpError::Shapes {
                what: "ends of the keys of each batch",
                left: vec![n],
                right: vec![batch],
            }),
            _ => {
                let (left, right) = (mask.shape().to_vec(), vec![batch, q_len, len]);
                Err(OpError::Shapes { what: "the mask of keys", left, right })
            }
        }
    }

    fn of_ranges(
        given: &[i32],
        masking: Masking,
        sizes: Sizes,
    ) -> Result<Option<Self>, TensorError> {
        let (batch, len) = (sizes.batch, sizes.kv_len);
        let starts = batch.checked_mul(2) == Some(given.len());
        let packed = batch.checked_mul(3).and_then(|n| n.checked_add(2));
        if !starts && ![Some(batch), packed].contains(&Some(given.len())) {
            return Ok(None);
        }
        let (mut values, mut pace) = (Room::with_room(batch.saturating_mul(len))?, Pace::new());
        for b in 0..batch {
            pace.go(len)?;
            let start = if starts { given[batch + b] } else { 0 };
            let range = i64::from(start)..i64::from(given[b]);
            let bias = |j| if range.contains(&j) { 0.0 } else { masking.filter.into() };
            values.extend((0_i64..).take(len).map(bias))?;
        }
        let values = values.into_vec();
        Ok(Some(Self { values, start: 0, strides: [len, 0], len }))
    }

    fn add(&self, query: Query, row: &mut [f64]) {
        let [b, i] = self.strides;
        let own = &self.values[self.start + query.batch * b + query.index * i..][..self.len];
        row.iter_mut().zip(own).for_each(|(row, bias)| *row += bias);
    }
}

/// Checks that mask and biases, where present, have valid types and ranks.
pub(crate) fn expect_masks(
    inputs: &Facts<'_>,
    masking: Masking,
    dtype: DType,
) -> Result<(), OpError> {
    inputs.expect_dtype(masking.mask, DType::I32)?;
    inputs.expect_dtype(masking.biases, dtype)?;
    expect_dims(inputs, masking.biases, &[const { Dim::Unknown }; 4])?;
    match inputs.get(masking.mask).and_then(Fact::rank) {
        Some(found) if !(1..=4).contains(&found) => {
            Err(OpError::InputRank { index: masking.mask, expected: "1 to 4", found })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use ort_tensor::ValueView;

    use super::*;
    use crate::case::tensor;

    const SIZES: Sizes =
        Sizes { batch: 2, q_heads: 1, kv_heads: 1, q_len: 2, kv_len: 3, size: 1, v_size: 1 };

    /// The keys that query 0 of batch 1 sees; `None` if the mask is invalid.
    fn seen(shape: &[usize], mask: &[i32], is_causal: bool) -> Option<[bool; 3]> {
        let mask = tensor(shape, mask);
        let values = [Some(ValueView::Tensor(mask.view()))];
        let masking = Masking { mask: 0, biases: 1, filter: -8.0, is_causal };
        let score_biases = ScoreBiases::new(masking, Inputs::new(&values), SIZES, 1).ok()?;
        let mut row = [0.0; 3];
        score_biases.bias(Query { batch: 1, head: 0, index: 0 }, &mut row);
        Some(row.map(|bias| bias == 0.0))
    }

    #[test]
    fn a_mask_has_many_forms() {
        let mut square = [0; 32];
        square[16 + 4 + 1] = 1;
        let cases: [(&[usize], &[i32], [bool; 3]); 7] = [
            (&[2], &[3, 1], [true, false, false]),
            (&[4], &[3, 2, 0, 1], [false, true, false]),
            (&[8], &[3, 2, 0, 2, 4, 0, 3, 6], [true, true, false]),
            (&[2, 3], &[1, 1, 1, 0, -1, 1], [false, false, true]),
            (&[2, 2, 3], &[0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0], [true, false, true]),
            (&[2, 1, 4, 4], &square, [false, true, false]),
            (&[1, 1], &[0], [true; 3]),
        ];
        for (shape, mask, expected) in cases {
            assert_eq!(seen(shape, mask, false), Some(expected), "{shape:?}");
        }
        assert_eq!(seen(&[2], &[i32::MIN, i32::MAX], true), Some([true, true, false]));
        for shape in [&[3][..], &[2, 2], &[2, 3, 3], &[2, 1, 2, 2], &[]] {
            let n = shape.iter().product();
            assert_eq!(seen(shape, &vec![1; n], false), None, "{shape:?}");
        }
    }
}
