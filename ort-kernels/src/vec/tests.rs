//! Measures error bounds and tests edge cases.

use super::*;
use crate::{Activation, FlushDenormals, Isa};
use std::f32::consts::{FRAC_PI_2, LN_2};

/// A prime, so that the sweep covers every exponent with varying mantissas.
const STRIDE: usize = 1021;

/// The operands for which errors are measured: four million f32 of all signs and exponents, including denormals.
struct Sweep {
    xs: Vec<f32>,
}

/// A function and its exact value.
struct Measured<'a> {
    name: &'a str,
    f: &'a dyn Fn(Isa, &mut [f32]),
    truth: &'a dyn Fn(f64) -> f64,
    /// The unit of errors, given operand and exact value.
    unit: fn(f64, f64) -> f64,
    /// The maximum error.
    bound: f64,
}

impl Sweep {
    fn new() -> Self {
        let bits = (0..=u32::MAX).step_by(STRIDE);
        Self { xs: bits.map(f32::from_bits).filter(|x| x.is_finite()).collect() }
    }

    /// Measures a function on every instruction set, both with and without flushing of denormals:
    /// with it, values below the least normal number become zero, as operands, intermediates
    /// and results. Slopes are less than 2 there, so twice that number is allowed in addition.
    fn check(&self, of: &Measured<'_>) {
        let truths: Vec<f64> = self.xs.iter().map(|&x| (of.truth)(f64::from(x))).collect();
        for (isa, is_flushed) in Isa::all().flat_map(|isa| [(isa, false), (isa, true)]) {
            let mut ys = self.xs.clone();
            let flushed = is_flushed.then(FlushDenormals::new);
            (of.f)(isa, &mut ys);
            drop(flushed);
            let lost = if is_flushed { 2.0 * f64::from(f32::MIN_POSITIVE) } else { 0.0 };
            for ((&x, &y), &truth) in self.xs.iter().zip(&ys).zip(&truths) {
                // A denormal operand may count as zero, where the exact value may be infinite.
                let of_zero = (of.truth)(f64::from(0.0_f32.copysign(x)));
                let is_zero = is_flushed && x.is_subnormal() && error(y, of_zero, lost) == 0.0;
                let error = match is_zero {
                    true => 0.0,
                    false => error(y, truth, lost) / (of.unit)(f64::from(x), truth),
                };
                let Measured { name, bound, .. } = of;
                assert!(error <= *bound, "{name}({x}) is {y} for {isa:?}: {error} units off");
            }
        }
    }
}

/// The distance of `y` from `truth`, minus `lost`. If the exact value overflows, infinity is correct.
#[expect(clippy::cast_possible_truncation, reason = "the f32 nearest to the exact value")]
fn error(y: f32, truth: f64, lost: f64) -> f64 {
    if truth as f32 == y { 0.0 } else { ((f64::from(y) - truth).abs() - lost).max(0.0) }
}

/// A unit in the last place of the exact value as an f32.
fn ulp(_: f64, truth: f64) -> f64 {
    let exponent = (truth.abs().to_bits() >> 52).cast_signed() - 1023;
    2f64.powi(i32::try_from(exponent.max(-126) - 23).unwrap())
}

/// 2⁻²⁴·|x|, for functions that are x times a number between 0 and 1; one unit for denormals.
fn part_of_x(x: f64, _: f64) -> f64 {
    (x.abs() * 2f64.powi(-24)).max(2f64.powi(-149))
}

/// `erf x` in f64, by a series of positive terms: relative error below 1e−14.
fn erf_f64(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum, mut n) = (x, x, 0.0);
    while term.abs() > sum.abs() * 1e-17 {
        n += 1.0;
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
    }
    sum * (-x * x).exp() * std::f64::consts::FRAC_2_SQRT_PI
}

#[test]
fn elementary_functions_keep_their_bounds() {
    let sweep = Sweep::new();
    let check = |name, bound, f: &dyn Fn(Isa, &mut [f32]), truth: &dyn Fn(f64) -> f64| {
        sweep.check(&Measured { name, f, truth, unit: ulp, bound });
    };
    check("exp", 1.0, &exp, &f64::exp);
    check("sigmoid", 2.2, &sigmoid, &|x| 1.0 / (1.0 + (-x).exp()));
    check("tanh", 2.5, &tanh, &f64::tanh);
    check("erf", 1.2, &erf, &erf_f64);
    check("softsign", 1.5, &softsign, &|x| x / (1.0 + x.abs()));
    check("asin", 2.5, &asin, &f64::asin);
    check("acos", 2.5, &acos, &f64::acos);
    check("atan", 2.0, &atan, &f64::atan);
    let slope = f64::from(0.01_f32);
    let leaky = |x: f64| if x < 0.0 { slope * x } else { x };
    check("leaky_relu", 0.5, &|isa, x| leaky_relu(isa, x, 0.01), &leaky);
    check("clip", 0.0, &|isa, x| clip(isa, x, -0.5, 3.0), &|x| x.clamp(-0.5, 3.0));
}

#[test]
fn errors_of_functions_in_f64_are_little_more_than_their_rounding() {
    let sweep = Sweep::new();
    let check = |name, f: &dyn Fn(Isa, &mut [f32]), truth: &dyn Fn(f64) -> f64| {
        sweep.check(&Measured { name, f, truth, unit: ulp, bound: 0.52 });
    };
    check("ln", &ln, &f64::ln);
    check("softplus", &softplus, &|x| x.max(0.0) + (-x.abs()).exp().ln_1p());
    check("mish", &mish, &|x| x * (x.max(0.0) + (-x.abs()).exp().ln_1p()).tanh());
    check("sin", &sin, &f64::sin);
    check("cos", &cos, &f64::cos);
    check("tan", &tan, &f64::tan);
    check("asinh", &asinh, &f64::asinh);
    check("acosh", &acosh, &f64::acosh);
    check("atanh", &atanh, &f64::atanh);
    check("sinh", &sinh, &f64::sinh);
    check("cosh", &cosh, &f64::cosh);
    let negative = |slope: f64, scale: f64| {
        move |x: f64| if x < 0.0 { slope * (x / scale).exp_m1() } else { x }
    };
    check("elu", &|isa, x| elu(isa, x, 0.75), &negative(0.75, 1.0));
    check("celu", &|isa, x| celu(isa, x, 0.75), &negative(0.75, 0.75));
    check("selu", &|isa, x| selu(isa, x, 1.75, 1.25), &|x| 1.25 * negative(1.75, 1.0)(x));
    for e in [0.0_f32, 0.5, -0.5, 1.7, 3.0, -1.0, 4.0, 17.3] {
        check("pow", &|isa, x| pow(isa, x, Lane::Same(e)), &|x| x.powf(f64::from(e)));
        let by_f64 = |isa, x: &mut [f32]| pow_by_f64(isa, x, &vec![f64::from(e); x.len()]);
        check("pow_by_f64", &by_f64, &|x| x.powf(f64::from(e)));
    }
}

#[test]
fn gated_functions_keep_their_bounds() {
    let sweep = Sweep::new();
    let check = |name, bound, f: &dyn Fn(Isa, &mut [f32]), gate: &dyn Fn(f64) -> f64| {
        sweep.check(&Measured { name, f, truth: &|x| x * gate(x), unit: part_of_x, bound });
    };
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    check("silu", 3.0, &|isa, x| silu(isa, x, 1.0), &sigmoid);
    let factor = f64::from(1.702_f32);
    check("quick gelu", 3.0, &|isa, x| silu(isa, x, 1.702), &|x| sigmoid(factor * x));
    check("gelu", 3.0, &gelu, &|x| 0.5 * (1.0 + erf_f64(x / 2f64.sqrt())));
    let gate = |x: f64| sigmoid(1.595_769_121_605_731 * (x + 0.044_715 * x * x * x));
    check("gelu_tanh", 4.0, &gelu_tanh, &gate);
    check("hard_swish", 3.0, &hard_swish, &|x| (x / 6.0 + 0.5).clamp(0.0, 1.0));
}

#[test]
fn the_error_of_a_hard_sigmoid_is_at_most_a_unit_of_one() {
    let [alpha, beta] = [0.2_f32, 0.5].map(f64::from);
    Sweep::new().check(&Measured {
        name: "hard_sigmoid",
        f: &|isa, x| hard_sigmoid(isa, x, 0.2, 0.5),
        truth: &|x| (alpha * x + beta).clamp(0.0, 1.0),
        unit: |_, _| 2f64.powi(-24),
        bound: 1.5,
    });
}

/// The values of a function at −∞, −0, +0, +∞ and NaN.
fn edges(f: impl Fn(&mut [f32])) -> [f32; 5] {
    let mut x = [f32::NEG_INFINITY, -0.0, 0.0, f32::INFINITY, f32::NAN];
    f(&mut x);
    x
}

#[test]
fn edge_values_are_those_of_the_formula() {
    const INFINITY: f32 = f32::INFINITY;
    const NAN: f32 = f32::NAN;
    for isa in Isa::all() {
        let cases = [
            (edges(|x| exp(isa, x)), [0.0, 1.0, 1.0, INFINITY, NAN]),
            (edges(|x| sigmoid(isa, x)), [0.0, 0.5, 0.5, 1.0, NAN]),
            (edges(|x| tanh(isa, x)), [-1.0, -0.0, 0.0, 1.0, NAN]),
            (edges(|x| erf(isa, x)), [-1.0, -0.0, 0.0, 1.0, NAN]),
            (edges(|x| gelu(isa, x)), [NAN, -0.0, 0.0, INFINITY, NAN]),
            (edges(|x| gelu_tanh(isa, x)), [NAN, -0.0, 0.0, INFINITY, NAN]),
            (edges(|x| silu(isa, x, 1.0)), [NAN, -0.0, 0.0, INFINITY, NAN]),
            (edges(|x| hard_swish(isa, x)), [NAN, -0.0, 0.0, INFINITY, NAN]),
            (edges(|x| hard_sigmoid(isa, x, 0.2, 0.5)), [0.0, 0.5, 0.5, 1.0, NAN]),
            (edges(|x| leaky_relu(isa, x, 0.1)), [-INFINITY, -0.0, 0.0, INFINITY, NAN]),
            (edges(|x| clip(isa, x, -1.0, 6.0)), [-1.0, -0.0, 0.0, 6.0, NAN]),
            (edges(|x| ln(isa, x)), [NAN, -INFINITY, -INFINITY, INFINITY, NAN]),
            (edges(|x| softplus(isa, x)), [0.0, LN_2, LN_2, INFINITY, NAN]),
            (edges(|x| mish(isa, x)), [NAN, -0.0, 0.0, INFINITY, NAN]),
            (edges(|x| softsign(isa, x)), [NAN, -0.0, 0.0, NAN, NAN]),
            (edges(|x| sin(isa, x)), [NAN, -0.0, 0.0, NAN, NAN]),
            (edges(|x| cos(isa, x)), [NAN, 1.0, 1.0, NAN, NAN]),
            (edges(|x| atan(isa, x)), [-FRAC_PI_2, -0.0, 0.0, FRAC_PI_2, NAN]),
            (edges(|x| asin(isa, x)), [NAN, -0.0, 0.0, NAN, NAN]),
            (edges(|x| acos(isa, x)), [NAN, FRAC_PI_2, FRAC_PI_2, NAN, NAN]),
            (edges(|x| elu(isa, x, 2.0)), [-2.0, -0.0, 0.0, INFINITY, NAN]),
            (edges(|x| pow(isa, x, Lane::Same(0.5))), [INFINITY, 0.0, 0.0, INFINITY, NAN]),
            (edges(|x| pow(isa, x, Lane::Same(3.0))), [-INFINITY, -0.0, 0.0, INFINITY, NAN]),
            (edges(|x| pow(isa, x, Lane::Same(-1.0))), [-0.0, -INFINITY, INFINITY, 0.0, NAN]),
            (edges(|x| pow(isa, x, Lane::Same(0.0))), [1.0; 5]),
        ];
        for (i, (actual, expected)) in cases.iter().enumerate() {
            for (a, e) in actual.iter().zip(expected) {
                let same = a.to_bits() == e.to_bits() || a.is_nan() && e.is_nan();
                assert!(same, "{isa:?} case {i}: {actual:?}, not {expected:?}");
            }
        }
    }
}

#[test]
fn scaled_activations_have_the_bits_of_their_parts() {
    let (scale, shift) = (-1.7, 0.3);
    let bits = (0..=u32::MAX).step_by(64 * STRIDE);
    let x: Vec<f32> = bits.map(f32::from_bits).collect();
    for isa in Isa::all() {
        for activation in [Activation::Relu, Activation::HardSwish] {
            let [mut found, mut expected] = [x.clone(), x.clone()];
            activation.scaled(scale, shift).unwrap().apply(isa, &mut found);
            activation.apply(isa, &mut expected);
            mul_scalar(isa, &mut expected, scale);
            add_scalar(isa, &mut expected, shift);
            for (found, expected) in found.iter().zip(expected) {
                let same = found.to_bits() == expected.to_bits();
                assert!(same || found.is_nan() && expected.is_nan(), "{activation:?} for {isa:?}");
            }
        }
    }
}

/// Small integers: sums of them and of their squares are exact in any order.
pub(super) fn integers(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i * 7 % 13) as f32 - 6.0).collect()
}

const FOLDS: [(Fold, f32, fn(f32, f32) -> f32); 6] = [
    (Fold::Sum, 0.0, |sum, x| sum + x),
    (Fold::SumOfSquares, 0.0, |sum, x| sum + x * x),
    (Fold::SumOfMagnitudes, 0.0, |sum, x| sum + x.abs()),
    (Fold::Product, 1.0, |product, x| product * x),
    (Fold::Max, f32::NEG_INFINITY, f32::max),
    (Fold::Min, f32::INFINITY, f32::min),
];

#[test]
fn reductions_are_exact_where_f32_is() {
    for isa in Isa::all() {
        for count in (0..70).chain([200, 1000]) {
            for (how, start, step) in FOLDS {
                let mut x = integers(2 * count);
                if how == Fold::Product {
                    // Powers of two, whose product is exact.
                    x.iter_mut().for_each(|x| *x = if *x > 0.0 { 2.0 } else { -0.5 });
                }
                let rows = [&x[..count], &x[count..]];
                let expected = rows.map(|row| row.iter().copied().fold(start, step));
                let mut found = [f32::NAN; 2];
                fold_rows(isa, how, &x, count, &mut found);
                assert_eq!(found, expected, "{isa:?} {how:?} of {count}");
                let mut columns = vec![f32::NAN; count];
                fold_columns(isa, how, &x, count.max(1), &mut columns);
                let expected = (0..count).map(|j| step(step(start, x[j]), x[count + j]));
                assert!(columns.iter().copied().eq(expected), "{isa:?} {how:?} of columns");
            }
            let x = integers(count);
            assert_eq!(dot(isa, &x, &x), x.iter().map(|x| x * x).sum::<f32>());
        }
    }
}

#[test]
fn the_greatest_and_the_least_of_a_row_with_nan_are_nan() {
    for isa in Isa::all() {
        for at in [0, 63, 64, 99] {
            let mut x = integers(100);
            x[at] = f32::NAN;
            for how in [Fold::Max, Fold::Min] {
                assert!(fold_row(isa, how, &x).is_nan(), "{how:?} {isa:?} at {at}");
            }
        }
    }
}

/// `|a − b| ≤ count·2⁻²⁴·|b|`, where `count` bounds the roundings on the way.
pub(super) fn assert_close(actual: &[f32], expected: &[f64], count: f64) {
    for (a, e) in actual.iter().zip(expected) {
        let error = (f64::from(*a) - e).abs();
        assert!(error <= count * 2f64.powi(-24) * e.abs(), "{a} for {e}");
    }
}

#[test]
fn softmax_and_its_logarithm_are_the_formulas() {
    let x: Vec<f32> = integers(300).iter().map(|x| x * 1.5 + 90.0).collect();
    let total: f64 = x.iter().map(|&x| (f64::from(x) - 99.0).exp()).sum();
    let log: Vec<f64> = x.iter().map(|&x| f64::from(x) - 99.0 - total.ln()).collect();
    let direct: Vec<f64> = log.iter().map(|x| x.exp()).collect();
    for isa in Isa::all() {
        // Two for the exponential, twelve for a sum in lanes, three for reciprocal and product.
        let mut y = x.clone();
        softmax(isa, &mut y);
        assert_close(&y, &direct, 17.0);
        // The logarithm of such a sum, about 3, has an error of at most 14/3 units itself.
        let mut y = x.clone();
        let rows = Rows { x: Some(&x), y: &mut y, len: x.len() };
        softmax_rows(isa, rows, SoftmaxForm::Logarithm);
        assert_close(&y, &log, 17.0);
    }
}

#[test]
fn pieces_of_a_row_combine_to_its_softmax() {
    let x: Vec<f32> = integers(300).iter().map(|x| x * 1.5 + 90.0).collect();
    let total: f64 = x.iter().map(|&x| (f64::from(x) - 99.0).exp()).sum();
    for isa in Isa::all() {
        let mut sums = [f32::NEG_INFINITY, 0.0];
        for piece in [&[f32::NEG_INFINITY; 3][..], &x[..70], &x[70..71], &x[71..]] {
            let [greatest, sum] = softmax_step(isa, &mut piece.to_vec(), sums[0]);
            let factor = if sums[0] == greatest { 1.0 } else { (sums[0] - greatest).exp() };
            sums = [greatest, sums[1] * factor + sum];
        }
        assert_eq!(sums[0], 99.0);
        // As for a whole row, and three more per piece.
        assert_close(&sums[1..], &[total], 26.0);
        assert!(softmax_step(isa, &mut [f32::NAN, 1.0], 0.0)[1].is_nan());
    }
}

#[test]
fn a_short_row_has_the_bits_of_a_padded_one() {
    let x: Vec<f32> = integers(64).iter().map(|x| x * 0.3).collect();
    for isa in Isa::all() {
        for n in 1..=x.len() {
            let mut short = x[..n].to_vec();
            let mut long = [&short[..], &[f32::NEG_INFINITY; 65]].concat();
            softmax(isa, &mut long);
            let mut twice = vec![f32::NAN; 2 * n];
            let x = [&short[..]; 2].concat();
            let rows = Rows { x: Some(&x), y: &mut twice, len: n };
            softmax_rows(isa, rows, SoftmaxForm::Direct);
            softmax(isa, &mut short);
            assert_eq!(twice, [&short[..]; 2].concat());
            let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&short), bits(&long[..n]), "{isa:?}: {n}");
        }
    }
}

#[test]
fn columns_have_the_softmax_of_rows() {
    for (n, stride, columns) in [(1, 1, 1), (70, 300, 256), (33, 19, 17), (5, 40, 0)] {
        let x = integers(n * stride);
        let mut lanes: Vec<Vec<f32>> =
            (0..columns).map(|j| x[j..].iter().step_by(stride).copied().collect()).collect();
        for isa in Isa::all() {
            let mut y = x.clone();
            let (mut greatest, mut factors) = (vec![f32::NAN; columns], vec![f32::NAN; columns]);
            column_totals(isa, &x, stride, &mut greatest, &mut factors);
            factors.iter_mut().for_each(|total| *total = 1.0 / *total);
            y.chunks_exact_mut(stride)
                .for_each(|row| softmax_of_columns(isa, &mut row[..columns], &greatest, &factors));
            for (j, lane) in lanes.iter_mut().enumerate() {
                lane.copy_from_slice(&x[j..].iter().step_by(stride).copied().collect::<Vec<_>>());
                softmax(isa, lane);
                let truth: Vec<f64> = lane.iter().map(|&x| f64::from(x)).collect();
                let found: Vec<f32> = y[j..].iter().step_by(stride).copied().collect();
                // Both have totals of at most 70 terms: 37 roundings here, 8 there, 3 after each.
                assert_close(&found, &truth, 2.0 * (37.0 + 8.0 + 6.0));
            }
        }
    }
}

#[test]
fn softmax_of_an_infinite_row_is_nan_and_of_an_empty_one_empty() {
    for isa in Isa::all() {
        for x in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            let mut x = [x; 20];
            softmax(isa, &mut x);
            assert!(x.iter().all(|x| x.is_nan()));
        }
        softmax(isa, &mut []);
    }
}

#[test]
fn a_mapped_row_is_the_row_in_place() {
    let x = integers(3000);
    let mut expected = x.clone();
    add(Isa::best(), &mut expected, &x);
    let mut y = vec![f32::NAN; x.len()];
    map(&x, &mut y, |start, piece| add(Isa::best(), piece, &x[start..start + piece.len()]));
    assert_eq!(y, expected);
    sub_from_scalar(Isa::best(), &mut y, 1.0);
    assert!(y.iter().eq(expected.iter().map(|x| 1.0 - x).collect::<Vec<_>>().iter()));
}
