//! Four registers at a time, step by step: the steps of one wait for each other, and would fill the
//! scheduler.

use std::arch::x86_64::{
    __m256 as Register, __m256i, _CMP_GE_OQ, _CMP_LT_OQ, _CMP_NLE_UQ, _mm256_add_epi32,
    _mm256_add_ps as add, _mm256_and_ps, _mm256_andnot_ps, _mm256_blendv_ps, _mm256_castps_si256,
    _mm256_castsi256_ps, _mm256_cmp_ps, _mm256_div_ps as div, _mm256_fmadd_ps as fmadd,
    _mm256_max_ps as max, _mm256_min_ps as min, _mm256_movemask_ps, _mm256_mul_ps as mul,
    _mm256_or_ps, _mm256_set1_epi32, _mm256_set1_ps as splat, _mm256_slli_epi32, _mm256_srai_epi32,
    _mm256_sub_epi32, _mm256_sub_ps as sub,
};
use std::f32::consts::{FRAC_1_SQRT_2, LOG2_E};

use super::super::formula::{
    ERF_LARGE, ERF_SMALL, EXP, GELU_CUBE, GELU_SCALE, LN2_HIGH, LN2_LOW, ROUND,
};
use crate::isa::x86::{load8, store8};

const LANES: usize = 8;
/// Registers that are computed together.
const TOGETHER: usize = 4;

features! { Avx2 enabled
    #[inline]
    fn polynomial<const N: usize, const M: usize>(x: [Register; N], c: [f32; M]) -> [Register; N] {
        let mut sum = [splat(c[M - 1]); N];
        for j in (0..M - 1).rev() {
            for i in 0..N {
                sum[i] = fmadd(sum[i], x[i], splat(c[j]));
            }
        }
        sum
    }
}

features! { Avx2 enabled
    /// `n + ROUND` and `eʳ − 1` of `x = n·ln 2 + r`.
    #[inline]
    fn reduced<const N: usize>(x: [Register; N]) -> ([Register; N], [Register; N]) {
        let shifted = x.map(|x| fmadd(x, splat(LOG2_E), splat(ROUND)));
        let n = shifted.map(|shifted| sub(shifted, splat(ROUND)));
        let mut r = x;
        for factor in [-LN2_HIGH, -LN2_LOW] {
            for i in 0..N {
                r[i] = fmadd(n[i], splat(factor), r[i]);
            }
        }
        let mut rest = polynomial(r, EXP);
        for i in 0..N {
            rest[i] = fmadd(mul(r[i], r[i]), rest[i], r[i]);
        }
        (shifted, rest)
    }
}

/// Up to this magnitude, the exponential is a normal number.
const MAX_NORMAL: f32 = 87.0;

features! { Avx2 enabled
    /// `eˣ`.
    #[inline]
    pub(in super::super) fn exp_of<const N: usize>(x: [Register; N]) -> [Register; N] {
        let mut is_beyond = splat(0.0);
        for x in x {
            // True for NaN.
            let own = _mm256_cmp_ps::<_CMP_NLE_UQ>(abs(x), splat(MAX_NORMAL));
            is_beyond = _mm256_or_ps(is_beyond, own);
        }
        match _mm256_movemask_ps(is_beyond) {
            0 => normal_exp_of(x),
            _ => any_exp_of(x),
        }
    }
}

features! { Avx2 enabled
    /// `eˣ` for magnitudes of at most [`MAX_NORMAL`]: `n` is added to the exponent.
    #[inline]
    fn normal_exp_of<const N: usize>(x: [Register; N]) -> [Register; N] {
        let (shifted, mut power) = reduced(x);
        for i in 0..N {
            let n = _mm256_slli_epi32::<23>(_mm256_castps_si256(shifted[i]));
            let one = _mm256_castps_si256(add(power[i], splat(1.0)));
            power[i] = _mm256_castsi256_ps(_mm256_add_epi32(one, n));
        }
        power
    }
}

features! { Avx2 enabled
    /// `eˣ` from 0 to infinity, and of NaN: multiplied by two powers of two.
    #[cold]
    #[inline(never)]
    fn any_exp_of<const N: usize>(x: [Register; N]) -> [Register; N] {
        // For NaN, the second operand is taken.
        let x = x.map(|x| min(splat(89.0), max(splat(-104.5), x)));
        let (shifted, mut power) = reduced(x);
        for i in 0..N {
            let n = exponent(shifted[i]);
            let half = _mm256_srai_epi32::<1>(n);
            let upper = two_to(_mm256_sub_epi32(n, half));
            power[i] = mul(mul(add(power[i], splat(1.0)), two_to(half)), upper);
        }
        power
    }
}

features! { Avx2 enabled
    /// `n` of `n + ROUND`.
    #[inline]
    fn exponent(shifted: Register) -> __m256i {
        let round = _mm256_set1_epi32(ROUND.to_bits().cast_signed());
        _mm256_sub_epi32(_mm256_castps_si256(shifted), round)
    }
}

features! { Avx2 enabled
    /// `2ⁿ` for n from −126 to 127.
    #[inline]
    fn two_to(n: __m256i) -> Register {
        _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(n, _mm256_set1_epi32(127))))
    }
}

features! { Avx2 enabled
    #[inline]
    pub(in super::super) fn abs(x: Register) -> Register {
        _mm256_andnot_ps(splat(-0.0), x)
    }
}

features! { Avx2 enabled
    /// The magnitude `size`, with the sign of `x`.
    #[inline]
    fn signed(size: Register, x: Register) -> Register {
        _mm256_or_ps(abs(size), _mm256_and_ps(x, splat(-0.0)))
    }
}

features! { Avx2 enabled
    /// `1 / (1 + e⁻ˣ)`.
    #[inline]
    fn sigmoid_of<const N: usize>(x: [Register; N]) -> [Register; N] {
        let (zero, one) = (splat(0.0), splat(1.0));
        let mut e = exp_of(x.map(|x| _mm256_or_ps(x, splat(-0.0))));
        for i in 0..N {
            let numerator = _mm256_blendv_ps(one, e[i], _mm256_cmp_ps::<_CMP_LT_OQ>(x[i], zero));
            e[i] = div(numerator, add(one, e[i]));
        }
        e
    }
}

features! { Avx2 enabled
    /// `tanh x`.
    #[inline]
    fn tanh_of<const N: usize>(x: [Register; N]) -> [Register; N] {
        // For NaN, the second operand is taken.
        let twice = x.map(|x| min(splat(20.0), add(abs(x), abs(x))));
        let (shifted, mut y) = reduced(twice);
        for i in 0..N {
            let power = two_to(exponent(shifted[i]));
            let m = fmadd(power, y[i], sub(power, splat(1.0)));
            y[i] = signed(div(m, add(m, splat(2.0))), x[i]);
        }
        y
    }
}

features! { Avx2 enabled
    /// `erf x`.
    #[inline]
    fn erf_of<const N: usize>(x: [Register; N]) -> [Register; N] {
        let size = x.map(|x| abs(x));
        let clamped = size.map(|size| min(splat(3.95), max(splat(1.0), size)));
        let large = normal_exp_of(polynomial(clamped, ERF_LARGE));
        let mut y = polynomial(x.map(|x| mul(x, x)), ERF_SMALL);
        for i in 0..N {
            let small = fmadd(size[i], y[i], size[i]);
            let large = sub(splat(1.0), large[i]);
            // NaN is small.
            let is_large = _mm256_cmp_ps::<_CMP_GE_OQ>(size[i], splat(1.0));
            y[i] = signed(_mm256_blendv_ps(small, large, is_large), x[i]);
        }
        y
    }
}

features! { Avx2 enabled
    /// `x[i] = f(x[i])`.
    #[inline]
    fn each(x: &mut [f32], f: impl Fn([Register; TOGETHER]) -> [Register; TOGETHER]) {
        let (chunks, rest) = x.as_chunks_mut::<{ TOGETHER * LANES }>();
        for x in chunks {
            let mut lanes = [splat(0.0); TOGETHER];
            for (lanes, x) in lanes.iter_mut().zip(x.as_chunks::<LANES>().0) {
                *lanes = load8(x);
            }
            for (lanes, x) in f(lanes).into_iter().zip(x.as_chunks_mut::<LANES>().0) {
                store8(x, lanes);
            }
        }
        if !rest.is_empty() {
            let mut lanes = [splat(0.0); TOGETHER];
            for (lanes, x) in lanes.iter_mut().zip(rest.chunks(LANES)) {
                *lanes = load8(x);
            }
            for (lanes, x) in f(lanes).into_iter().zip(rest.chunks_mut(LANES)) {
                store8(x, lanes);
            }
        }
    }
}

features! { Avx2 enabled
    #[inline]
    fn product<const N: usize>(mut a: [Register; N], b: [Register; N]) -> [Register; N] {
        for i in 0..N {
            a[i] = mul(a[i], b[i]);
        }
        a
    }
}

kernel! {
    /// See [`exp`](crate::vec::exp).
    Avx2 => pub(in super::super) fn exp(x: &mut [f32]) { each(x, |x| exp_of(x)) }
}

kernel! {
    /// See [`sigmoid`](crate::vec::sigmoid).
    Avx2 => pub(in super::super) fn sigmoid(x: &mut [f32]) { each(x, |x| sigmoid_of(x)) }
}

kernel! {
    /// See [`tanh`](crate::vec::tanh).
    Avx2 => pub(in super::super) fn tanh(x: &mut [f32]) { each(x, |x| tanh_of(x)) }
}

kernel! {
    /// See [`erf`](crate::vec::erf).
    Avx2 => pub(in super::super) fn erf(x: &mut [f32]) { each(x, |x| erf_of(x)) }
}

kernel! {
    /// See [`silu`](crate::vec::silu).
    Avx2 => pub(in super::super) fn silu(x: &mut [f32], alpha: f32) {
        each(x, |x| product(x, sigmoid_of(x.map(|x| mul(splat(alpha), x)))));
    }
}

kernel! {
    /// See [`gelu`](crate::vec::gelu).
    Avx2 => pub(in super::super) fn gelu(x: &mut [f32]) {
        each(x, |x| {
            let erf = erf_of(x.map(|x| mul(x, splat(FRAC_1_SQRT_2))));
            product(x.map(|x| mul(splat(0.5), x)), erf.map(|erf| add(splat(1.0), erf)))
        });
    }
}

kernel! {
    /// See [`gelu_tanh`](crate::vec::gelu_tanh).
    Avx2 => pub(in super::super) fn gelu_tanh(x: &mut [f32]) {
        each(x, |x| {
            let inner = x.map(|x| fmadd(mul(mul(splat(GELU_CUBE), x), x), x, x));
            product(x, sigmoid_of(inner.map(|x| mul(splat(GELU_SCALE), x))))
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
        let Some(token) = Isa::best().avx2() else { return };
        let kernels: [Kernel<_>; 6] = [exp, sigmoid, tanh, erf, gelu, gelu_tanh];
        have_the_bits_of_the_formulas(token, kernels, silu);
    }
}
