//! `x[i] = f(x[i])` for functions that are computed in f64 and rounded once.

use super::double;

/// Larger angles are reduced one by one, by the standard library.
const MAX_ANGLE: f32 = 1e6;
/// Elements checked for such angles at once.
const CHUNK: usize = 64;

/// `per_isa!` for functions `|x, …| f64` of an f64.
macro_rules! in_f64 {
    ($($(#[$meta:meta])* $name:ident $(($arg:ident))?: $function:expr;)+) => {
        per_isa! {$(
            $(#[$meta])*
            pub fn $name<FMA>(x: &mut [f32] $(, $arg: f32)?) {
                #[expect(clippy::cast_possible_truncation, reason = "rounding is intended")]
                for x in x {
                    *x = $function(f64::from(*x) $(, f64::from($arg))?) as f32;
                }
            }
        )+}
    };
}

in_f64! {
    /// `ln x`, −∞ at 0, NaN below. Error: at most 0.52 ulp.
    ln: double::ln::<FMA>;
    /// `ln(1 + eˣ)`. Error: at most 0.52 ulp.
    softplus: double::softplus::<FMA>;
    /// `x·tanh(ln(1 + eˣ))`. Error: at most 0.52 ulp; −∞ gives NaN.
    mish: double::mish::<FMA>;
    /// `atan x`. Error: at most 0.52 ulp.
    atan: double::atan::<FMA>;
    /// `asinh x`. Error: at most 0.52 ulp.
    asinh: double::asinh::<FMA>;
    /// `sinh x`. Error: at most 0.52 ulp.
    sinh: double::sinh::<FMA>;
    /// `cosh x`. Error: at most 0.52 ulp.
    cosh: double::cosh::<FMA>;
    /// `x` if `x ≥ 0`, else `alpha·(eˣ − 1)`. Error: at most 0.52 ulp.
    elu(alpha): |x: f64, alpha: f64| if x < 0.0 { alpha * double::exp_m1::<FMA>(x) } else { x };
    /// `x` if `x ≥ 0`, else `alpha·(e^(x/alpha) − 1)`. Error: at most 0.52 ulp.
    celu(alpha): |x: f64, alpha: f64| {
        if x < 0.0 { alpha * double::exp_m1::<FMA>(x / alpha) } else { x }
    };
}

per_isa! {
    /// `gamma·x` if `x ≥ 0`, else `gamma·alpha·(eˣ − 1)`. Error: at most 0.52 ulp.
    pub fn selu<FMA>(x: &mut [f32], alpha: f32, gamma: f32) {
        let (alpha, gamma) = (f64::from(alpha), f64::from(gamma));
        #[expect(clippy::cast_possible_truncation, reason = "rounding is intended")]
        for x in x {
            let at = f64::from(*x);
            let value = if at < 0.0 { alpha * double::exp_m1::<FMA>(at) } else { at };
            *x = (gamma * value) as f32;
        }
    }

    /// `xᵉ` for a finite `e`: 1 for `e = 0`, NaN for finite x below 0 unless `e` is an
    /// integer. Error: at most 0.52 ulp.
    pub fn pow<FMA>(x: &mut [f32], e: f32) {
        let e = f64::from(e);
        let (is_integer, is_odd) = (e.floor() == e, (0.5 * e).floor() != 0.5 * e);
        if e == 0.0 {
            return x.fill(1.0);
        }
        #[expect(clippy::cast_possible_truncation, reason = "rounding is intended")]
        for x in x {
            let at = f64::from(*x);
            let size = double::pow_of_size::<FMA>(at, e);
            let has_no_power = at < 0.0 && at > f64::NEG_INFINITY && !is_integer;
            let value = if has_no_power { f64::NAN } else { size };
            *x = (if is_integer && is_odd { value.copysign(at) } else { value }) as f32;
        }
    }

    /// `sin x`, NaN at ±∞. Error: at most 0.52 ulp.
    pub fn sin<FMA>(x: &mut [f32]) {
        of_angles(x, double::sin::<FMA>, f64::sin);
    }

    /// `cos x`, NaN at ±∞. Error: at most 0.52 ulp.
    pub fn cos<FMA>(x: &mut [f32]) {
        of_angles(x, double::cos::<FMA>, f64::cos);
    }

    /// `tan x`, NaN at ±∞. Error: at most 0.52 ulp.
    pub fn tan<FMA>(x: &mut [f32]) {
        of_angles(x, double::tan::<FMA>, f64::tan);
    }
}

/// `fast` of each angle, but `any` of those beyond [`MAX_ANGLE`].
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "rounding is intended")]
fn of_angles(x: &mut [f32], fast: impl Fn(f64) -> f64, any: impl Fn(f64) -> f64) {
    for x in x.chunks_mut(CHUNK) {
        let mut angles = [0.0_f32; CHUNK];
        let angles = &mut angles[..x.len()];
        angles.copy_from_slice(x);
        for x in x.iter_mut() {
            *x = fast(f64::from(*x)) as f32;
        }
        if angles.iter().any(|angle| angle.abs() > MAX_ANGLE) {
            for (x, angle) in x.iter_mut().zip(angles).filter(|(_, at)| at.abs() > MAX_ANGLE) {
                *x = any(f64::from(*angle)) as f32;
            }
        }
    }
}
