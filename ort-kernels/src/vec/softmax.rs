//! Softmax of rows, and of adjacent columns.

use super::formula;
use super::reduce::{Fold, fold, fold_row, greater};

use crate::Isa;
use crate::isa::GENERIC_FMA;

/// The maximum number of columns of [`column_totals`]: 1 KiB of each row.
pub const MAX_COLUMNS: usize = 256;
/// Rows whose exponentials are one term of a total.
const CHUNK: usize = 32;

/// Consecutive rows.
#[derive(Debug)]
pub struct Rows<'a> {
    /// The operand; `None` if it is in `y`.
    pub x: Option<&'a [f32]>,
    /// The result.
    pub y: &'a mut [f32],
    /// Elements per row.
    pub len: usize,
}

/// The function of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `e^(x[i] − max) / Σ e^(x[j] − max)`
    Direct,
    /// `x[i] − max − ln Σ e^(x[j] − max)`
    Logarithm,
}

/// The softmax of each row, or its logarithm.
///
/// An empty row stays empty. A NaN or +∞, or only −∞, makes the whole row NaN, like the
/// formula.
///
/// # Panics
/// If `x` is shorter than `y`.
pub fn softmax_rows(isa: Isa, rows: Rows<'_>, form: Form) {
    by_registers!(isa => softmax_rows(rows, form));
    let Rows { x, y, len } = rows;
    for (i, y) in y.chunks_exact_mut(len.max(1)).enumerate() {
        if let Some(x) = x {
            y.copy_from_slice(&x[i * len..][..len]);
        }
        let greatest = fold_row(isa, Fold::Max, y);
        match form {
            Form::Direct => {
                exp_of_difference(y, greatest);
                let total = fold_row(isa, Fold::Sum, y);
                scale(y, 1.0 / total);
            }
            Form::Logarithm => {
                let total = sum_of_exp(y, greatest);
                subtract_twice(y, greatest, total.ln());
            }
        }
    }
}

/// The softmax of one row, in place; see [`softmax_rows`].
pub fn softmax(isa: Isa, x: &mut [f32]) {
    let len = x.len();
    softmax_rows(isa, Rows { x: None, y: x, len }, Form::Direct);
}

/// A step of a softmax whose row is processed in pieces: `x[i] = e^(x[i] − max)`, where `max` is the maximum of
/// the piece and of the previous pieces, `greatest`. Returns `max` and `Σ x[i]`.
///
/// If all are −∞, `max` is −∞ and `x` becomes zeros. A NaN or +∞ makes the sum NaN.
pub fn softmax_step(isa: Isa, x: &mut [f32], greatest: f32) -> [f32; 2] {
    by_registers!(isa => softmax_step(x, greatest));
    let greatest = greater(fold_row(isa, Fold::Max, x), greatest);
    exp_of_difference(x, if greatest == f32::NEG_INFINITY { 0.0 } else { greatest });
    [greatest, fold_row(isa, Fold::Sum, x)]
}

per_isa! {
    /// `greatest[j] = max_i x[i·stride + j]` and `total[j] = Σ_i e^(x[i·stride + j] − greatest[j])`,
    /// over all rows `i` that start in `x`: the components of the softmax of a column. A column with
    /// NaN or +∞, or only −∞, has a total of NaN. Error of a total: at most `n/32 + 34` ulp
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
    /// are the reciprocals of their totals. Edge cases as for [`softmax`].
    ///
    /// # Panics
    /// If `greatest` or `factors` is shorter than the row.
    pub fn softmax_of_columns<FMA>(x: &mut [f32], greatest: &[f32], factors: &[f32]) {
        let n = x.len();
        for ((x, greatest), factor) in x.iter_mut().zip(&greatest[..n]).zip(&factors[..n]) {
            *x = formula::exp::<FMA>(*x - greatest) * factor;
        }
    }
}

fn exp_of_difference(x: &mut [f32], subtrahend: f32) {
    for x in x {
        *x = formula::exp::<GENERIC_FMA>(*x - subtrahend);
    }
}

fn sum_of_exp(x: &[f32], subtrahend: f32) -> f32 {
    fold(x, 0.0, |sum, x| sum + formula::exp::<GENERIC_FMA>(x - subtrahend), |a, b| a + b)
}

fn scale(x: &mut [f32], factor: f32) {
    for x in x {
        *x *= factor;
    }
}

fn subtract_twice(x: &mut [f32], first: f32, second: f32) {
    for x in x {
        *x = *x - first - second;
    }
}
