//! `ln Σ eˣ` of blocks of elements of any type, in f64: first the maximum, then the sum of exponentials.

use super::fold::Block;
use super::functions_f64::{exp, ln};
use crate::isa::{Isa, Task};

/// Exponentials computed before they are added up: 2 KiB.
const TILE: usize = 256;
/// Parallel accumulators of a sum.
const LANES: usize = 16;

/// `ln Σ eˣ` of all elements of a block, which `widen` converts to f64: −∞ without elements, NaN if any is.
///
/// # Panics
/// If a row exceeds the elements.
pub fn log_sum_exp<T: Copy>(isa: Isa, block: Block<'_, T>, widen: impl Fn(T) -> f64) -> f64 {
    isa.run(All { block, widen })
}

struct All<'a, T, F> {
    block: Block<'a, T>,
    widen: F,
}

impl<T: Copy, F: Fn(T) -> f64> Task for All<'_, T, F> {
    type Output = f64;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> f64 {
        let Self { block, widen } = self;
        let mut greatest = [f64::NEG_INFINITY; LANES];
        for row in block.rows() {
            each_lane(row, |i, x| greatest[i] = greater(greatest[i], widen(x)));
        }
        let greatest = greatest.into_iter().fold(f64::NEG_INFINITY, greater);
        let shift = finite(greatest);
        let mut sums = [0.0; LANES];
        let mut tile = [0.0; TILE];
        for piece in block.rows().flat_map(|row| row.chunks(TILE)) {
            let tile = &mut tile[..piece.len()];
            for (y, x) in tile.iter_mut().zip(piece) {
                *y = exp::<FMA>(widen(*x) - shift);
            }
            each_lane(tile, |i, x| sums[i] += x);
        }
        finished::<FMA>(greatest, sums.into_iter().sum())
    }
}

/// Calls `f` with each element and its lane.
#[inline(always)]
fn each_lane<T: Copy>(row: &[T], mut f: impl FnMut(usize, T)) {
    let (chunks, rest) = row.as_chunks::<LANES>();
    for chunk in chunks {
        for (i, x) in chunk.iter().enumerate() {
            f(i, *x);
        }
    }
    for (i, x) in rest.iter().enumerate() {
        f(i, *x);
    }
}

/// The maximum; of NaN and a number, the number: the sum becomes NaN.
#[inline(always)]
fn greater(a: f64, b: f64) -> f64 {
    a.max(b)
}

/// The subtrahend of exponents, so that no difference is NaN.
#[inline(always)]
fn finite(greatest: f64) -> f64 {
    if greatest.is_finite() { greatest } else { 0.0 }
}

#[inline(always)]
fn finished<const FMA: bool>(greatest: f64, sum: f64) -> f64 {
    // Without a finite maximum: if it is infinity, the sum is infinite; if all are −∞, the sum is 0.
    finite(greatest) + ln::<FMA>(sum)
}

/// `y[j]`: `ln Σ eˣ` of element `j` of every row of a block, as [`log_sum_exp`], for the length of
/// `y`, at most `MAX_COLUMNS`.
///
/// # Panics
/// If there are more, or a row exceeds the elements.
pub fn log_sum_exp_of_columns<T: Copy>(
    isa: Isa,
    block: Block<'_, T>,
    widen: impl Fn(T) -> f64,
    y: &mut [f64],
) {
    isa.run(Columns { block, widen, y });
}

struct Columns<'a, T, F> {
    block: Block<'a, T>,
    widen: F,
    y: &'a mut [f64],
}

impl<T: Copy, F: Fn(T) -> f64> Task for Columns<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { block, widen, y } = self;
        let mut greatest = [f64::NEG_INFINITY; super::MAX_COLUMNS];
        let greatest = &mut greatest[..y.len()];
        for row in block.rows() {
            for (greatest, x) in greatest.iter_mut().zip(row) {
                *greatest = greater(*greatest, widen(*x));
            }
        }
        y.fill(0.0);
        for row in block.rows() {
            for ((sum, greatest), x) in y.iter_mut().zip(&*greatest).zip(row) {
                *sum += exp::<FMA>(widen(*x) - finite(*greatest));
            }
        }
        for (y, greatest) in y.iter_mut().zip(greatest) {
            *y = finished::<FMA>(*greatest, *y);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_columns_equal_the_formula() {
        let x: Vec<f32> =
            (0_u16..6000).map(|i| f32::from(i % 513 * 79 % 513) / 4.0 - 30.0).collect();
        let block = Block { x: &x, n: [2, 3], strides: [3000, 900], len: 700 };
        let element = |i: usize, j: usize, k: usize| f64::from(x[i * 3000 + j * 900 + k]).exp();
        let rows = || (0..2).flat_map(|i| (0..3).map(move |j| (i, j)));
        let all: f64 = rows().map(|(i, j)| (0..700).map(|k| element(i, j, k)).sum::<f64>()).sum();
        for isa in Isa::all() {
            let y = log_sum_exp(isa, block, f64::from);
            assert!((y - all.ln()).abs() < 1e-12, "{y}");
            let mut columns = [0.0; 100];
            log_sum_exp_of_columns(isa, block, f64::from, &mut columns);
            for (k, y) in columns.into_iter().enumerate() {
                let expected = rows().map(|(i, j)| element(i, j, k)).sum::<f64>().ln();
                assert!((y - expected).abs() < 1e-12, "{y}");
            }
        }
    }

    #[test]
    fn infinities_and_nan_are_distinguished() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let cases = [
            (vec![], -inf),
            (vec![-inf, -inf], -inf),
            (vec![1.0, inf, inf], inf),
            (vec![-inf, 2.0], 2.0),
            (vec![nan, 1.0], nan),
            (vec![inf, nan], nan),
            (vec![1e300, 0.0], 1e300),
        ];
        for (x, expected) in cases {
            for isa in Isa::all() {
                let block = Block { x: &x, n: [1, 1], strides: [0, 0], len: x.len() };
                let y = log_sum_exp(isa, block, |x| x);
                assert!(y == expected || y.is_nan() && expected.is_nan(), "{y} of {x:?}");
                let mut column = [0.0];
                let rows = Block { x: &x, n: [1, x.len()], strides: [0, 1], len: 1 };
                log_sum_exp_of_columns(isa, rows, |x| x, &mut column);
                assert_eq!(column[0].to_bits(), y.to_bits());
            }
        }
    }
}
