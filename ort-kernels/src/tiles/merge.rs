//! `y[p] = clamp(sums[p] + (bias + y[p]))`, for positions of 16 filters.
//!
//! **Operands.** As many positions as `sums` and y both have. Absent parts of [`Start`] count as zero,
//! and y is read only as a summand. NaN stays NaN.

use crate::Isa;
use crate::conv_nchwc::Start;

/// Added to the sums, and the bounds of the results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merge<'a> {
    pub(crate) start: Start<'a>,
    pub(crate) min: f32,
    pub(crate) max: f32,
}

/// Writes y.
pub(crate) fn write(isa: Isa, sums: &[[f32; 16]], merge: &Merge<'_>, y: &mut [[f32; 16]]) {
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = isa.avx512() {
        return x86::avx512(token, sums, merge, y);
    }
    let _ = isa;
    generic(sums, merge, y);
}

fn generic(sums: &[[f32; 16]], merge: &Merge<'_>, y: &mut [[f32; 16]]) {
    for (sums, y) in sums.iter().zip(y) {
        for (lane, (sum, y)) in sums.iter().zip(y).enumerate() {
            let bias = merge.start.bias.map_or(0.0, |bias| bias[lane]);
            let sum = sum + if merge.start.is_sum { bias + *y } else { bias };
            // Neither bound replaces NaN.
            *y = if sum < merge.min { merge.min } else { sum };
            *y = if *y > merge.max { merge.max } else { *y };
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Merge;
    use crate::isa::x86::{load16, store16};
    use std::arch::x86_64::{
        _mm512_add_ps, _mm512_max_ps, _mm512_min_ps, _mm512_set1_ps, _mm512_setzero_ps,
    };

    kernel! {
        Avx512 => pub(super) fn avx512(
            sums: &[[f32; 16]],
            merge: &Merge<'_>,
            y: &mut [[f32; 16]],
        ) {
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
}

#[cfg(test)]
mod tests {
    use super::{Merge, generic, write};
    use crate::Isa;
    use crate::conv_nchwc::Start;

    #[test]
    fn variants_agree_bit_by_bit() {
        Isa::all().for_each(agrees_with_generic);
    }

    fn agrees_with_generic(isa: Isa) {
        let numbers = |n: usize, from: f32| -> Vec<[f32; 16]> {
            (0..n)
                .map(|i| std::array::from_fn(|lane| from + (i * 16 + lane) as f32 / 7.0))
                .collect()
        };
        let mut sums = numbers(5, -3.0);
        sums[3][2] = f32::NAN;
        let bias: Vec<f32> = numbers(2, 0.5).concat();
        for (bias, is_sum) in
            [(None, false), (None, true), (Some(&bias[..]), false), (Some(&bias), true)]
        {
            for (min, max) in [(f32::NEG_INFINITY, f32::INFINITY), (-1.0, 2.5)] {
                let with = Merge { start: Start { bias, is_sum }, min, max };
                let (mut found, mut expected) = (numbers(4, -1.0), numbers(4, -1.0));
                write(isa, &sums, &with, &mut found);
                generic(&sums, &with, &mut expected);
                let bits = |y: Vec<[f32; 16]>| {
                    y.concat().into_iter().map(f32::to_bits).collect::<Vec<_>>()
                };
                assert_eq!(bits(found), bits(expected), "{isa:?} {with:?}");
            }
        }
    }

    #[test]
    fn generic_adds_and_clamps() {
        let bias = [1.0; 16];
        let with = Merge { start: Start { bias: Some(&bias), is_sum: true }, min: 0.0, max: 6.0 };
        let mut y = [[-3.0; 16], [2.0; 16], [5.0; 16], [0.0; 16]];
        write(Isa::Generic, &[[1.0; 16]; 3], &with, &mut y);
        assert_eq!(y, [[0.0; 16], [4.0; 16], [6.0; 16], [0.0; 16]]);
    }
}
