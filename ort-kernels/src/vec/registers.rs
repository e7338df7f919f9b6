//! Folds of rows in four AVX-512 registers.
//!
//! The lanes, their order and the bits are those of [`super::reduce`], whose lanes the compiler keeps
//! in memory, which takes longer than a short row.

use std::arch::x86_64::{
    __m512, _CMP_UNORD_Q, _mm512_abs_ps, _mm512_add_ps, _mm512_cmp_ps_mask, _mm512_cvtss_f32,
    _mm512_fmadd_ps, _mm512_mask_mov_ps, _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps,
    _mm512_permute_ps, _mm512_set1_ps, _mm512_shuffle_f32x4, _mm512_sub_ps,
};

use super::Fold;
use crate::isa::x86::load16;

kernel! {
    /// See [`super::fold_rows`].
    Avx512 => pub(super) fn fold_rows(how: Fold, x: &[f32], n: usize, y: &mut [f32]) {
        let add = |a, b| _mm512_add_ps(a, b);
        match how {
            Fold::Sum => rows((x, n), y, 0.0, add, add),
            Fold::SumOfSquares => rows((x, n), y, 0.0, |sum, x| _mm512_fmadd_ps(x, x, sum), add),
            Fold::SumOfMagnitudes => {
                rows((x, n), y, 0.0, |sum, x| _mm512_add_ps(sum, _mm512_abs_ps(x)), add);
            }
            Fold::Product => {
                let multiply = |a, b| _mm512_mul_ps(a, b);
                rows((x, n), y, 1.0, multiply, multiply);
            }
            Fold::Max => {
                extremes((x, n), y, f32::NEG_INFINITY, |a, b| _mm512_max_ps(a, b));
            }
            Fold::Min => extremes((x, n), y, f32::INFINITY, |a, b| _mm512_min_ps(a, b)),
        }
    }
}

kernel! {
    /// See [`super::sum_of_squared_deviations`].
    Avx512 => pub(super) fn sum_of_squared_deviations(x: &[f32], mean: f32) -> f32 {
        let mean = _mm512_set1_ps(mean);
        let step = |sum, x| {
            let deviation = _mm512_sub_ps(x, mean);
            _mm512_fmadd_ps(deviation, deviation, sum)
        };
        fold(x, 0.0, step, |a, b| _mm512_add_ps(a, b))
    }
}

features! { Avx512 enabled
    fn rows(
        (x, n): (&[f32], usize),
        y: &mut [f32],
        start: f32,
        step: impl Fn(__m512, __m512) -> __m512 + Copy,
        join: impl Fn(__m512, __m512) -> __m512 + Copy,
    ) {
        for (i, y) in y.iter_mut().enumerate() {
            *y = fold(&x[i * n..][..n], start, step, join);
        }
    }
}

features! { Avx512 enabled
    /// Rows without a NaN, which are nearly all, need not look for it in each step of the join.
    fn extremes(
        (x, n): (&[f32], usize),
        y: &mut [f32],
        start: f32,
        extreme: impl Fn(__m512, __m512) -> __m512 + Copy,
    ) {
        let with_nan = |a, b| or_nan(a, extreme(a, b));
        for (i, y) in y.iter_mut().enumerate() {
            let lanes = folded(&x[i * n..][..n], start, with_nan);
            let is_nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(lanes[0], lanes[1])
                | _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(lanes[2], lanes[3]);
            *y = if is_nan == 0 { joined(lanes, extreme) } else { joined(lanes, with_nan) };
        }
    }
}

features! { Avx512 enabled
    /// The elements of a row.
    #[inline]
    pub(super) fn fold(
        x: &[f32],
        start: f32,
        step: impl Fn(__m512, __m512) -> __m512,
        join: impl Fn(__m512, __m512) -> __m512,
    ) -> f32 {
        joined(folded(x, start, step), join)
    }
}

features! { Avx512 enabled
    /// The elements of a row, in the lanes of four registers.
    #[inline]
    fn folded(x: &[f32], start: f32, step: impl Fn(__m512, __m512) -> __m512) -> [__m512; 4] {
        let mut lanes = [_mm512_set1_ps(start); 4];
        let (chunks, rest) = x.as_chunks::<64>();
        for chunk in chunks {
            for i in 0..4 {
                lanes[i] = step(lanes[i], load16(&chunk[16 * i..]));
            }
        }
        for (i, lanes) in lanes.iter_mut().enumerate() {
            let Some(rest) = rest.get(16 * i..).filter(|rest| !rest.is_empty()) else { break };
            let mask = u16::MAX >> (16 - rest.len().min(16));
            *lanes = _mm512_mask_mov_ps(*lanes, mask, step(*lanes, load16(rest)));
        }
        lanes
    }
}

features! { Avx512 enabled
    /// The lanes of the registers, pairwise.
    #[inline]
    pub(super) fn joined(lanes: [__m512; 4], join: impl Fn(__m512, __m512) -> __m512) -> f32 {
        let half = join(join(lanes[0], lanes[2]), join(lanes[1], lanes[3]));
        let half = join(half, _mm512_shuffle_f32x4::<0b_01_00_11_10>(half, half));
        let half = join(half, _mm512_shuffle_f32x4::<0b_10_11_00_01>(half, half));
        let half = join(half, _mm512_permute_ps::<0b_01_00_11_10>(half));
        _mm512_cvtss_f32(join(half, _mm512_permute_ps::<0b_10_11_00_01>(half)))
    }
}

features! { Avx512 enabled
    /// The extreme, or `a` if that is NaN: if `b` is, the instruction returns `b`.
    #[inline]
    fn or_nan(a: __m512, extreme: __m512) -> __m512 {
        _mm512_mask_mov_ps(extreme, _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, a), a)
    }
}
