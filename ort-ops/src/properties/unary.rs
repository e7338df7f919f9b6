//! Functions of one operand without attributes.

use std::f64::consts::FRAC_2_SQRT_PI;

use ort_tensor::DType;

use super::{Cell, Draw, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::onnx("Abs", &[1, 13], |draw, dtype| numbers(draw, dtype, i128::abs, f64::abs)),
    Property::onnx("Acos", &[22], |draw, dtype| floats(draw, dtype, f64::acos)),
    Property::onnx("Acosh", &[22], |draw, dtype| floats(draw, dtype, f64::acosh)),
    Property::onnx("Asin", &[22], |draw, dtype| floats(draw, dtype, f64::asin)),
    Property::onnx("Asinh", &[22], |draw, dtype| floats(draw, dtype, f64::asinh)),
    Property::onnx("Atan", &[22], |draw, dtype| floats(draw, dtype, f64::atan)),
    Property::onnx("Atanh", &[22], |draw, dtype| floats(draw, dtype, f64::atanh)),
    Property::onnx("BitwiseNot", &[18], |draw, dtype| numbers(draw, dtype, |x| !x, |x| x)),
    Property::onnx("Ceil", &[1, 13], |draw, dtype| floats(draw, dtype, f64::ceil)),
    Property::onnx("Cos", &[22], |draw, dtype| floats(draw, dtype, f64::cos)),
    Property::onnx("Cosh", &[22], |draw, dtype| floats(draw, dtype, f64::cosh)),
    Property::onnx("Erf", &[9, 13], |draw, dtype| {
        // The square of up to 6 is rounded, which the exponential magnifies 36 times.
        numbers_within(64.0, draw, dtype, erf_of_integer, erf)
    }),
    Property::onnx("Exp", &[1, 13], |draw, dtype| floats(draw, dtype, f64::exp)),
    Property::onnx("Floor", &[1, 13], |draw, dtype| floats(draw, dtype, f64::floor)),
    Property::onnx("HardSwish", &[14, 22], |draw, dtype| {
        floats(draw, dtype, |x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0))
    }),
    Property::onnx("Log", &[1, 13], |draw, dtype| floats(draw, dtype, f64::ln)),
    Property::onnx("Mish", &[18, 22], |draw, dtype| floats(draw, dtype, mish)),
    Property::onnx("Neg", &[1, 13], |draw, dtype| numbers(draw, dtype, |x| -x, |x| -x)),
    Property::onnx("Not", &[1], |draw, dtype| {
        let shape = draw.shape(0);
        let not =
            |x: &Cell| if *x == Cell::Bool(true) { Cell::Bool(false) } else { Cell::Bool(true) };
        Sample::mapped(&draw.any(dtype, &shape), 0.0, not)
    }),
    Property::onnx("Reciprocal", &[1, 13], |draw, dtype| floats(draw, dtype, f64::recip)),
    Property::onnx("Relu", &[1, 14], |draw, dtype| {
        numbers(draw, dtype, |x| x.max(0), |x| if x < 0.0 { 0.0 } else { x })
    }),
    Property::onnx("Round", &[11, 22], |draw, dtype| floats(draw, dtype, round_half_to_even)),
    Property::onnx("Sigmoid", &[1, 13], |draw, dtype| floats(draw, dtype, sigmoid)),
    Property::onnx("Sign", &[9, 13], |draw, dtype| {
        numbers(draw, dtype, i128::signum, |x| if x == 0.0 { 0.0 } else { x.signum() })
    }),
    Property::onnx("Sin", &[22], |draw, dtype| floats(draw, dtype, f64::sin)),
    Property::onnx("Sinh", &[22], |draw, dtype| floats(draw, dtype, f64::sinh)),
    Property::onnx("Softplus", &[1, 22], |draw, dtype| floats(draw, dtype, softplus)),
    Property::onnx("Softsign", &[1, 22], |draw, dtype| {
        floats(draw, dtype, |x| x / (1.0 + x.abs()))
    }),
    Property::onnx("Sqrt", &[1, 13], |draw, dtype| floats(draw, dtype, f64::sqrt)),
    Property::onnx("Tan", &[22], |draw, dtype| floats(draw, dtype, f64::tan)),
    Property::onnx("Tanh", &[1, 13], |draw, dtype| floats(draw, dtype, f64::tanh)),
];

/// A function of numbers: exact for integers, in their low bits.
fn numbers(
    draw: &mut Draw,
    dtype: DType,
    of_int: fn(i128) -> i128,
    of_float: fn(f64) -> f64,
) -> Sample {
    // Up to eight operations, each within an ULP of a double.
    numbers_within(8.0, draw, dtype, of_int, of_float)
}

fn numbers_within(
    ulps_of_double: f64,
    draw: &mut Draw,
    dtype: DType,
    of_int: fn(i128) -> i128,
    of_float: fn(f64) -> f64,
) -> Sample {
    let shape = draw.shape(0);
    Sample::mapped(&draw.wild(dtype, &shape), ulps_of_double, move |x| match x {
        Cell::Int(x) => Cell::Int(of_int(*x)),
        x => Cell::Float(of_float(x.float())),
    })
}

fn floats(draw: &mut Draw, dtype: DType, f: fn(f64) -> f64) -> Sample {
    numbers(draw, dtype, |x| x, f)
}

/// `2/√π · e^(−x²) · Σ (2x²)ⁿ·x / (1·3·…·(2n + 1))`, all terms of one sign; ±1 in double precision
/// from ±6 on.
pub(super) fn erf(x: f64) -> f64 {
    if x.is_nan() || x.abs() >= 6.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, 0.0);
    let mut odd = 1.0;
    while sum + term != sum {
        sum += term;
        odd += 2.0;
        term *= 2.0 * x * x / odd;
    }
    FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

/// The same for an integer, computed in double precision and rounded toward zero.
fn erf_of_integer(x: i128) -> i128 {
    if x.abs() >= 6 { x.signum() } else { 0 }
}

/// `x·tanh(ln(1 + eˣ))`, with the hyperbolic function expanded.
fn mish(x: f64) -> f64 {
    if x > 40.0 {
        return x;
    }
    let e = x.exp();
    x * (e * (e + 2.0)) / (e * (e + 2.0) + 2.0)
}

fn round_half_to_even(x: f64) -> f64 {
    let below = x.floor();
    match x - below {
        rest if rest < 0.5 => below,
        rest if rest > 0.5 => below + 1.0,
        _ if below % 2.0 == 0.0 => below,
        _ => x.ceil(),
    }
}

pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn softplus(x: f64) -> f64 {
    // Beyond this, the difference to x is below the precision of a double.
    if x > 40.0 { x } else { x.exp().ln_1p() }
}
