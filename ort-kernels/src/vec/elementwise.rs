//! `x[i] = f(x[i])`.

#[cfg(target_arch = "x86_64")]
use super::exponential::{avx2, avx512};
use super::formula;
use crate::Isa;
use crate::isa::{GENERIC_FMA, mul_add};

/// Functions with implementations in registers.
macro_rules! exponentials {
    ($($(#[$meta:meta])* $name:ident($x:ident $(, $arg:ident)?) = $formula:expr;)+) => {$(
        $(#[$meta])*
        pub fn $name(isa: Isa, x: &mut [f32] $(, $arg: f32)?) {
            #[cfg(target_arch = "x86_64")]
            match isa {
                Isa::Amx(token) => return avx512::$name(token.into(), x $(, $arg)?),
                Isa::Avx512(token) => return avx512::$name(token, x $(, $arg)?),
                Isa::Avx2(token) => return avx2::$name(token, x $(, $arg)?),
                _ => {}
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = isa;
            for x in x {
                let $x = *x;
                *x = $formula;
            }
        }
    )+};
}
exponentials! {
    /// `eˣ`. Error: at most 1 ulp.
    exp(x) = formula::exp::<GENERIC_FMA>(x);
    /// `1 / (1 + e⁻ˣ)`. Error: at most 2.2 ulp.
    sigmoid(x) = formula::sigmoid::<GENERIC_FMA>(x);
    /// `tanh x`. Error: at most 2.5 ulp.
    tanh(x) = formula::tanh::<GENERIC_FMA>(x);
    /// `x / (1 + e^(−alpha·x))`. Error: at most 3·2⁻²⁴·|x|; −∞ gives NaN.
    silu(x, alpha) = x * formula::sigmoid::<GENERIC_FMA>(alpha * x);
    /// `erf x`. Error: at most 1.2 ulp.
    erf(x) = formula::erf::<GENERIC_FMA>(x);
    /// `x/2·(1 + erf(x/√2))`. Error: at most 3·2⁻²⁴·|x|; −∞ gives NaN.
    gelu(x) = formula::gelu::<GENERIC_FMA>(x);
    /// `x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³)))`, computed as `x·sigmoid` of twice
    /// the argument. Error: at most 4·2⁻²⁴·|x|; −∞ gives NaN.
    gelu_tanh(x) = formula::gelu_tanh::<GENERIC_FMA>(x);
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
            // Not a choice between `x` and a product: see `changed` in `arithmetic`.
            *x *= if *x < 0.0 { alpha } else { 1.0 };
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
}
