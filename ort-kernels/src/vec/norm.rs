//! Normalization of a row.

use crate::Isa;
use crate::isa::mul_add;
use crate::vec::{sum, sum_of_squared_deviations, sum_of_squares};

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
    let mean = sum(isa, x) / count;
    let variance = sum_of_squared_deviations(isa, x, mean) / count;
    let inverse_deviation = 1.0 / (variance + epsilon).sqrt();
    normalize(isa, x, scale, Moments { mean, inverse_deviation });
    if let Some(bias) = bias {
        super::add(isa, x, bias);
    }
    Moments { mean, inverse_deviation }
}

/// `y[i] = x[i] / √(mean of squares + epsilon)·scale[i]`; returns the reciprocal of the root.
///
/// # Panics
/// If `scale` is shorter than the row.
pub fn rms_norm(isa: Isa, x: &mut [f32], scale: &[f32], epsilon: f32) -> f32 {
    let mean_square = sum_of_squares(isa, x) / x.len() as f32;
    let inverse_deviation = 1.0 / (mean_square + epsilon).sqrt();
    normalize(isa, x, scale, Moments { mean: 0.0, inverse_deviation });
    inverse_deviation
}

per_isa! {
    fn normalize<FMA>(x: &mut [f32], scale: &[f32], moments: Moments) {
        let scale = &scale[..x.len()];
        for (x, scale) in x.iter_mut().zip(scale) {
            *x = (*x - moments.mean) * moments.inverse_deviation * scale;
        }
    }

    /// `x[i] = x[i]·scale + shift`: batch and instance normalization with their constants folded.
    pub fn scale_and_shift<FMA>(x: &mut [f32], scale: f32, shift: f32) {
        for x in x {
            *x = mul_add::<FMA>(*x, scale, shift);
        }
    }
}
