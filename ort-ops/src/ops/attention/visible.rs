//! Which keys a query sees, and with what bias.

use ort_graph::OpError;
use ort_tensor::{Inputs, collected, filled};

use super::Attention;
use crate::attend::bias::Biases;
use crate::attend::{Query, Sizes};

/// Mask, window and lengths of a call.
#[derive(Debug)]
pub(super) struct Visible {
    mask: Option<Biases>,
    is_causal: bool,
    window: [Option<usize>; 2],
    /// How many keys come before the first query, for each batch.
    offsets: Vec<i64>,
    /// How many keys there are, for each batch.
    lens: Vec<i64>,
}

impl Visible {
    pub(super) fn new(
        op: &Attention,
        inputs: Inputs<'_>,
        sizes: Sizes,
        past: usize,
    ) -> Result<Self, OpError> {
        let int = |n: usize| i64::try_from(n).map_err(|_| OpError::TooLarge);
        let (q_len, kv_len) = (int(sizes.q_len)?, int(sizes.kv_len)?);
        let lens = match inputs.optional_tensor(6)? {
            None => filled(kv_len, sizes.batch)?,
            Some(lens) => collected(lens.as_slice::<i64>()?.iter().copied())?,
        };
        if lens.len() != sizes.batch || lens.iter().any(|len| !(0..=kv_len).contains(len)) {
            return Err(OpError::InputValue { index: 6, what: "no length for each batch" });
        }
        let offsets = match (inputs.get(4), inputs.get(6)) {
            (None, Some(_)) => collected(lens.iter().map(|len| len - q_len))?,
            _ => filled(int(past)?, sizes.batch)?,
        };
        let mask =
            inputs.optional_tensor(3)?.map(|view| Biases::new(3, view, sizes)).transpose()?;
        Ok(Self { mask, is_causal: op.is_causal, window: op.window, offsets, lens })
    }

    /// Writes the bias of each key to `row`, which is zeros.
    pub(super) fn bias(&self, query: Query, row: &mut [f64]) {
        if let Some(mask) = &self.mask {
            mask.fill(query, row);
        }
        // Sizes fit in i64, as `new` checked; saturated values are out of every range.
        let int = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let position = self.offsets[query.batch] + int(query.index);
        let [before, after] = self.window;
        let first = before.map_or(0, |n| position.saturating_sub(int(n)));
        let mut end = self.lens[query.batch];
        if self.is_causal {
            end = end.min(position + 1);
        }
        if let Some(after) = after {
            end = end.min((position + 1).saturating_add(int(after)));
        }
        for (bias, j) in row.iter_mut().zip(0_i64..) {
            if !(first..end).contains(&j) {
                *bias = f64::NEG_INFINITY;
            }
        }
    }
}
