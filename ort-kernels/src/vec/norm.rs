//! Normalization of a row.

use super::reduce::{Fold, fold_row, sum_of_squared_deviations};
use crate::Isa;
use crate::isa::mul_add;

/// What a normalization divided by, which some operators also give out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// The mean of the row.
    pub mean: f32,
    /// `1 / √(variance + epsilon)`.
    pub inverse_deviation: f32,
}

/// `y[i] = (x[i] − mean)·inverse_deviation·scale[i] + bias[i]`, the variance being the mean square
/// deviation, in two passes.
///
/// `scale` and, if given, `bias` are as long as the row. An empty row stays empty.
///
/// # Panics
/// If `scale` or `bias` is shorter than the row.
pub fn layer_norm(
    isa: Isa,
    x: &mut [f32],
    scale: &[f32],
    bias: Option<&[f32]>,
    epsilon: f32,
) -> Moments {
    let count = x.len() as f32;
    let mean = fold_row(isa, Fold::Sum, x) / count;
    let variance = sum_of_squared_deviations(isa, x, mean) / count;
    let moments = Moments { mean, inverse_deviation: 1.0 / (variance + epsilon).sqrt() };
    normalize(isa, x, scale, bias, moments);
    moments
}

/// `y[i] = x[i] / √(mean of squares + epsilon)·scale[i]`; returns the reciprocal of the root.
///
/// # Panics
/// If `scale` is shorter than the row.
pub fn rms_norm(isa: Isa, x: &mut [f32], scale: &[f32], epsilon: f32) -> f32 {
    let mean_square = fold_row(isa, Fold::SumOfSquares, x) / x.len() as f32;
    let inverse_deviation = 1.0 / (mean_square + epsilon).sqrt();
    normalize(isa, x, scale, None, Moments { mean: 0.0, inverse_deviation });
    inverse_deviation
}

per_isa! {
    /// `x[i] = x[i]·scale + shift`: batch and instance normalization with their constants folded.
    pub fn scale_and_shift<FMA>(x: &mut [f32], scale: f32, shift: f32) {
        for x in x {
            *x = mul_add::<FMA>(*x, scale, shift);
        }
    }

    /// `x[i] = (x[i] − mean)·factor + summand`.
    pub fn standardize<FMA>(x: &mut [f32], mean: f32, factor: f32, summand: f32) {
        for x in x {
            *x = mul_add::<FMA>(*x - mean, factor, summand);
        }
    }

    fn normalize<FMA>(x: &mut [f32], scale: &[f32], bias: Option<&[f32]>, moments: Moments) {
        let n = x.len();
        let normal = |x: f32, scale: f32| (x - moments.mean) * moments.inverse_deviation * scale;
        match bias {
            None => {
                for (x, scale) in x.iter_mut().zip(&scale[..n]) {
                    *x = normal(*x, *scale);
                }
            }
            Some(bias) => {
                for ((x, scale), bias) in x.iter_mut().zip(&scale[..n]).zip(&bias[..n]) {
                    *x = normal(*x, *scale) + bias;
                }
            }
        }
    }
}
