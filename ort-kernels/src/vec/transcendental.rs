//! `x[i] = f(x[i])` for functions that are computed in f64 and rounded once.

use super::each::Lane;
use super::{angles, double};

/// Larger angles are reduced one by one, by the standard library.
const MAX_ANGLE: f32 = 1e6;

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
    /// `asinh x`. Error: at most 0.52 ulp.
    asinh: double::asinh::<FMA>;
    /// `acosh x`, NaN below 1. Error: at most 0.52 ulp.
    acosh: double::acosh::<FMA>;
    /// `atanh x`, NaN beyond ±1. Error: at most 0.52 ulp.
    atanh: double::atanh::<FMA>;
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

    /// `x[i]^e[i]`: 1 for `e = 0` and for `x = 1`, NaN for finite x below 0 unless `e` is an integer or infinite.
    /// Error: at most 0.52 ulp.
    ///
    /// # Panics
    /// If there are not as many exponents as elements.
    pub fn pow<FMA>(x: &mut [f32], e: Lane<'_, f32>) {
        match e {
            Lane::Same(e) => {
                let exponent = Exponent::new(f64::from(e));
                for x in x {
                    *x = exponent.of::<FMA>(*x);
                }
            }
            Lane::Row(e) => {
                assert_eq!(x.len(), e.len(), "operands have the same length");
                for (x, e) in x.iter_mut().zip(e) {
                    *x = Exponent::new(f64::from(*e)).of::<FMA>(*x);
                }
            }
        }
    }

    /// [`pow`] with exponents of f64.
    ///
    /// # Panics
    /// If there are not as many exponents as elements.
    pub fn pow_by_f64<FMA>(x: &mut [f32], e: &[f64]) {
        assert_eq!(x.len(), e.len(), "operands have the same length");
        for (x, e) in x.iter_mut().zip(e) {
            *x = Exponent::new(*e).of::<FMA>(*x);
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

/// The exponent of a power.
#[derive(Clone, Copy)]
struct Exponent {
    e: f64,
    /// Infinite ones, too.
    is_integer: bool,
    is_odd: bool,
}

impl Exponent {
    #[inline(always)]
    fn new(e: f64) -> Self {
        let (is_integer, is_odd) = (e.floor() == e, (0.5 * e).floor() != 0.5 * e);
        Self { e, is_integer, is_odd: is_integer && is_odd }
    }

    /// `xᵉ`.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "rounding is intended")]
    fn of<const FMA: bool>(self, x: f32) -> f32 {
        let at = f64::from(x);
        let value = double::pow_of_size::<FMA>(at, self.e);
        let has_no_power = at < 0.0 && at > f64::NEG_INFINITY && !self.is_integer;
        let value = if has_no_power { f64::NAN } else { value };
        let value = if self.is_odd { value.copysign(at) } else { value };
        // An infinite power of −1 is 1.
        let is_one = self.e == 0.0 || at == 1.0 || at == -1.0 && self.e.abs() == f64::INFINITY;
        (if is_one { 1.0 } else { value }) as f32
    }
}

/// [`angles::of_angles`], computed in f64.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "rounding is intended")]
fn of_angles(x: &mut [f32], fast: impl Fn(f64) -> f64, any: impl Fn(f64) -> f64) {
    let is_large = |angle: f32| angle.abs() > MAX_ANGLE;
    angles::of_angles((None, x), is_large, |x| fast(x.into()) as f32, |x| any(x.into()) as f32);
}
