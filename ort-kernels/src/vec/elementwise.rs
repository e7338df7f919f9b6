//! `x[i] = f(x[i])`.

#[cfg(target_arch = "x86_64")]
use super::exponential;
use super::formula;
use crate::Isa;
use crate::isa::mul_add;
use std::f32::consts::FRAC_1_SQRT_2;

/// Functions with separate AVX-512 implementations.
macro_rules! exponentials {
    ($($(#[$meta:meta])* $name:ident, $any:ident $(($arg:ident))?;)+) => {$(
        $(#[$meta])*
        pub fn $name(isa: Isa, x: &mut [f32] $(, $arg: f32)?) {
            #[cfg(target_arch = "x86_64")]
            if let Some(token) = isa.avx512() {
                return exponential::$name(token, x $(, $arg)?);
            }
            $any(isa, x $(, $arg)?);
        }
    )+};
}
exponentials! {
    /// `eˣ`. Error: at most 1 ulp.
    exp, exp_of_any;
    /// `1 / (1 + e⁻ˣ)`. Error: at most 2.2 ulp.
    sigmoid, sigmoid_of_any;
    /// `tanh x`. Error: at most 2.5 ulp.
    tanh, tanh_of_any;
    /// `x / (1 + e^(−alpha·x))`. Error: at most 3·2⁻²⁴·|x|; −∞ gives NaN.
    silu, silu_of_any(alpha);
}

per_isa! {
    /// `min(max(x, min), max)`. Exact.
    pub fn clip<FMA>(x: &mut [f32], min: f32, max: f32) {
        for x in x {
            *x = formula::clamp(*x, min, max);
        }
    }

    /// `x` if `x ≥ 0`, else `alpha·x`. Error: at most 0.5 ulp.
    pub fn leaky_relu<FMA>(x: &mut [f32], alpha: f32) {
        for x in x {
            *x = if *x < 0.0 { alpha * *x } else { *x };
        }
    }

    /// `min(max(alpha·x + beta, 0), 1)`. Error: at most `2⁻²⁴·(1 + |beta|)`.
    pub fn hard_sigmoid<FMA>(x: &mut [f32], alpha: f32, beta: f32) {
        for x in x {
            *x = formula::clamp(mul_add::<FMA>(alpha, *x, beta), 0.0, 1.0);
        }
    }

    /// `x·min(max(x/6 + 1/2, 0), 1)`. Error: at most 3·2⁻²⁴·|x|; −∞ gives NaN.
    pub fn hard_swish<FMA>(x: &mut [f32]) {
        for x in x {
            *x = formula::hard_swish::<FMA>(*x);
        }
    }

    /// `scale·max(x, 0) + shift`, rounded after the product and after the sum.
    pub fn scaled_relu<FMA>(x: &mut [f32], scale: f32, shift: f32) {
        for x in x {
            *x = formula::clamp(*x, 0.0, f32::INFINITY) * scale + shift;
        }
    }

    /// `scale·HardSwish(x) + shift`, with [`hard_swish`], rounded after the product and
    /// after the sum.
    pub fn scaled_hard_swish<FMA>(x: &mut [f32], scale: f32, shift: f32) {
        for x in x {
            *x = formula::hard_swish::<FMA>(*x) * scale + shift;
        }
    }

    fn exp_of_any<FMA>(x: &mut [f32]) {
        for x in x {
            *x = formula::exp::<FMA>(*x);
        }
    }

    fn sigmoid_of_any<FMA>(x: &mut [f32]) {
        for x in x {
            *x = formula::sigmoid::<FMA>(*x);
        }
    }

    /// `x / (1 + |x|)`. Error: at most 1.5 ulp; ±∞ give NaN.
    pub fn softsign<FMA>(x: &mut [f32]) {
        for x in x {
            *x /= 1.0 + x.abs();
        }
    }

    /// `asin x`, NaN beyond ±1. Error: at most 2.5 ulp.
    pub fn asin<FMA>(x: &mut [f32]) {
        for x in x {
            *x = formula::asin::<FMA>(*x);
        }
    }

    /// `acos x`, NaN beyond ±1. Error: at most 2.5 ulp.
    pub fn acos<FMA>(x: &mut [f32]) {
        for x in x {
            *x = formula::acos::<FMA>(*x);
        }
    }

    /// `atan x`. Error: at most 2 ulp.
    pub fn atan<FMA>(x: &mut [f32]) {
        for x in x {
            *x = formula::atan::<FMA>(*x);
        }
    }

    fn tanh_of_any<FMA>(x: &mut [f32]) {
        for x in x {
            *x = formula::tanh::<FMA>(*x);
        }
    }

    /// `erf x`. Error: at most 1.2 ulp.
    pub fn erf<FMA>(x: &mut [f32]) {
        for x in x {
            *x = formula::erf::<FMA>(*x);
        }
    }

    /// `x/2·(1 + erf(x/√2))`. Error: at most 3·2⁻²⁴·|x|; −∞ gives NaN.
    pub fn gelu<FMA>(x: &mut [f32]) {
        for x in x {
            *x = 0.5 * *x * (1.0 + formula::erf::<FMA>(*x * FRAC_1_SQRT_2));
        }
    }

    /// `x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³)))`, computed as `x·sigmoid` of twice
    /// the argument. Error: at most 4·2⁻²⁴·|x|; −∞ gives NaN.
    pub fn gelu_tanh<FMA>(x: &mut [f32]) {
        // 2·√(2/π)
        const SCALE: f32 = 1.595_769;
        for x in x {
            let inner = mul_add::<FMA>(0.044_715 * *x * *x, *x, *x);
            *x *= formula::sigmoid::<FMA>(SCALE * inner);
        }
    }

    fn silu_of_any<FMA>(x: &mut [f32], alpha: f32) {
        for x in x {
            *x *= formula::sigmoid::<FMA>(alpha * *x);
        }
    }
}
