//! Normalization of a row that fits in four AVX-512 registers.

#![expect(clippy::needless_range_loop, reason = "constant indexes keep arrays in registers")]

use std::arch::x86_64::{
    __m512, _mm512_add_ps, _mm512_maskz_mov_ps, _mm512_mul_ps, _mm512_set1_ps, _mm512_setzero_ps,
    _mm512_sub_ps,
};
use std::ops::Range;

use super::norm::{Moments, Row};
use super::registers::joined;
use crate::Avx512;
use crate::isa::x86::{load16, store16};

/// The maximum row length for four registers.
pub(super) const LEN: usize = 64;

/// [`super::layer_norm`] or, without a mean, [`super::rms_norm`].
pub(super) fn normalize(token: Avx512, row: Row<'_>, has_mean: bool) -> Moments {
    match row.y.len() {
        0..=16 => of_registers::<1>(token, row, has_mean),
        17..=32 => of_registers::<2>(token, row, has_mean),
        33..=48 => of_registers::<3>(token, row, has_mean),
        _ => of_registers::<4>(token, row, has_mean),
    }
}

kernel! {
    Avx512 => fn of_registers<const N: usize>(row: Row<'_>, has_mean: bool) -> Moments {
        let Row { x, y, scale, bias, epsilon } = row;
        let (n, zero) = (y.len(), _mm512_setzero_ps());
        let x = &x.unwrap_or(y)[..n];
        let mut lanes = [zero; 4];
        for j in 0..N {
            lanes[j] = load16(&x[range::<N>(j, n)]);
        }
        // The elements of the last register that no other one has.
        let surplus = (16 * N - n).min(15);
        let mask = if n < 16 { u16::MAX >> surplus } else { u16::MAX << surplus };
        let mut terms = lanes;
        terms[N - 1] = _mm512_maskz_mov_ps(mask, terms[N - 1]);
        let mean = if has_mean { sum(terms) / n as f32 } else { 0.0 };
        for j in 0..N {
            lanes[j] = _mm512_sub_ps(lanes[j], _mm512_set1_ps(mean));
            terms[j] = _mm512_mul_ps(lanes[j], lanes[j]);
        }
        terms[N - 1] = _mm512_maskz_mov_ps(mask, terms[N - 1]);
        let inverse_deviation = 1.0 / (sum(terms) / n as f32 + epsilon).sqrt();
        for j in 0..N {
            let range = range::<N>(j, n);
            let normal = _mm512_mul_ps(lanes[j], _mm512_set1_ps(inverse_deviation));
            let mut of_row = _mm512_mul_ps(normal, load16(&scale[range.clone()]));
            if let Some(bias) = bias {
                of_row = _mm512_add_ps(of_row, load16(&bias[range.clone()]));
            }
            store16(&mut y[range], of_row);
        }
        Moments { mean, inverse_deviation }
    }
}

/// The elements in register `j` of `N`, for `n` elements. If there are 16 or more, the last register holds the last
/// 16: a masked store would delay the next row.
#[inline(always)]
fn range<const N: usize>(j: usize, n: usize) -> Range<usize> {
    if j + 1 < N { 16 * j..16 * j + 16 } else { n.saturating_sub(16)..n }
}

features! { Avx512 enabled
    #[inline]
    fn sum(lanes: [__m512; 4]) -> f32 {
        joined(lanes, |a, b| _mm512_add_ps(a, b))
    }
}
