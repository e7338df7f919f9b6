//! Softmax of a row, and of columns that lie side by side.

use super::formula;
use super::reduce::{fold, greater, join_lanes};
use crate::Isa;
use crate::vec::{max, sum};

/// The most columns that [`column_totals`] takes: 1 KiB of each row.
pub const MAX_COLUMNS: usize = 256;
/// Rows whose exponentials are one term of a total.
const CHUNK: usize = 32;
/// The longest row that two registers of AVX-512 hold; in narrower registers it would be no faster.
const SHORT: usize = 32;

/// `x[i] = e^(x[i] − max) / Σ e^(x[j] − max)`.
///
/// An empty row stays empty. A NaN or +∞, or nothing but −∞, makes the whole row NaN, as the
/// formula does.
pub fn softmax(isa: Isa, x: &mut [f32]) {
    if x.len() <= SHORT && isa.avx512().is_some() {
        return short_softmax(isa, x);
    }
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

/// The same for a row of at most `N`, in registers. Beside it stands −∞, which is nothing to a maximum,
/// and is nothing to the sum without its exponential: that is denormal on the way, and takes a hundred
/// cycles. Bits are those of longer rows, whose lanes have the same order.
#[inline(always)]
fn in_registers<const FMA: bool, const N: usize>(x: &mut [f32]) {
    let n = x.len();
    let mut row = [f32::NEG_INFINITY; N];
    row[..n].copy_from_slice(x);
    let greatest = join_lanes(row, greater);
    for (i, x) in row.iter_mut().enumerate() {
        let exponent = if i < n { *x - greatest } else { 0.0 };
        let power = formula::exp::<FMA>(exponent);
        *x = if i < n { power } else { 0.0 };
    }
    let factor = 1.0 / join_lanes(row, |a, b| a + b);
    for x in &mut row {
        *x *= factor;
    }
    x.copy_from_slice(&row[..n]);
}

per_isa! {
    /// The softmax of a row of at most [`SHORT`].
    fn short_softmax<FMA>(x: &mut [f32]) {
        match x.len() {
            0..=16 => in_registers::<FMA, 16>(x),
            _ => in_registers::<FMA, SHORT>(x),
        }
    }

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
