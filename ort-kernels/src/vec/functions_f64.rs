//! Branch-free elementary functions of f64 without calls, with errors of a few units in the last place: measured by the
//! tests against the standard library, which has an error of up to one unit itself.

use super::angles::of_angles;
use super::double::{ROUND, clamp, exponent_and_fraction, mul_add, polynomial};
use crate::isa::{Isa, Task};
use std::f64::consts::FRAC_2_PI;

/// ln 2 in two parts; the first has 32 bits, so that an integer below 2²¹ times it is exact.
const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// 1/2!, 1/3!, …, 1/14!: for |r| ≤ ½·ln 2 the next term is below 10⁻¹⁹ of `r`.
const FACTORIALS: [f64; 13] = [
    1.0 / 2.0,
    1.0 / 6.0,
    1.0 / 24.0,
    1.0 / 120.0,
    1.0 / 720.0,
    1.0 / 5040.0,
    1.0 / 40_320.0,
    1.0 / 362_880.0,
    1.0 / 3_628_800.0,
    1.0 / 39_916_800.0,
    1.0 / 479_001_600.0,
    1.0 / 6_227_020_800.0,
    1.0 / 87_178_291_200.0,
];

/// π/2 in three parts; the first two have 33 bits, so that an integer below 2²⁰ times them is exact.
const HALF_PI: [f64; 3] =
    [1.570_796_326_734_125_6, 6.077_100_506_303_966e-11, 2.022_266_248_795_950_6e-21];
/// Larger angles are reduced one by one, by the standard library.
const MAX_ANGLE: f64 = 1e6;
/// −1/3!, 1/5!, …: for |r| ≤ π/4 the next term is below 10⁻¹⁸ of `r`.
const SINE: [f64; 8] = [
    -1.0 / 6.0,
    1.0 / 120.0,
    -1.0 / 5040.0,
    1.0 / 362_880.0,
    -1.0 / 39_916_800.0,
    1.0 / 6_227_020_800.0,
    -1.0 / 1_307_674_368_000.0,
    1.0 / 355_687_428_096_000.0,
];
/// 1/4!, −1/6!, …: for |r| ≤ π/4 the next term is below 10⁻¹⁹.
const COSINE: [f64; 8] = [
    1.0 / 24.0,
    -1.0 / 720.0,
    1.0 / 40_320.0,
    -1.0 / 3_628_800.0,
    1.0 / 479_001_600.0,
    -1.0 / 87_178_291_200.0,
    1.0 / 20_922_789_888_000.0,
    -1.0 / 6_402_373_705_728_000.0,
];

/// `n` and `eʳ − 1` of `x = n·ln 2 + r`, for x between −746 and 710.
#[inline(always)]
fn exponent_and_rest<const FMA: bool>(x: f64) -> (i64, f64) {
    let shifted = mul_add::<FMA>(x, std::f64::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = mul_add::<FMA>(n, -LN_2_LOW, mul_add::<FMA>(n, -LN_2_HIGH, x));
    let rest = mul_add::<FMA>(r * r, polynomial::<FMA, 13>(r, FACTORIALS), r);
    (shifted.to_bits().wrapping_sub(ROUND.to_bits()).cast_signed(), rest)
}

/// `2ⁿ` for n between −1022 and 1023.
#[inline(always)]
const fn power_of_two(n: i64) -> f64 {
    f64::from_bits((n.wrapping_add(1023) << 52).cast_unsigned())
}

/// `eˣ`. Error: at most 2 ulp.
#[inline(always)]
pub(super) fn exp<const FMA: bool>(x: f64) -> f64 {
    let (n, rest) = exponent_and_rest::<FMA>(clamp(x, -746.0, 710.0));
    // In two steps, since 2ⁿ alone may not be normal.
    let half = n >> 1;
    let (first, second) = (power_of_two(half), power_of_two(n - half));
    mul_add::<FMA>(first, rest, first) * second
}

/// `eˣ − 1`. Error: at most 4 ulp.
#[inline(always)]
pub(super) fn exp_m1<const FMA: bool>(x: f64) -> f64 {
    let (n, rest) = exponent_and_rest::<FMA>(clamp(x, -700.0, 710.0));
    // Half of it, since 2ⁿ alone may overflow.
    let half = power_of_two(n - 1);
    2.0 * mul_add::<FMA>(half, rest, half - 0.5)
}

/// `ln x`, −∞ at 0, NaN below. Error: at most 3 ulp.
#[inline(always)]
pub(super) fn ln<const FMA: bool>(x: f64) -> f64 {
    // Denormals are scaled by 2⁵⁴ to normal numbers.
    let is_small = x < f64::MIN_POSITIVE;
    let (k, m) = exponent_and_fraction(if is_small { x * 18_014_398_509_481_984.0 } else { x });
    let k = if is_small { k - 54.0 } else { k };
    // ln m = 2·artanh s = 2s·(1 + s²/3 + s⁴/5 + …), where s² is at most 0.0295: the omitted terms are below
    // 10⁻¹⁹ of it.
    let s = (m - 1.0) / (m + 1.0);
    let c = [
        1.0 / 3.0,
        1.0 / 5.0,
        1.0 / 7.0,
        1.0 / 9.0,
        1.0 / 11.0,
        1.0 / 13.0,
        1.0 / 15.0,
        1.0 / 17.0,
        1.0 / 19.0,
        1.0 / 21.0,
        1.0 / 23.0,
    ];
    let (z, twice) = (s * s, s + s);
    let rest = mul_add::<FMA>(k, LN_2_LOW, twice * z * polynomial::<FMA, 11>(z, c));
    let found = mul_add::<FMA>(k, LN_2_HIGH, twice + rest);
    let found = if x < f64::INFINITY { found } else { x };
    let found = if x == 0.0 { f64::NEG_INFINITY } else { found };
    if x < 0.0 { f64::NAN } else { found }
}

/// `ln(1 + x)` for x ≥ 0. Error: at most 4 ulp.
#[inline(always)]
fn ln_1p<const FMA: bool>(x: f64) -> f64 {
    let sum = 1.0 + x;
    // What the sum lost.
    let lost = if x < 1e16 { x - (sum - 1.0) } else { 0.0 };
    ln::<FMA>(sum) + lost / sum
}

/// `acosh x = ln(x + √(x² − 1))`, NaN below 1. Error: at most 4 ulp.
#[inline(always)]
fn acosh<const FMA: bool>(x: f64) -> f64 {
    // Twice as large a number would overflow.
    let is_large = x > 1e150;
    let above = x - 1.0;
    let sum = above + (above * (above + 2.0)).sqrt();
    let found = ln_1p::<FMA>(if is_large { x } else { sum });
    let found = if is_large { found + std::f64::consts::LN_2 } else { found };
    if x < 1.0 { f64::NAN } else { found }
}

/// `atanh x = ½·ln((1 + x)/(1 − x))`, NaN beyond ±1. Error: at most 4 ulp.
#[inline(always)]
fn atanh<const FMA: bool>(x: f64) -> f64 {
    let size = x.abs();
    let found = 0.5 * ln_1p::<FMA>(2.0 * size / (1.0 - size));
    if size > 1.0 { f64::NAN } else { found.copysign(x) }
}

/// `tanh x`. Error: at most 4 ulp.
#[inline(always)]
pub(super) fn tanh<const FMA: bool>(x: f64) -> f64 {
    let n = exp_m1::<FMA>(-2.0 * x.abs());
    (-n / (2.0 + n)).copysign(x)
}

/// `1 / (1 + e⁻ˣ)`. Error: at most 4 ulp.
#[inline(always)]
pub(super) fn sigmoid<const FMA: bool>(x: f64) -> f64 {
    let e = exp::<FMA>(-x.abs());
    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
}

/// The quadrant of an angle up to [`MAX_ANGLE`], and the sine and cosine of the remainder.
#[inline(always)]
fn quadrant<const FMA: bool>(x: f64) -> (u64, f64, f64) {
    let shifted = mul_add::<FMA>(x, FRAC_2_PI, ROUND);
    let n = shifted - ROUND;
    let [high, middle, low] = HALF_PI;
    // The first two products are exact.
    let r = mul_add::<FMA>(n, -low, (x - n * high) - n * middle);
    let z = r * r;
    let sine = r + r * z * polynomial::<FMA, 8>(z, SINE);
    let cosine =
        mul_add::<FMA>(z * z, polynomial::<FMA, 8>(z, COSINE), mul_add::<FMA>(z, -0.5, 1.0));
    (shifted.to_bits(), sine, cosine)
}

/// `sin x` for |x| up to [`MAX_ANGLE`]. Error: at most 2 ulp.
#[inline(always)]
fn sin<const FMA: bool>(x: f64) -> f64 {
    let (quadrant, sine, cosine) = quadrant::<FMA>(x);
    let found = if quadrant & 1 == 0 { sine } else { cosine };
    let found = f64::from_bits(found.to_bits() ^ ((quadrant & 2) << 62));
    // The sign of −0 is lost in the reduction.
    if x == 0.0 { x } else { found }
}

/// `cos x` for |x| up to [`MAX_ANGLE`]. Error: at most 2 ulp.
#[inline(always)]
fn cos<const FMA: bool>(x: f64) -> f64 {
    let (quadrant, sine, cosine) = quadrant::<FMA>(x);
    let found = if quadrant & 1 == 0 { cosine } else { sine };
    f64::from_bits(found.to_bits() ^ ((quadrant.wrapping_add(1) & 2) << 62))
}

/// A function of f64.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FunctionF64 {
    /// `eˣ`. Error: at most 2 ulp.
    Exp,
    /// `ln x`, −∞ at 0, NaN below. Error: at most 3 ulp.
    Ln,
    /// `1 / (1 + e⁻ˣ)`. Error: at most 4 ulp.
    Sigmoid,
    /// `tanh x`. Error: at most 4 ulp.
    Tanh,
    /// `sin x`, NaN at ±∞. Error: at most 2 ulp.
    Sin,
    /// `cos x`, NaN at ±∞. Error: at most 2 ulp.
    Cos,
    /// `acosh x`, NaN below 1. Error: at most 4 ulp.
    Acosh,
    /// `atanh x`, NaN beyond ±1. Error: at most 4 ulp.
    Atanh,
    /// `gamma·x` if `x ≥ 0`, else `gamma·alpha·(e^(x/scale) − 1)`. Error: at most 5 ulp.
    Elu {
        /// The negated limit of x → −∞.
        alpha: f64,
        /// The divisor of x.
        scale: f64,
        /// The factor of the result.
        gamma: f64,
    },
}

struct Map<'a> {
    f: FunctionF64,
    x: Option<&'a [f64]>,
    y: &'a mut [f64],
}

/// A function of every element, in place: a long one, passed as a value, would be compiled apart, without the instruction
/// set.
macro_rules! by {
    ($map:ident, |$x:ident| $f:expr) => {
        match $map.x {
            Some(x) => {
                for (y, &$x) in $map.y.iter_mut().zip(x) {
                    *y = $f;
                }
            }
            None => {
                for y in $map.y {
                    let $x = *y;
                    *y = $f;
                }
            }
        }
    };
}

impl Task for Map<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        match self.f {
            FunctionF64::Exp => by!(self, |x| exp::<FMA>(x)),
            FunctionF64::Ln => by!(self, |x| ln::<FMA>(x)),
            FunctionF64::Sigmoid => by!(self, |x| sigmoid::<FMA>(x)),
            FunctionF64::Tanh => by!(self, |x| tanh::<FMA>(x)),
            FunctionF64::Sin => self.of_angles(sin::<FMA>, f64::sin),
            FunctionF64::Cos => self.of_angles(cos::<FMA>, f64::cos),
            FunctionF64::Acosh => by!(self, |x| acosh::<FMA>(x)),
            FunctionF64::Atanh => by!(self, |x| atanh::<FMA>(x)),
            FunctionF64::Elu { alpha, scale, gamma } => {
                by!(self, |x| gamma * if x < 0.0 { alpha * exp_m1::<FMA>(x / scale) } else { x });
            }
        }
    }
}

impl Map<'_> {
    #[inline(always)]
    fn of_angles(self, fast: impl Fn(f64) -> f64, any: impl Fn(f64) -> f64) {
        of_angles((self.x, self.y), |angle| angle.abs() > MAX_ANGLE, fast, any);
    }
}

/// `y[i] = f(x[i])`, or `f(y[i])` if there is no `x`.
///
/// # Panics
/// If the lengths differ.
pub fn map_f64(isa: Isa, f: FunctionF64, x: Option<&[f64]>, y: &mut [f64]) {
    assert!(x.is_none_or(|x| x.len() == y.len()), "operands have the same length");
    isa.run(Map { f, x, y });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arguments of all sizes from 2⁻²⁰ to 2¹⁰, of either sign.
    fn arguments() -> impl Iterator<Item = f64> {
        (0..300_000_u32).map(|i| {
            let size = 1.0 + f64::from(i * 7919 % 65_537) / 65_537.0;
            let x = size * f64::from(i32::try_from(i % 30).unwrap() - 20).exp2();
            if i % 2 == 0 { x } else { -x }
        })
    }

    fn check(f: impl Fn(f64) -> f64, truth: impl Fn(f64) -> f64, bound: f64) {
        for x in
            arguments().chain([0.0, -0.0, 1e-310, -1e-310, 1e300, f64::INFINITY, -f64::INFINITY])
        {
            let (y, expected) = (f(x), truth(x));
            let ulp = f64::from_bits(expected.abs().to_bits() + 1) - expected.abs();
            let is_near = (y - expected).abs() <= bound * ulp;
            assert!(
                is_near || y == expected || y.is_nan() && expected.is_nan(),
                "{y} for {expected} at {x}"
            );
        }
        assert!(f(f64::NAN).is_nan());
    }

    #[test]
    fn functions_keep_their_bounds() {
        // The standard library has an error of up to one unit itself.
        check(exp::<true>, f64::exp, 2.0);
        check(exp::<false>, f64::exp, 2.0);
        check(exp_m1::<true>, f64::exp_m1, 4.0);
        check(exp_m1::<false>, f64::exp_m1, 4.0);
        check(|x| ln::<true>(x.abs()), |x| x.abs().ln(), 3.0);
        check(|x| ln::<false>(x.abs()), |x| x.abs().ln(), 3.0);
        check(ln::<true>, f64::ln, 3.0);
        check(tanh::<true>, f64::tanh, 4.0);
        check(tanh::<false>, f64::tanh, 4.0);
        let truth =
            |x: f64| if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) };
        check(sigmoid::<true>, truth, 4.0);
        check(sigmoid::<false>, truth, 4.0);
        // The standard library's is inaccurate near −1.
        let truth = |x: f64| x.abs().atanh().copysign(x);
        check(atanh::<true>, truth, 4.0);
        check(atanh::<false>, truth, 4.0);
        let truth = |x: f64| match x {
            ..1.0 => f64::NAN,
            // The standard library's is inaccurate near 1.
            ..2.0 => ((x - 1.0) + ((x - 1.0) * (x + 1.0)).sqrt()).ln_1p(),
            _ => x.acosh(),
        };
        check(acosh::<true>, truth, 4.0);
        check(acosh::<false>, truth, 4.0);
        for isa in Isa::all() {
            let by = |f| {
                move |x| {
                    let mut y = [x];
                    map_f64(isa, f, None, &mut y);
                    y[0]
                }
            };
            check(by(FunctionF64::Sin), f64::sin, 2.0);
            check(by(FunctionF64::Cos), f64::cos, 2.0);
        }
    }
}
