//! A row to one number.
//!
//! A row is folded into 64 lanes, element `i` into lane `i mod 64`, and the lanes pairwise, upper
//! half into lower. The order depends only on the length of the row; instruction sets differ only
//! where a multiply-add is fused. Sums therefore have an error of at most `γ(n/64 + 7)·Σ|x|`.

use crate::isa::mul_add;

const LANES: usize = 64;

/// Folds `x` by `step` into lanes that start from `start`, then the lanes by `join`.
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

/// The greater, NaN if either is.
#[must_use]
#[inline(always)]
pub fn greater(a: f32, b: f32) -> f32 {
    // A comparison with NaN is false, so NaN in `b` is taken. Written as the maximum instruction
    // does it, which leaves one comparison for NaN in `a`.
    let greater = if a > b { a } else { b };
    if a.is_nan() { a } else { greater }
}

/// The less, NaN if either is.
#[must_use]
#[inline(always)]
pub fn less(a: f32, b: f32) -> f32 {
    // As in `greater`.
    let less = if a < b { a } else { b };
    if a.is_nan() { a } else { less }
}

per_isa! {
    /// `Σ x[i]`; 0 for an empty row.
    pub fn sum<FMA>(x: &[f32]) -> f32 {
        fold(x, 0.0, |sum, x| sum + x, |a, b| a + b)
    }

    /// `Σ x[i]²`; 0 for an empty row.
    pub fn sum_of_squares<FMA>(x: &[f32]) -> f32 {
        fold(x, 0.0, |sum, x| mul_add::<FMA>(x, x, sum), |a, b| a + b)
    }

    /// `Σ (x[i] − mean)²`; 0 for an empty row.
    pub fn sum_of_squared_deviations<FMA>(x: &[f32], mean: f32) -> f32 {
        fold(x, 0.0, |sum, x| mul_add::<FMA>(x - mean, x - mean, sum), |a, b| a + b)
    }

    /// The greatest element, NaN if there is one; −∞ for an empty row.
    pub fn max<FMA>(x: &[f32]) -> f32 {
        fold(x, f32::NEG_INFINITY, greater, greater)
    }

    /// `Σ x[i]·y[i]` over the length of the shorter; 0 for empty rows.
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
