//! Softmax of a row, and of columns that lie side by side.

use super::formula;
use super::reduce::{Fold, fold, fold_row, greater};
#[cfg(target_arch = "x86_64")]
use super::{exponential, registers};
use crate::Isa;

/// The most columns that [`column_totals`] takes: 1 KiB of each row.
pub const MAX_COLUMNS: usize = 256;
/// Rows whose exponentials are one term of a total.
const CHUNK: usize = 32;

/// `x[i] = e^(x[i] − max) / Σ e^(x[j] − max)`.
///
/// An empty row stays empty. A NaN or +∞, or nothing but −∞, makes the whole row NaN, as the
/// formula does.
pub fn softmax(isa: Isa, x: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = isa.avx512().filter(|_| x.len() <= registers::LEN) {
        return registers::softmax(token, x);
    }
    let greatest = fold_row(isa, Fold::Max, x);
    powers(isa, x, greatest);
    let total = fold_row(isa, Fold::Sum, x);
    scale(isa, x, 1.0 / total);
}

/// `x[i] = e^(x[i] − subtrahend)`.
fn powers(isa: Isa, x: &mut [f32], subtrahend: f32) {
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = isa.avx512() {
        return exponential::exp_of_difference(token, x, subtrahend);
    }
    exp_of_difference(isa, x, subtrahend);
}

/// `x[i] = x[i] − max − ln Σ e^(x[j] − max)`; edge cases as of [`softmax`].
pub fn log_softmax(isa: Isa, x: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = isa.avx512().filter(|_| x.len() <= registers::LEN) {
        return registers::log_softmax(token, x);
    }
    let greatest = fold_row(isa, Fold::Max, x);
    let total = sum_of_exp(isa, x, greatest);
    subtract_twice(isa, x, greatest, total.ln());
}

per_isa! {
    /// `greatest[j] = max_i x[i·stride + j]` and `total[j] = Σ_i e^(x[i·stride + j] − greatest[j])`,
    /// over all rows `i` that begin in `x`: what the softmax of a column is made of. A column with
    /// NaN or +∞, or nothing but −∞, has a total of NaN. Error of a total: at most `n/32 + 34` ulp
    /// for `n` rows.
    ///
    /// # Panics
    /// If there are more than [`MAX_COLUMNS`], `stride` is 0, or a row or `total` is shorter than
    /// `greatest`.
    pub fn column_totals<FMA>(
        x: &[f32],
        stride: usize,
        greatest: &mut [f32],
        total: &mut [f32],
    ) {
        let n = greatest.len();
        greatest.fill(f32::NEG_INFINITY);
        for row in x.chunks(stride) {
            for (greatest, x) in greatest.iter_mut().zip(&row[..n]) {
                *greatest = greater(*greatest, *x);
            }
        }
        total.fill(0.0);
        for rows in x.chunks(CHUNK * stride) {
            let mut terms = [0.0; MAX_COLUMNS];
            let terms = &mut terms[..n];
            for row in rows.chunks(stride) {
                for ((term, x), greatest) in terms.iter_mut().zip(&row[..n]).zip(&*greatest) {
                    *term += formula::exp::<FMA>(x - greatest);
                }
            }
            for (total, term) in total[..n].iter_mut().zip(terms) {
                *total += *term;
            }
        }
    }

    /// `x[j] = e^(x[j] − greatest[j])·factors[j]`: a row of the softmax of columns, if the factors
    /// are the reciprocals of their totals. Edge cases as of [`softmax`].
    ///
    /// # Panics
    /// If `greatest` or `factors` is shorter than the row.
    pub fn softmax_of_columns<FMA>(x: &mut [f32], greatest: &[f32], factors: &[f32]) {
        let n = x.len();
        for ((x, greatest), factor) in x.iter_mut().zip(&greatest[..n]).zip(&factors[..n]) {
            *x = formula::exp::<FMA>(*x - greatest) * factor;
        }
    }

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
