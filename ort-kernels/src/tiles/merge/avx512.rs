//! A register a position.

use super::{Merge, Variant};
use crate::isa::x86::{load16, store16};
use std::arch::x86_64::{_mm512_add_ps, _mm512_max_ps, _mm512_min_ps, _mm512_set1_ps, _mm512_setzero_ps};

pub(super) const VARIANT: Variant = Variant { name: "avx512" };

kernel! {
    Avx512 => pub(super) fn merge(sums: &[[f32; 16]], merge: &Merge<'_>, y: &mut [[f32; 16]]) {
        let bias = merge.start.bias.map_or(_mm512_setzero_ps(), |bias| load16(bias));
        let (min, max) = (_mm512_set1_ps(merge.min), _mm512_set1_ps(merge.max));
        for (sums, y) in sums.iter().zip(y) {
            let start = if merge.start.is_sum { _mm512_add_ps(bias, load16(y)) } else { bias };
            let sum = _mm512_add_ps(load16(sums), start);
            // Both return their second operand when either is NaN, so NaN passes through.
            store16(y, _mm512_min_ps(max, _mm512_max_ps(min, sum)));
        }
    }
}
