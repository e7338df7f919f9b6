//! A few rows of A times a B whose rows are contiguous: B is read once, front to back, and not
//! packed.

use super::{LINE, Matrix};
use crate::isa::{SECOND_LEVEL, mul_add, prefetch};

/// Rows of B that pass over C together, so that C is read and written once for all of them: where the
/// processor looks ahead by itself, it follows four best.
const TOGETHER: usize = 4;
/// The same where it is told what to fetch.
const TOLD_TOGETHER: usize = 8;
/// Columns that are added together: half a line, which cannot straddle two, as whole ones do where
/// rows begin within a line.
const LANES: usize = LINE / 2;
/// Columns of those rows that stay in the first-level cache for all rows of A: 16 KiB.
const COLUMNS: usize = 512;

per_isa! {
    /// `c[i][j] = c[i][j] + Σ_k alpha·A[i, k]·B[k, j]` for the rows of `c`, of one length; B of
    /// column stride 1. `left` is A and alpha; `is_told`: the processor is told what to fetch.
    pub(super) fn add_products<FMA>(
        left: (&Matrix<'_>, f32),
        b: &Matrix<'_>,
        c: &mut [&mut [f32]],
        is_told: bool,
    ) {
        if is_told {
            add_chunks::<FMA, TOLD_TOGETHER, LINE>(left, b, c);
        } else {
            add_chunks::<FMA, TOGETHER, LANES>(left, b, c);
        }
    }
}

/// Chunk after chunk of columns, `T` rows of B at a time. Whole lines are fetched.
#[inline(always)]
fn add_chunks<const FMA: bool, const T: usize, const N: usize>(
    (a, alpha): (&Matrix<'_>, f32),
    b: &Matrix<'_>,
    c: &mut [&mut [f32]],
) {
    let width = c.first().map_or(0, |c| c.len());
    let chunk = if c.len() == 1 { width } else { COLUMNS };
    let factor = |i, k| alpha * a.from(i, k)[0];
    let whole = b.rows / T * T;
    for column in (0..width).step_by(chunk.max(1)) {
        let columns = column..width.min(column + chunk);
        let row = |k| &b.from(k, columns.start)[..columns.len()];
        for k in (0..whole).step_by(T) {
            for (i, c) in c.iter_mut().enumerate() {
                let (mut rows, mut factors) = ([row(k); T], [0.0; T]);
                for t in 0..T {
                    (rows[t], factors[t]) = (row(k + t), factor(i, k + t));
                }
                add_rows::<FMA, T, N>(&factors, &rows, T * b.row_stride, &mut c[columns.clone()]);
            }
        }
        for k in whole..b.rows {
            for (i, c) in c.iter_mut().enumerate() {
                let factor = factor(i, k);
                for (c, b) in c[columns.clone()].iter_mut().zip(row(k)) {
                    *c = mul_add::<FMA>(factor, *b, *c);
                }
            }
        }
    }
}

/// `c[j] += Σ_t factors[t]·rows[t][j]`, `N` columns at a time; of lines, what lies `ahead` is fetched.
#[inline(always)]
fn add_rows<const FMA: bool, const T: usize, const N: usize>(
    factors: &[f32; T],
    rows: &[&[f32]; T],
    ahead: usize,
    c: &mut [f32],
) {
    let (whole, rest) = c.as_chunks_mut::<N>();
    for (i, c) in whole.iter_mut().enumerate() {
        if N < LINE {
            // It is there already; but in a loop that fetches nothing, the vectoriser takes columns
            // apart.
            prefetch::<SECOND_LEVEL>(c.as_ptr());
        }
        let mut sums = *c;
        for t in 0..T {
            let b = &rows[t].as_chunks::<N>().0[i];
            if N == LINE {
                prefetch::<SECOND_LEVEL>(b.as_ptr().wrapping_add(ahead));
            }
            for j in 0..N {
                sums[j] = mul_add::<FMA>(factors[t], b[j], sums[j]);
            }
        }
        *c = sums;
    }
    let first = whole.len() * N;
    for (j, c) in rest.iter_mut().enumerate() {
        for t in 0..T {
            *c = mul_add::<FMA>(factors[t], rows[t][first + j], *c);
        }
    }
}
