//! Reduction of a row to one number.
//!
//! A row is folded into 64 lanes, element `i` into lane `i mod 64`, and the lanes pairwise, upper
//! half into lower. The order depends only on the length of the row; instruction sets differ only
//! where a multiply-add is fused. Sums therefore have an error of at most `γ(n/64 + 7)·Σ|x|`.

use crate::Isa;
use crate::isa::{GENERIC_FMA, mul_add};

const LANES: usize = 64;

/// Folds `x` with `step` into lanes initialized to `start`, then the lanes with `join`.
#[inline(always)]
pub(super) fn fold(
    x: &[f32],
    start: f32,
    step: impl Fn(f32, f32) -> f32,
    join: impl Fn(f32, f32) -> f32,
) -> f32 {
    let mut lanes = [start; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for i in 0..LANES {
            lanes[i] = step(lanes[i], chunk[i]);
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane = step(*lane, *x);
    }
    join_lanes(lanes, join)
}

/// The lanes as one, upper half into lower.
#[inline(always)]
pub(super) fn join_lanes<const N: usize>(
    mut lanes: [f32; N],
    join: impl Fn(f32, f32) -> f32,
) -> f32 {
    let mut half = N / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = join(lanes[i], lanes[i + half]);
        }
        half /= 2;
    }
    lanes[0]
}

/// The maximum, NaN if either is.
#[must_use]
#[inline(always)]
pub fn greater(a: f32, b: f32) -> f32 {
    // The sum is NaN, too, and not an operand: where `a` is replaced by the result, it would be stored with a mask, see
    // `changed` in `arithmetic`.
    let greater = if a > b { a } else { b };
    if a.is_nan() | b.is_nan() { a + b } else { greater }
}

/// The minimum, NaN if either is.
#[must_use]
#[inline(always)]
pub fn less(a: f32, b: f32) -> f32 {
    // As in `greater`.
    let less = if a < b { a } else { b };
    if a.is_nan() | b.is_nan() { a + b } else { less }
}

/// How elements are folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// `Σ x[i]`, 0 if empty.
    Sum,
    /// `Σ x[i]²`, 0 if empty.
    SumOfSquares,
    /// `Σ |x[i]|`, 0 if empty.
    SumOfMagnitudes,
    /// `Π x[i]`, 1 if empty.
    Product,
    /// The maximum, NaN if any is; −∞ if empty.
    Max,
    /// The minimum, NaN if any is; ∞ if empty.
    Min,
}

/// Calls `$f` with the initial value of a fold, its step and its join.
macro_rules! by_fold {
    ($fold:expr, $fma:ident => $f:ident($($arg:expr),*)) => {
        match $fold {
            Fold::Sum => $f($($arg,)* 0.0, |sum, x| sum + x, |a, b| a + b),
            Fold::SumOfSquares => {
                $f($($arg,)* 0.0, |sum, x| mul_add::<$fma>(x, x, sum), |a, b| a + b)
            }
            Fold::SumOfMagnitudes => {
                $f($($arg,)* 0.0, |sum, x: f32| sum + x.abs(), |a, b| a + b)
            }
            Fold::Product => $f($($arg,)* 1.0, |product, x| product * x, |a, b| a * b),
            Fold::Max => $f($($arg,)* f32::NEG_INFINITY, greater, greater),
            Fold::Min => $f($($arg,)* f32::INFINITY, less, less),
        }
    };
}

#[inline(always)]
fn rows(
    (x, n): (&[f32], usize),
    y: &mut [f32],
    start: f32,
    step: impl Fn(f32, f32) -> f32 + Copy,
    join: impl Fn(f32, f32) -> f32 + Copy,
) {
    for (i, y) in y.iter_mut().enumerate() {
        *y = fold(&x[i * n..][..n], start, step, join);
    }
}

#[inline(always)]
fn columns(
    (x, stride): (&[f32], usize),
    y: &mut [f32],
    start: f32,
    step: impl Fn(f32, f32) -> f32,
    _: impl Fn(f32, f32) -> f32,
) {
    y.fill(start);
    for row in x.chunks(stride) {
        let row = &row[..y.len()];
        for (y, x) in y.iter_mut().zip(row) {
            *y = step(*y, *x);
        }
    }
}

/// The fold of a row.
#[must_use]
pub fn fold_row(isa: Isa, how: Fold, x: &[f32]) -> f32 {
    let mut y = [0.0];
    fold_rows(isa, how, x, x.len(), &mut y);
    y[0]
}

/// `y[i]`: the fold of the row `x[i·n..(i + 1)·n]`.
///
/// # Panics
/// If there are fewer rows than `y` has elements.
pub fn fold_rows(isa: Isa, how: Fold, x: &[f32], n: usize, y: &mut [f32]) {
    by_registers!(isa => fold_rows(how, x, n, y));
    by_fold!(how, GENERIC_FMA => rows((x, n), y));
}

/// `Σ (x[i] − mean)²`; 0 for an empty row.
#[must_use]
pub fn sum_of_squared_deviations(isa: Isa, x: &[f32], mean: f32) -> f32 {
    by_registers!(isa => sum_of_squared_deviations(x, mean));
    let step = |sum, x: f32| mul_add::<GENERIC_FMA>(x - mean, x - mean, sum);
    fold(x, 0.0, step, |a, b| a + b)
}

per_isa! {
    /// `y[j]`: the fold of `x[i·stride + j]` over all rows `i` that begin in `x`, in ascending order.
    ///
    /// # Panics
    /// If `stride` is 0 or a row is shorter than `y`.
    pub fn fold_columns<FMA>(how: Fold, x: &[f32], stride: usize, y: &mut [f32]) {
        by_fold!(how, FMA => columns((x, stride), y));
    }

    /// `Σ x[i]·y[i]` over the shorter length; 0 for empty rows.
    pub fn dot<FMA>(x: &[f32], y: &[f32]) -> f32 {
        let length = x.len().min(y.len());
        let ((xs, x_rest), (ys, y_rest)) =
            (x[..length].as_chunks::<LANES>(), y[..length].as_chunks::<LANES>());
        let mut lanes = [0.0; LANES];
        for (x, y) in xs.iter().zip(ys) {
            for i in 0..LANES {
                lanes[i] = mul_add::<FMA>(x[i], y[i], lanes[i]);
            }
        }
        for ((lane, x), y) in lanes.iter_mut().zip(x_rest).zip(y_rest) {
            *lane = mul_add::<FMA>(*x, *y, *lane);
        }
        join_lanes(lanes, |a, b| a + b)
    }
}
