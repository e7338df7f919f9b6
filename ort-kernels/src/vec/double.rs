//! Branch-free elementary functions in f64 without calls, so that loops over them vectorise, with
//! relative errors below 10⁻⁹: rounding to f32 then dominates, with half a unit.

use std::f64::consts::{FRAC_2_PI, LN_2, LOG2_E};

/// 1.5·2⁵²: adding it rounds to an integer and leaves that integer in the low bits.
pub(super) const ROUND: f64 = 6_755_399_441_055_744.0;
/// π/2 in two parts; the first has 33 bits, so that an integer below 2²⁰ times it is exact.
const HALF_PI_HIGH: f64 = 1.570_796_326_734_125_6;
const HALF_PI_LOW: f64 = 6.077_100_506_506_192e-11;
/// The bits of √½.
const ROOT_HALF: u64 = 0x3FE6_A09E_667F_3BCD;

#[inline(always)]
pub(super) fn mul_add<const FMA: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// `c[0] + c[1]·x + c[2]·x² + …`
#[inline(always)]
pub(super) fn polynomial<const FMA: bool, const N: usize>(x: f64, c: [f64; N]) -> f64 {
    let mut sum = c[N - 1];
    for i in (0..N - 1).rev() {
        sum = mul_add::<FMA>(sum, x, c[i]);
    }
    sum
}

/// `min(max(x, low), high)`; NaN stays NaN.
#[inline(always)]
pub(super) fn clamp(x: f64, low: f64, high: f64) -> f64 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// `2ⁿ` and `eʳ − 1` of `x = n·ln 2 + r`, for x between ±250: beyond, results are 0 or infinity in f32, even
/// multiplied by an f32.
#[inline(always)]
fn power_and_rest<const FMA: bool>(x: f64) -> (f64, f64) {
    let x = clamp(x, -250.0, 250.0);
    let shifted = mul_add::<FMA>(x, LOG2_E, ROUND);
    let r = mul_add::<FMA>(shifted - ROUND, -LN_2, x);
    // 1/2!, 1/3!, …, 1/9!: the next term is below 7e−12.
    let c = [
        0.5,
        1.0 / 6.0,
        1.0 / 24.0,
        1.0 / 120.0,
        1.0 / 720.0,
        1.0 / 5040.0,
        1.0 / 40_320.0,
        1.0 / 362_880.0,
    ];
    let rest = mul_add::<FMA>(r * r, polynomial::<FMA, 8>(r, c), r);
    (f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52), rest)
}

/// `eˣ`.
#[inline(always)]
pub(super) fn exp<const FMA: bool>(x: f64) -> f64 {
    let (power, rest) = power_and_rest::<FMA>(x);
    mul_add::<FMA>(power, rest, power)
}

/// `eˣ − 1`.
#[inline(always)]
pub(super) fn exp_m1<const FMA: bool>(x: f64) -> f64 {
    let (power, rest) = power_and_rest::<FMA>(x);
    mul_add::<FMA>(power, rest, power - 1.0)
}

/// `2·artanh s = 2s·(1 + s²/3 + s⁴/5 + …)` for |s| ≤ 1/3: the next term is below 10⁻⁹.
#[inline(always)]
fn twice_artanh<const FMA: bool>(s: f64) -> f64 {
    let c = [
        1.0 / 3.0,
        1.0 / 5.0,
        1.0 / 7.0,
        1.0 / 9.0,
        1.0 / 11.0,
        1.0 / 13.0,
        1.0 / 15.0,
        1.0 / 17.0,
    ];
    let (z, twice) = (s * s, s + s);
    mul_add::<FMA>(twice * z, polynomial::<FMA, 8>(z, c), twice)
}

/// `k` and `m` of `x = 2ᵏ·m`, where m lies between √½ and √2.
#[inline(always)]
pub(super) fn exponent_and_fraction(x: f64) -> (f64, f64) {
    let above = x.to_bits().wrapping_sub(ROOT_HALF);
    let k = ((above >> 32) as u32).cast_signed() >> 20;
    let m = f64::from_bits((above & ((1 << 52) - 1)).wrapping_add(ROOT_HALF));
    (f64::from(k), m)
}

/// `ln x`, −∞ at 0, NaN below.
#[inline(always)]
pub(super) fn ln<const FMA: bool>(x: f64) -> f64 {
    let (k, m) = exponent_and_fraction(x);
    let fraction = twice_artanh::<FMA>((m - 1.0) / (m + 1.0));
    let found = mul_add::<FMA>(k, LN_2, fraction);
    let found = if x < f64::INFINITY { found } else { x };
    let found = if x == 0.0 { f64::NEG_INFINITY } else { found };
    if x < 0.0 { f64::NAN } else { found }
}

/// `ln(1 + eˣ)`.
#[inline(always)]
pub(super) fn softplus<const FMA: bool>(x: f64) -> f64 {
    let e = exp::<FMA>(-x.abs());
    (if x < 0.0 { 0.0 } else { x }) + twice_artanh::<FMA>(e / (2.0 + e))
}

/// `x·tanh(ln(1 + eˣ))`, whose second factor is `n/(n + 2)` for `n = eˣ·(eˣ + 2)`.
#[inline(always)]
pub(super) fn mish<const FMA: bool>(x: f64) -> f64 {
    let e = if x == f64::NEG_INFINITY { 0.0 } else { exp::<FMA>(x) };
    let n = mul_add::<FMA>(e, e, e + e);
    x * (n / (n + 2.0))
}

/// The quadrant of an angle up to 10⁶, and the sine and cosine of the remainder.
#[inline(always)]
fn quadrant<const FMA: bool>(x: f64) -> (u64, f64, f64) {
    let shifted = mul_add::<FMA>(x, FRAC_2_PI, ROUND);
    let n = shifted - ROUND;
    let r = mul_add::<FMA>(n, -HALF_PI_LOW, mul_add::<FMA>(n, -HALF_PI_HIGH, x));
    let z = r * r;
    let sine = [-1.0 / 6.0, 1.0 / 120.0, -1.0 / 5040.0, 1.0 / 362_880.0, -1.0 / 39_916_800.0];
    let cosine = [-0.5, 1.0 / 24.0, -1.0 / 720.0, 1.0 / 40_320.0, -1.0 / 3_628_800.0];
    let sine = r * mul_add::<FMA>(z, polynomial::<FMA, 5>(z, sine), 1.0);
    let cosine = mul_add::<FMA>(z, polynomial::<FMA, 5>(z, cosine), 1.0);
    (shifted.to_bits(), sine, cosine)
}

/// `sin x` for |x| up to 10⁶.
#[inline(always)]
pub(super) fn sin<const FMA: bool>(x: f64) -> f64 {
    let (quadrant, sine, cosine) = quadrant::<FMA>(x);
    let found = if quadrant & 1 == 0 { sine } else { cosine };
    f64::from_bits(found.to_bits() ^ ((quadrant & 2) << 62))
}

/// `cos x` for |x| up to 10⁶.
#[inline(always)]
pub(super) fn cos<const FMA: bool>(x: f64) -> f64 {
    let (quadrant, sine, cosine) = quadrant::<FMA>(x);
    let found = if quadrant & 1 == 0 { cosine } else { sine };
    f64::from_bits(found.to_bits() ^ ((quadrant.wrapping_add(1) & 2) << 62))
}

/// `tan x` for |x| up to 10⁶.
#[inline(always)]
pub(super) fn tan<const FMA: bool>(x: f64) -> f64 {
    let (quadrant, sine, cosine) = quadrant::<FMA>(x);
    if quadrant & 1 == 0 { sine / cosine } else { -cosine / sine }
}

/// `ln(1 + x)` for x ≥ 0.
#[inline(always)]
fn ln_1p<const FMA: bool>(x: f64) -> f64 {
    let small = twice_artanh::<FMA>(x / (2.0 + x));
    if x < 1.0 { small } else { ln::<FMA>(1.0 + x) }
}

/// `asinh x`, the sign of `ln(|x| + √(x² + 1))`.
#[inline(always)]
pub(super) fn asinh<const FMA: bool>(x: f64) -> f64 {
    let size = x.abs();
    // Finite, so that the quotient is not NaN if x is infinite.
    let square = (size * size).min(f64::MAX);
    ln_1p::<FMA>(size + square / (1.0 + (1.0 + square).sqrt())).copysign(x)
}

/// `acosh x = ln(x + √(x² − 1))`, NaN below 1.
#[inline(always)]
pub(super) fn acosh<const FMA: bool>(x: f64) -> f64 {
    let above = x - 1.0;
    let found = ln_1p::<FMA>(above + (above * (above + 2.0)).sqrt());
    if x < 1.0 { f64::NAN } else { found }
}

/// `atanh x = ½·ln((1 + x)/(1 − x))`, NaN beyond ±1.
#[inline(always)]
pub(super) fn atanh<const FMA: bool>(x: f64) -> f64 {
    let size = x.abs();
    let found = 0.5 * ln_1p::<FMA>(2.0 * size / (1.0 - size));
    if size > 1.0 { f64::NAN } else { found.copysign(x) }
}

/// `sinh x`, of `n = e^|x| − 1`: `(n + n/(n + 1))/2`.
#[inline(always)]
pub(super) fn sinh<const FMA: bool>(x: f64) -> f64 {
    let n = exp_m1::<FMA>(x.abs());
    (0.5 * (n + n / (n + 1.0))).copysign(x)
}

/// `cosh x`.
#[inline(always)]
pub(super) fn cosh<const FMA: bool>(x: f64) -> f64 {
    let e = exp::<FMA>(x.abs());
    0.5 * (e + 1.0 / e)
}

/// `|x|ᵉ`.
#[inline(always)]
pub(super) fn pow_of_size<const FMA: bool>(x: f64, e: f64) -> f64 {
    exp::<FMA>(e * ln::<FMA>(x.abs()))
}
