//! Normalization of a row.

use super::reduce::{Fold, fold_row, sum_of_squared_deviations};
use crate::Isa;
use crate::isa::mul_add;

/// The maximum length of a row that registers hold.
const SHORT: usize = 64;

/// The moments of a normalization, which are outputs of some operators.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// The mean of the row.
    pub mean: f32,
    /// `1 / √(variance + epsilon)`.
    pub inverse_deviation: f32,
}

/// A row, and the parameters of its normalization.
#[derive(Debug)]
pub struct Row<'a> {
    /// The operand; `None` if it is in `y`.
    pub x: Option<&'a [f32]>,
    /// The result.
    pub y: &'a mut [f32],
    /// As long as the row.
    pub scale: &'a [f32],
    /// If given, as long as the row.
    pub bias: Option<&'a [f32]>,
    /// Added to the variance.
    pub epsilon: f32,
}

/// `y[i] = (x[i] − mean)·inverse_deviation·scale[i] + bias[i]`, with the variance as the mean square
/// deviation, in two passes. An empty row stays empty.
///
/// # Panics
/// If `x`, `scale` or `bias` is shorter than `y`.
pub fn layer_norm(isa: Isa, row: Row<'_>) -> Moments {
    if row.y.len() <= SHORT {
        by_registers!(isa => layer_norm(row));
    }
    let Row { epsilon, scale, bias, .. } = row;
    let x = in_place(row.x, row.y);
    let count = x.len() as f32;
    let mean = fold_row(isa, Fold::Sum, x) / count;
    let variance = sum_of_squared_deviations(isa, x, mean) / count;
    let moments = Moments { mean, inverse_deviation: 1.0 / (variance + epsilon).sqrt() };
    normalize(isa, x, scale, bias, moments);
    moments
}

/// `y[i] = x[i] / √(mean of squares + epsilon)·scale[i] + bias[i]`; returns the reciprocal of the root.
///
/// # Panics
/// If `x`, `scale` or `bias` is shorter than `y`.
pub fn rms_norm(isa: Isa, row: Row<'_>) -> f32 {
    if row.y.len() <= SHORT {
        by_registers!(isa => rms_norm(row));
    }
    let Row { epsilon, scale, bias, .. } = row;
    let x = in_place(row.x, row.y);
    let mean_square = fold_row(isa, Fold::SumOfSquares, x) / x.len() as f32;
    let inverse_deviation = 1.0 / (mean_square + epsilon).sqrt();
    normalize(isa, x, scale, bias, Moments { mean: 0.0, inverse_deviation });
    inverse_deviation
}

/// `y`, after copying `x` to it.
fn in_place<'a>(x: Option<&[f32]>, y: &'a mut [f32]) -> &'a mut [f32] {
    if let Some(x) = x {
        y.copy_from_slice(&x[..y.len()]);
    }
    y
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

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_close, integers};
    use super::*;

    #[test]
    fn norms_are_the_formulas() {
        for len in [1, 2, 15, 16, 17, 33, 48, 49, 63, 64, 65, 130] {
            norms_of_a_row_are_the_formulas(&integers(len));
        }
    }

    fn of<'a>(y: &'a mut [f32], scale: &'a [f32], bias: Option<&'a [f32]>) -> Row<'a> {
        Row { x: None, y, scale, bias, epsilon: 0.25 }
    }

    fn norms_of_a_row_are_the_formulas(x: &[f32]) {
        let scale: Vec<f32> = x.iter().map(|x| x + 7.0).collect();
        let n = x.len() as f64;
        let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
        let mean_square = x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / n;
        let wide = x.iter().zip(&scale).map(|(&x, &s)| (f64::from(x), f64::from(s)));
        let deviation = (mean_square - mean * mean + 0.25).sqrt();
        let layer: Vec<f64> = wide.clone().map(|(x, s)| (x - mean) / deviation * s).collect();
        let rms: Vec<f64> = wide.map(|(x, s)| x / (mean_square + 0.25).sqrt() * s).collect();
        let scale = scale.as_slice();
        for isa in Isa::all() {
            // Sums of 130 in lanes take ten roundings, root, reciprocal and products eight; if the
            // element is near the mean (here at a distance of at least 1/16 of it) the difference adds sixteen.
            let mut y = x.to_vec();
            let moments = layer_norm(isa, of(&mut y, scale, None));
            assert_close(&y, &layer, 34.0);
            assert_close(&[moments.inverse_deviation], &[1.0 / deviation], 18.0);
            let mut shifted = x.to_vec();
            layer_norm(isa, of(&mut shifted, scale, Some(scale)));
            assert!(y.iter().zip(scale).map(|(y, s)| y + s).eq(shifted));
            let mut y = x.to_vec();
            rms_norm(isa, of(&mut y, scale, None));
            assert_close(&y, &rms, 18.0);
            let mut shifted = x.to_vec();
            rms_norm(isa, of(&mut shifted, scale, Some(scale)));
            assert!(y.iter().zip(scale).map(|(y, s)| y + s).eq(shifted));
        }
    }
}
