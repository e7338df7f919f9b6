//! Softmax of a row.

use super::formula;
use super::reduce::fold;
use crate::Isa;
use crate::vec::{max, sum};

/// `x[i] = e^(x[i] − max) / Σ e^(x[j] − max)`.
///
/// An empty row stays empty. A NaN or +∞, or nothing but −∞, makes the whole row NaN, as the
/// formula does.
pub fn softmax(isa: Isa, x: &mut [f32]) {
    let greatest = max(isa, x);
    exp_of_difference(isa, x, greatest);
    let total = sum(isa, x);
    scale(isa, x, 1.0 / total);
}

/// `x[i] = x[i] − max − ln Σ e^(x[j] − max)`; edge cases as of [`softmax`].
pub fn log_softmax(isa: Isa, x: &mut [f32]) {
    let greatest = max(isa, x);
    let total = sum_of_exp(isa, x, greatest);
    subtract_twice(isa, x, greatest, total.ln());
}

per_isa! {
    fn exp_of_difference<FMA>(x: &mut [f32], subtrahend: f32) {
        for x in x {
            *x = formula::exp::<FMA>(*x - subtrahend);
        }
    }

    fn sum_of_exp<FMA>(x: &[f32], subtrahend: f32) -> f32 {
        fold(x, 0.0, |sum, x| sum + formula::exp::<FMA>(x - subtrahend), |a, b| a + b)
    }

    fn scale<FMA>(x: &mut [f32], factor: f32) {
        for x in x {
            *x *= factor;
        }
    }

    fn subtract_twice<FMA>(x: &mut [f32], first: f32, second: f32) {
        for x in x {
            *x = *x - first - second;
        }
    }
}
