//! Measured error bounds and edge cases.

use super::*;
use crate::{Activation, Isa};

/// A prime, so that the sweep meets every exponent with changing mantissas.
const STRIDE: usize = 1021;

/// The greatest error of `f` in units in the last place of the true value, over a sweep of all
/// finite f32, and where it is. Where the truth overflows, infinity is right.
fn worst(f: impl Fn(&mut [f32]), truth: impl Fn(f64) -> f64) -> (f64, f32) {
    let bits = (0..=u32::MAX).step_by(STRIDE);
    let xs: Vec<f32> = bits.map(f32::from_bits).filter(|x| x.is_finite()).collect();
    let mut ys = xs.clone();
    f(&mut ys);
    let mut worst = (0.0, 0.0);
    for (&x, &y) in xs.iter().zip(&ys) {
        let error = ulps(y, truth(f64::from(x)));
        if error > worst.0 || error.is_nan() {
            worst = (error, x);
        }
    }
    worst
}

/// The distance of `y` from `truth` in units in the last place of `truth` as an f32.
#[expect(clippy::cast_possible_truncation, reason = "the f32 nearest to the truth")]
fn ulps(y: f32, truth: f64) -> f64 {
    let nearest = truth as f32;
    if nearest == y {
        // Within half a unit, and infinity where that is the truth.
        return 0.0;
    }
    let exponent = (truth.abs().to_bits() >> 52).cast_signed() - 1023;
    let unit = 2f64.powi(i32::try_from(exponent.max(-126) - 23).unwrap());
    (f64::from(y) - truth).abs() / unit
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
    for isa in Isa::all() {
        let check = |name, bound, (error, x): (f64, f32)| {
            assert!(error <= bound, "{name} for {isa:?}: {error} ulp at {x}");
        };
        check("exp", 1.0, worst(|x| exp(isa, x), f64::exp));
        check("sigmoid", 2.2, worst(|x| sigmoid(isa, x), |x| 1.0 / (1.0 + (-x).exp())));
        check("tanh", 1.3, worst(|x| tanh(isa, x), f64::tanh));
        check("erf", 1.2, worst(|x| erf(isa, x), erf_f64));
    }
}

/// `f(x) = x·g(x)` with g between 0 and 1: the greatest error over `|x|`, in units of 2⁻²⁴.
fn worst_of_product(f: impl Fn(&mut [f32]), g: impl Fn(f64) -> f64) -> (f64, f32) {
    let bits = (0..=u32::MAX).step_by(STRIDE);
    let xs: Vec<f32> = bits.map(f32::from_bits).filter(|x| x.is_normal()).collect();
    let mut ys = xs.clone();
    f(&mut ys);
    let error = |(&x, y): (&f32, f32)| {
        let error = (f64::from(y) - f64::from(x) * g(f64::from(x))).abs() / f64::from(x).abs();
        (error * 2f64.powi(24), x)
    };
    let errors = xs.iter().zip(ys).map(error);
    errors
        .fold((0.0, 0.0), |worst, new| if new.0 > worst.0 || new.0.is_nan() { new } else { worst })
}

#[test]
fn gated_functions_keep_their_bounds() {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let gelu_tanh_gate = |x: f64| sigmoid(1.595_769_121_605_731 * (x + 0.044_715 * x * x * x));
    for isa in Isa::all() {
        let check = |name, bound, (error, x): (f64, f32)| {
            assert!(error <= bound, "{name} for {isa:?}: {error}·2⁻²⁴·|x| at {x}");
        };
        check("silu", 3.0, worst_of_product(|x| silu(isa, x, 1.0), sigmoid));
        check("quick gelu", 3.0, worst_of_product(|x| silu(isa, x, 1.702), |x| sigmoid(1.702 * x)));
        let gate = |x: f64| 0.5 * (1.0 + erf_f64(x / 2f64.sqrt()));
        check("gelu", 3.0, worst_of_product(|x| gelu(isa, x), gate));
        check("gelu_tanh", 4.0, worst_of_product(|x| gelu_tanh(isa, x), gelu_tanh_gate));
        let gate = |x: f64| (x / 6.0 + 0.5).clamp(0.0, 1.0);
        check("hard_swish", 3.0, worst_of_product(|x| hard_swish(isa, x), gate));
    }
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
fn integers(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i * 7 % 13) as f32 - 6.0).collect()
}

#[test]
fn reductions_are_exact_where_f32_is() {
    for isa in Isa::all() {
        for count in [0, 1, 15, 64, 65, 200, 1000] {
            let x = integers(count);
            let squares: f32 = x.iter().map(|x| x * x).sum();
            assert_eq!(sum(isa, &x), x.iter().sum::<f32>());
            assert_eq!(sum_of_squares(isa, &x), squares);
            assert_eq!(dot(isa, &x, &x), squares);
            assert_eq!(max(isa, &x), x.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        }
    }
}

#[test]
fn the_greatest_of_a_row_with_nan_is_nan() {
    for isa in Isa::all() {
        for at in [0, 63, 64, 99] {
            let mut x = integers(100);
            x[at] = f32::NAN;
            assert!(max(isa, &x).is_nan(), "{isa:?} at {at}");
        }
    }
}

/// `|a − b| ≤ count·2⁻²⁴·|b|`, where `count` bounds the roundings on the way.
fn assert_close(actual: &[f32], expected: &[f64], count: f64) {
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
        // The logarithm of such a sum, about 3, is off by no more than 14/3 units itself.
        let mut y = x.clone();
        log_softmax(isa, &mut y);
        assert_close(&y, &log, 17.0);
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
fn norms_are_the_formulas() {
    let x = integers(130);
    let scale: Vec<f32> = integers(130).iter().map(|x| x + 7.0).collect();
    let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / 130.0;
    let mean_square = x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / 130.0;
    let wide = x.iter().zip(&scale).map(|(&x, &s)| (f64::from(x), f64::from(s)));
    let deviation = (mean_square - mean * mean + 0.25).sqrt();
    let layer: Vec<f64> = wide.clone().map(|(x, s)| (x - mean) / deviation * s).collect();
    let rms: Vec<f64> = wide.map(|(x, s)| x / (mean_square + 0.25).sqrt() * s).collect();
    for isa in Isa::all() {
        // Sums of 130 in lanes take ten roundings, root, reciprocal and products eight; where the
        // element is near the mean (here by 1/16 or more of it) the difference adds sixteen.
        let mut y = x.clone();
        let moments = layer_norm(isa, &mut y, &scale, None, 0.25);
        assert_close(&y, &layer, 34.0);
        assert_close(&[moments.inverse_deviation], &[1.0 / deviation], 18.0);
        let mut shifted = x.clone();
        layer_norm(isa, &mut shifted, &scale, Some(&scale), 0.25);
        assert!(y.iter().zip(&scale).map(|(y, s)| y + s).eq(shifted));
        let mut y = x.clone();
        rms_norm(isa, &mut y, &scale, 0.25);
        assert_close(&y, &rms, 18.0);
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
