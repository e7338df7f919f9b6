//! With a single instruction for scaling by a power of two.

use std::arch::x86_64::{
    __m512, _CMP_GE_OQ, _CMP_LT_OQ, _mm512_abs_ps, _mm512_add_epi32, _mm512_add_ps, _mm512_and_ps,
    _mm512_castps_si512, _mm512_castsi512_ps, _mm512_cmp_ps_mask, _mm512_div_ps, _mm512_fmadd_ps,
    _mm512_mask_mov_ps, _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps, _mm512_or_ps,
    _mm512_scalef_ps, _mm512_set1_ps, _mm512_slli_epi32, _mm512_sub_ps,
};
use std::f32::consts::{FRAC_1_SQRT_2, LOG2_E};

use super::super::formula::{
    ERF_LARGE, ERF_SMALL, EXP, GELU_CUBE, GELU_SCALE, LN2_HIGH, LN2_LOW, ROUND,
};
use crate::isa::x86::{load16, store16};

features! { Avx512 enabled
    #[inline]
    fn polynomial<const N: usize>(x: __m512, c: [f32; N]) -> __m512 {
        let mut sum = _mm512_set1_ps(c[N - 1]);
        for i in (0..N - 1).rev() {
            sum = _mm512_fmadd_ps(sum, x, _mm512_set1_ps(c[i]));
        }
        sum
    }
}

features! { Avx512 enabled
    /// `n + ROUND` and `eʳ − 1` of `x = n·ln 2 + r`.
    #[inline]
    fn reduced(x: __m512) -> (__m512, __m512) {
        let round = _mm512_set1_ps(ROUND);
        let shifted = _mm512_fmadd_ps(x, _mm512_set1_ps(LOG2_E), round);
        let n = _mm512_sub_ps(shifted, round);
        let r = _mm512_fmadd_ps(n, _mm512_set1_ps(-LN2_HIGH), x);
        let r = _mm512_fmadd_ps(n, _mm512_set1_ps(-LN2_LOW), r);
        (shifted, _mm512_fmadd_ps(_mm512_mul_ps(r, r), polynomial(r, EXP), r))
    }
}

features! { Avx512 enabled
    /// `eˣ`.
    #[inline]
    fn exp16(x: __m512) -> __m512 {
        // For NaN, the second operand is taken.
        bounded_exp16(_mm512_min_ps(_mm512_set1_ps(89.0), x))
    }
}

features! { Avx512 enabled
    /// `eˣ` of numbers that are at most 89.
    #[inline]
    pub(in super::super) fn bounded_exp16(x: __m512) -> __m512 {
        let x = _mm512_max_ps(_mm512_set1_ps(-104.5), x);
        let (shifted, rest) = reduced(x);
        let n = _mm512_sub_ps(shifted, _mm512_set1_ps(ROUND));
        _mm512_scalef_ps(_mm512_add_ps(rest, _mm512_set1_ps(1.0)), n)
    }
}

features! { Avx512 enabled
    /// `1 / (1 + e⁻ˣ)`.
    #[inline]
    fn sigmoid16(x: __m512) -> __m512 {
        let (zero, one) = (_mm512_set1_ps(0.0), _mm512_set1_ps(1.0));
        let e = bounded_exp16(_mm512_sub_ps(zero, _mm512_abs_ps(x)));
        let numerator = _mm512_mask_mov_ps(one, _mm512_cmp_ps_mask::<_CMP_LT_OQ>(x, zero), e);
        _mm512_div_ps(numerator, _mm512_add_ps(one, e))
    }
}

features! { Avx512 enabled
    /// `tanh x`.
    #[inline]
    fn tanh16(x: __m512) -> __m512 {
        let (one, size) = (_mm512_set1_ps(1.0), _mm512_abs_ps(x));
        // For NaN, the second operand is taken.
        let twice = _mm512_min_ps(_mm512_set1_ps(20.0), _mm512_add_ps(size, size));
        let (shifted, rest) = reduced(twice);
        let two_to_n = _mm512_slli_epi32::<23>(_mm512_castps_si512(shifted));
        let two_to_n = _mm512_add_epi32(two_to_n, _mm512_castps_si512(one));
        let two_to_n = _mm512_castsi512_ps(two_to_n);
        let m = _mm512_fmadd_ps(two_to_n, rest, _mm512_sub_ps(two_to_n, one));
        let size = _mm512_div_ps(m, _mm512_add_ps(m, _mm512_set1_ps(2.0)));
        // The magnitude has no sign.
        _mm512_or_ps(size, _mm512_and_ps(x, _mm512_set1_ps(-0.0)))
    }
}

features! { Avx512 enabled
    /// `erf x`.
    #[inline]
    fn erf16(x: __m512) -> __m512 {
        let (one, size) = (_mm512_set1_ps(1.0), _mm512_abs_ps(x));
        let clamped = _mm512_min_ps(_mm512_set1_ps(3.95), _mm512_max_ps(one, size));
        let (shifted, rest) = reduced(polynomial(clamped, ERF_LARGE));
        let n = _mm512_sub_ps(shifted, _mm512_set1_ps(ROUND));
        let large = _mm512_sub_ps(one, _mm512_scalef_ps(_mm512_add_ps(rest, one), n));
        let small = polynomial(_mm512_mul_ps(x, x), ERF_SMALL);
        let small = _mm512_fmadd_ps(size, small, size);
        // NaN is small.
        let is_large = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(size, one);
        // The magnitude has no sign.
        let size = _mm512_mask_mov_ps(small, is_large, large);
        _mm512_or_ps(size, _mm512_and_ps(x, _mm512_set1_ps(-0.0)))
    }
}

features! { Avx512 enabled
    /// `x[i] = f(x[i])`.
    #[inline]
    fn each16(x: &mut [f32], f: impl Fn(__m512) -> __m512) {
        for x in x.chunks_mut(16) {
            store16(x, f(load16(x)));
        }
    }
}

kernel! {
    /// See [`exp`](crate::vec::exp).
    Avx512 => pub(in super::super) fn exp(x: &mut [f32]) { each16(x, |x| exp16(x)) }
}

kernel! {
    /// See [`sigmoid`](crate::vec::sigmoid).
    Avx512 => pub(in super::super) fn sigmoid(x: &mut [f32]) { each16(x, |x| sigmoid16(x)) }
}

kernel! {
    /// See [`tanh`](crate::vec::tanh).
    Avx512 => pub(in super::super) fn tanh(x: &mut [f32]) { each16(x, |x| tanh16(x)) }
}

kernel! {
    /// See [`silu`](crate::vec::silu).
    Avx512 => pub(in super::super) fn silu(x: &mut [f32], alpha: f32) {
        let alpha = _mm512_set1_ps(alpha);
        each16(x, |x| _mm512_mul_ps(x, sigmoid16(_mm512_mul_ps(alpha, x))));
    }
}

kernel! {
    /// See [`erf`](crate::vec::erf).
    Avx512 => pub(in super::super) fn erf(x: &mut [f32]) { each16(x, |x| erf16(x)) }
}

kernel! {
    /// See [`gelu`](crate::vec::gelu).
    Avx512 => pub(in super::super) fn gelu(x: &mut [f32]) {
        let (half, one) = (_mm512_set1_ps(0.5), _mm512_set1_ps(1.0));
        each16(x, |x| {
            let erf = erf16(_mm512_mul_ps(x, _mm512_set1_ps(FRAC_1_SQRT_2)));
            _mm512_mul_ps(_mm512_mul_ps(half, x), _mm512_add_ps(one, erf))
        });
    }
}

kernel! {
    /// See [`gelu_tanh`](crate::vec::gelu_tanh).
    Avx512 => pub(in super::super) fn gelu_tanh(x: &mut [f32]) {
        let (cube, scale) = (_mm512_set1_ps(GELU_CUBE), _mm512_set1_ps(GELU_SCALE));
        each16(x, |x| {
            let square = _mm512_mul_ps(_mm512_mul_ps(cube, x), x);
            let inner = _mm512_fmadd_ps(square, x, x);
            _mm512_mul_ps(x, sigmoid16(_mm512_mul_ps(scale, inner)))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Kernel, have_the_bits_of_the_formulas};
    use super::*;
    use crate::Isa;

    #[test]
    fn registers_have_the_bits_of_the_formulas() {
        let Some(token) = Isa::best().avx512() else { return };
        let kernels: [Kernel<_>; 6] = [exp, sigmoid, tanh, erf, gelu, gelu_tanh];
        have_the_bits_of_the_formulas(token, kernels, silu);
    }
}
