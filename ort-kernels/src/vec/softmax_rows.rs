//! Softmax of rows in AVX-512 registers: each row is read at most twice. The bits are those
//! of the formulas and the folds of [`super`].

use std::arch::x86_64::{
    __m512, _mm512_add_ps, _mm512_mask_mov_ps, _mm512_maskz_mov_ps, _mm512_max_ps, _mm512_mul_ps,
    _mm512_set1_ps, _mm512_setzero_ps, _mm512_sub_ps,
};

use super::exponential::exp16;
use super::registers::{fold, joined};
use super::softmax::{Form, Rows};
use crate::Avx512;
use crate::isa::x86::{load16, store16};

/// See [`super::softmax_rows`].
pub(super) fn rows(token: Avx512, rows: Rows<'_>, form: Form) {
    match rows.len {
        0 => {}
        1..=16 => short::<1>(token, rows, form),
        17..=32 => short::<2>(token, rows, form),
        33..=48 => short::<3>(token, rows, form),
        49..=64 => short::<4>(token, rows, form),
        _ => long(token, rows, form),
    }
}

kernel! {
    /// Rows that need exactly `N` registers.
    Avx512 => fn short<const N: usize>(rows: Rows<'_>, form: Form) {
        let Rows { x, y, len } = rows;
        let mask = u16::MAX >> (16 * N - len);
        let nothing = _mm512_set1_ps(f32::NEG_INFINITY);
        for (i, y) in y.chunks_exact_mut(len).enumerate() {
            let row = match x {
                Some(x) => &x[i * len..][..len],
                None => &*y,
            };
            let mut lanes = [nothing; 4];
            for j in 0..N {
                lanes[j] = load16(&row[16 * j..]);
            }
            lanes[N - 1] = _mm512_mask_mov_ps(nothing, mask, lanes[N - 1]);
            let greatest = _mm512_set1_ps(joined(lanes, |a, b| _mm512_max_ps(a, b)));
            let mut powers = [_mm512_setzero_ps(); 4];
            for j in 0..N {
                powers[j] = exp16(_mm512_sub_ps(lanes[j], greatest));
            }
            powers[N - 1] = _mm512_maskz_mov_ps(mask, powers[N - 1]);
            let total = joined(powers, |a, b| _mm512_add_ps(a, b));
            let (from, last) = match form {
                Form::Direct => (powers, _mm512_set1_ps(1.0 / total)),
                Form::Logarithm => (lanes, _mm512_set1_ps(total.ln())),
            };
            for j in 0..N {
                store16(&mut y[16 * j..], finished(form, from[j], greatest, last));
            }
        }
    }
}

kernel! {
    Avx512 => fn long(rows: Rows<'_>, form: Form) {
        let Rows { x, y, len } = rows;
        let max = |a, b| _mm512_max_ps(a, b);
        for (i, y) in y.chunks_exact_mut(len).enumerate() {
            let x = x.map(|x| &x[i * len..][..len]);
            let greatest = fold(x.unwrap_or(y), f32::NEG_INFINITY, max, max);
            let greatest = _mm512_set1_ps(greatest);
            let last = _mm512_set1_ps(match form {
                Form::Direct => 1.0 / powers::<true>(x, y, greatest),
                Form::Logarithm => powers::<false>(x, y, greatest).ln(),
            });
            // Otherwise `y` holds the exponentials.
            if let (Form::Logarithm, Some(x)) = (form, x) {
                y.copy_from_slice(x);
            }
            for y in y.chunks_mut(16) {
                store16(y, finished(form, load16(y), greatest, last));
            }
        }
    }
}

kernel! {
    /// See [`super::softmax_step`].
    Avx512 => pub(super) fn step(x: &mut [f32], greatest: f32) -> [f32; 2] {
        let max = |a, b| _mm512_max_ps(a, b);
        let greatest = fold(x, greatest, max, max);
        let subtrahend = if greatest == f32::NEG_INFINITY { 0.0 } else { greatest };
        [greatest, powers::<true>(None, x, _mm512_set1_ps(subtrahend))]
    }
}

features! { Avx512 enabled
    /// The sum of `e^(x − greatest)`, which is stored in `y` if requested.
    #[inline]
    fn powers<const IS_STORED: bool>(x: Option<&[f32]>, y: &mut [f32], greatest: __m512) -> f32 {
        let mut sums = [_mm512_setzero_ps(); 4];
        let n_whole = y.len() / 64;
        let (chunks, rest) = y.as_chunks_mut::<64>();
        for (i, y) in chunks.iter_mut().enumerate() {
            let from = match x {
                Some(x) => &x.as_chunks::<64>().0[i],
                None => &*y,
            };
            let mut powers = [_mm512_setzero_ps(); 4];
            for j in 0..4 {
                powers[j] = exp16(_mm512_sub_ps(load16(&from[16 * j..16 * j + 16]), greatest));
                sums[j] = _mm512_add_ps(sums[j], powers[j]);
            }
            if IS_STORED {
                for j in 0..4 {
                    store16(&mut y[16 * j..16 * j + 16], powers[j]);
                }
            }
        }
        for (j, y) in rest.chunks_mut(16).enumerate() {
            let from = match x {
                Some(x) => &x[64 * n_whole + 16 * j..][..y.len()],
                None => &*y,
            };
            let mask = u16::MAX >> (16 - y.len());
            let power = exp16(_mm512_sub_ps(load16(from), greatest));
            sums[j] = _mm512_add_ps(sums[j], _mm512_maskz_mov_ps(mask, power));
            if IS_STORED {
                store16(y, power);
            }
        }
        joined(sums, |a, b| _mm512_add_ps(a, b))
    }
}

features! { Avx512 enabled
    /// An exponential times the reciprocal of the total, or an element minus the maximum and the logarithm of
    /// the total.
    #[inline]
    fn finished(form: Form, from: __m512, greatest: __m512, last: __m512) -> __m512 {
        match form {
            Form::Direct => _mm512_mul_ps(from, last),
            Form::Logarithm => _mm512_sub_ps(_mm512_sub_ps(from, greatest), last),
        }
    }
}
