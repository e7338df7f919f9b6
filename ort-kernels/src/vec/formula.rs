//! Branch-free elementary functions of one f32 without calls, so that loops over them vectorise.
//!
//! Polynomials were fitted by iteratively reweighted least squares (Lawson) to the relative error
//! of the function, in double precision, and rounded to f32; the errors quoted are of the unrounded
//! fit.

use crate::isa::mul_add;
use std::f32::consts::{FRAC_1_SQRT_2, FRAC_PI_2, LOG2_E, PI};

/// 1.5·2²³: adding it rounds to an integer and leaves that integer in the low bits.
pub(super) const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts; the first has 9 bits, so that a small integer times it is exact.
pub(super) const LN2_HIGH: f32 = 355.0 / 512.0;
pub(super) const LN2_LOW: f32 = -2.121_944_4e-4;
/// The polynomial of [`exp`].
pub(super) const EXP: [f32; 5] =
    [0.499_999_94, 0.166_665_2, 0.041_668_4, 0.008_368_852, 0.001_381_432];

/// The polynomials p and q of [`erf`].
pub(super) const ERF_SMALL: [f32; 7] = [
    0.128_379_17,
    -0.376_126_26,
    0.112_835_854,
    -0.026_853_813,
    0.005_188_327_7,
    -0.000_801_019_37,
    7.853_861_5e-5,
];
pub(super) const ERF_LARGE: [f32; 7] = [
    -0.000_341_519_77,
    -1.127_089_3,
    -0.638_144_8,
    -0.103_106_774,
    0.021_838_073,
    -0.002_947_660_4,
    0.000_186_379_4,
];
/// The factor of the cube in [`gelu_tanh`], and `2·√(2/π)`.
pub(super) const GELU_CUBE: f32 = 0.044_715;
pub(super) const GELU_SCALE: f32 = 1.595_769;

/// `c[0] + c[1]·x + c[2]·x² + …`
#[inline(always)]
fn polynomial<const FMA: bool, const N: usize>(x: f32, c: [f32; N]) -> f32 {
    let mut sum = c[N - 1];
    for i in (0..N - 1).rev() {
        sum = mul_add::<FMA>(sum, x, c[i]);
    }
    sum
}

/// `min(max(x, low), high)`; NaN stays NaN.
#[inline(always)]
pub(crate) fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// `x·min(max(x/6 + 1/2, 0), 1)`.
#[inline(always)]
pub(crate) fn hard_swish<const FMA: bool>(x: f32) -> f32 {
    x * clamp(mul_add::<FMA>(x, 1.0 / 6.0, 0.5), 0.0, 1.0)
}

/// `eˣ`, 0 below −104, infinite above 88.73.
///
/// `x = n·ln 2 + r`, `eʳ = 1 + r + r²·q(r)`: degree 4 on |r| ≤ 0.347, relative error 3.1e−9. The
/// power of two is split into two factors, so that results range from denormals to infinity.
#[inline(always)]
pub(super) fn exp<const FMA: bool>(x: f32) -> f32 {
    let x = clamp(x, -104.5, 89.0);
    let shifted = mul_add::<FMA>(x, LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = mul_add::<FMA>(n, -LN2_LOW, mul_add::<FMA>(n, -LN2_HIGH, x));
    let power = mul_add::<FMA>(r * r, polynomial::<FMA, 5>(r, EXP), r) + 1.0;
    let n = shifted.to_bits().wrapping_sub(ROUND.to_bits()).cast_signed();
    let half = n >> 1;
    power * two_to(half) * two_to(n.wrapping_sub(half))
}

/// `2ⁿ` for n from −126 to 127.
#[inline(always)]
fn two_to(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) << 23).cast_unsigned())
}

/// `1 / (1 + e⁻ˣ)`, through `e^−|x|`, which keeps small results exact.
#[inline(always)]
pub(super) fn sigmoid<const FMA: bool>(x: f32) -> f32 {
    let e = exp::<FMA>(-x.abs());
    let numerator = if x < 0.0 { e } else { 1.0 };
    numerator / (1.0 + e)
}

/// `tanh x`, with magnitude `m/(m + 2)` for `m = e^2|x| − 1 = 2ⁿ·(eʳ − 1) + 2ⁿ − 1`, which keeps a small `x`
/// exact. Starting at 2|x| = 20 it is 1.
#[inline(always)]
pub(super) fn tanh<const FMA: bool>(x: f32) -> f32 {
    let size = x.abs();
    let twice = if size > 10.0 { 20.0 } else { size + size };
    let shifted = mul_add::<FMA>(twice, LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = mul_add::<FMA>(n, -LN2_LOW, mul_add::<FMA>(n, -LN2_HIGH, twice));
    let rest = mul_add::<FMA>(r * r, polynomial::<FMA, 5>(r, EXP), r);
    let power = two_to(shifted.to_bits().wrapping_sub(ROUND.to_bits()).cast_signed());
    let m = mul_add::<FMA>(power, rest, power - 1.0);
    (m / (m + 2.0)).copysign(x)
}

/// `asin r` for `r = x`, or √((1 − |x|)/2) if that is smaller; and which of the two it is:
/// `r + r·z·p(z)`: degree 5 in `z = r²` up to 1/4, relative error 2.8e−10.
#[inline(always)]
fn half_asin<const FMA: bool>(x: f32) -> (bool, f32) {
    let size = x.abs();
    let is_large = size > 0.5;
    let z = if is_large { 0.5 - 0.5 * size } else { size * size };
    let r = if is_large { z.sqrt() } else { size };
    let p = [0.166_666_6, 0.075_005_04, 0.044_516_955, 0.031_807_724, 0.014_438_587, 0.037_516_475];
    (is_large, mul_add::<FMA>(r * z, polynomial::<FMA, 6>(z, p), r))
}

/// `asin x`, NaN beyond ±1: `π/2 − 2·asin √((1 − |x|)/2)` above 1/2.
#[inline(always)]
pub(super) fn asin<const FMA: bool>(x: f32) -> f32 {
    let (is_large, half) = half_asin::<FMA>(x);
    let large = mul_add::<FMA>(-2.0, half, FRAC_PI_2);
    (if is_large { large } else { half }).copysign(x)
}

/// `acos x`, NaN beyond ±1: `2·asin √((1 − |x|)/2)` above 1/2, π minus that below −1/2, else `π/2 − asin x`.
#[inline(always)]
pub(super) fn acos<const FMA: bool>(x: f32) -> f32 {
    let (is_large, half) = half_asin::<FMA>(x);
    let large = if x < 0.0 { mul_add::<FMA>(-2.0, half, PI) } else { half + half };
    if is_large { large } else { FRAC_PI_2 - half.copysign(x) }
}

/// `atan x`: of `r = min(|x|, 1/|x|)`, `r + r·z·p(z)`: degree 8 in `z = r²`, relative error 2.6e−9.
#[inline(always)]
pub(super) fn atan<const FMA: bool>(x: f32) -> f32 {
    let size = x.abs();
    let is_large = size > 1.0;
    let r = if is_large { 1.0 / size } else { size };
    let z = r * r;
    let p = [
        -0.333_333,
        0.199_985_49,
        -0.142_642_41,
        0.109_521_83,
        -0.084_034_406,
        0.057_957_415,
        -0.031_177_655,
        0.010_914_497,
        -0.001_793_596_1,
    ];
    let small = mul_add::<FMA>(r * z, polynomial::<FMA, 9>(z, p), r);
    (if is_large { FRAC_PI_2 - small } else { small }).copysign(x)
}

/// `erf x`.
///
/// Below 1 `x + x·p(x²)`, degree 6, relative error 1.3e−9; above `1 − e^q(x)`, where q, degree 6,
/// fits `ln erfc` on [1, 3.95] to a relative error of 1.1e−9 of the result.
#[inline(always)]
pub(super) fn erf<const FMA: bool>(x: f32) -> f32 {
    let size = x.abs();
    let z = x * x;
    let small = mul_add::<FMA>(size, polynomial::<FMA, 7>(z, ERF_SMALL), size);
    let exponent = polynomial::<FMA, 7>(clamp(size, 1.0, 3.95), ERF_LARGE);
    let large = 1.0 - exp::<FMA>(exponent);
    (if size < 1.0 { small } else { large }).copysign(x)
}

/// `x/2·(1 + erf(x/√2))`.
#[inline(always)]
pub(super) fn gelu<const FMA: bool>(x: f32) -> f32 {
    0.5 * x * (1.0 + erf::<FMA>(x * FRAC_1_SQRT_2))
}

/// `x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³)))`, as `x·sigmoid` of twice the argument.
#[inline(always)]
pub(super) fn gelu_tanh<const FMA: bool>(x: f32) -> f32 {
    let inner = mul_add::<FMA>(GELU_CUBE * x * x, x, x);
    x * sigmoid::<FMA>(GELU_SCALE * inner)
}
