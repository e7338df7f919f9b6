//! Normalization of a row that four registers of AVX-512 hold; the bits are those of [`super::norm`].

#![expect(clippy::needless_range_loop, reason = "constant indexes keep arrays in registers")]

use std::arch::x86_64::{
    __m512, _mm512_add_ps, _mm512_mask_mov_ps, _mm512_mul_ps, _mm512_set1_ps, _mm512_setzero_ps,
    _mm512_sub_ps,
};

use super::norm::{Moments, Row};
use super::registers::joined;
use crate::Avx512;
use crate::isa::x86::{load16, store16};

/// The longest row that four registers hold.
pub(super) const LEN: usize = 64;

/// As [`super::layer_norm`] and, without a mean, [`super::rms_norm`].
pub(super) fn normalize(token: Avx512, row: Row<'_>, has_mean: bool) -> Moments {
    match row.x.len() {
        0..=16 => of_registers::<1>(token, row, has_mean),
        17..=32 => of_registers::<2>(token, row, has_mean),
        33..=48 => of_registers::<3>(token, row, has_mean),
        _ => of_registers::<4>(token, row, has_mean),
    }
}

kernel! {
    Avx512 => fn of_registers<const N: usize>(row: Row<'_>, has_mean: bool) -> Moments {
        let Row { x, scale, bias, epsilon } = row;
        let (n, zero) = (x.len(), _mm512_setzero_ps());
        let mut lanes = [zero; 4];
        for j in 0..N {
            lanes[j] = load16(&x[(16 * j).min(n)..]);
        }
        let mean = if has_mean { sum(lanes) / n as f32 } else { 0.0 };
        let mut squares = [zero; 4];
        for j in 0..N {
            let mask = u16::MAX >> (16 - n.saturating_sub(16 * j).min(16));
            let deviation = _mm512_sub_ps(lanes[j], _mm512_set1_ps(mean));
            lanes[j] = _mm512_mask_mov_ps(zero, mask, deviation);
            squares[j] = _mm512_mul_ps(lanes[j], lanes[j]);
        }
        let inverse_deviation = 1.0 / (sum(squares) / n as f32 + epsilon).sqrt();
        for j in 0..N {
            let (start, end) = ((16 * j).min(n), (16 * j + 16).min(n));
            let normal = _mm512_mul_ps(lanes[j], _mm512_set1_ps(inverse_deviation));
            let mut y = _mm512_mul_ps(normal, load16(&scale[start..end]));
            if let Some(bias) = bias {
                y = _mm512_add_ps(y, load16(&bias[start..end]));
            }
            store16(&mut x[start..end], y);
        }
        Moments { mean, inverse_deviation }
    }
}

features! { Avx512 enabled
    #[inline]
    fn sum(lanes: [__m512; 4]) -> f32 {
        joined(lanes, |a, b| _mm512_add_ps(a, b))
    }
}
