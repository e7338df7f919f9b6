//! A few rows of A times a B whose rows are contiguous: B is read once, front to back, and not
//! packed.

use super::{LINE, Matrix};
use crate::isa::{SECOND_LEVEL, mul_add, prefetch};

/// Rows of B that pass over C together, so that C is read and written once for all of them.
const TOGETHER: usize = 8;
/// Columns of those rows that stay in the first-level cache for all rows of A: 16 KiB.
const COLUMNS: usize = 512;

per_isa! {
    /// `c[i][j] = c[i][j] + Σ_k alpha·A[i, k]·B[k, j]` for the rows of `c`, of one length; B of
    /// column stride 1.
    pub(super) fn add_products<FMA>(
        a: &Matrix<'_>,
        alpha: f32,
        b: &Matrix<'_>,
        c: &mut [&mut [f32]],
    ) {
        let width = c.first().map_or(0, |c| c.len());
        let chunk = if c.len() == 1 { width } else { COLUMNS };
        for column in (0..width).step_by(chunk.max(1)) {
            let columns = column..width.min(column + chunk);
            let factor = |i, k| alpha * a.from(i, k)[0];
            let row = |k| &b.from(k, columns.start)[..columns.len()];
            let whole = b.rows / TOGETHER * TOGETHER;
            for k in (0..whole).step_by(TOGETHER) {
                for (i, c) in c.iter_mut().enumerate() {
                    let mut rows = [row(k); TOGETHER];
                    let mut factors = [0.0; TOGETHER];
                    for t in 0..TOGETHER {
                        (rows[t], factors[t]) = (row(k + t), factor(i, k + t));
                    }
                    add_rows::<FMA>(&factors, &rows, TOGETHER * b.row_stride, &mut c[columns.clone()]);
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
}

/// `c[j] += Σ_t factors[t]·rows[t][j]`; what lies `ahead` of the rows is fetched.
#[inline(always)]
fn add_rows<const FMA: bool>(
    factors: &[f32; TOGETHER],
    rows: &[&[f32]; TOGETHER],
    ahead: usize,
    c: &mut [f32],
) {
    let (lines, rest) = c.as_chunks_mut::<LINE>();
    for (i, c) in lines.iter_mut().enumerate() {
        let mut sums = *c;
        for t in 0..TOGETHER {
            let b = &rows[t].as_chunks::<LINE>().0[i];
            prefetch::<SECOND_LEVEL>(b.as_ptr().wrapping_add(ahead));
            for j in 0..LINE {
                sums[j] = mul_add::<FMA>(factors[t], b[j], sums[j]);
            }
        }
        *c = sums;
    }
    let first = lines.len() * LINE;
    for (j, c) in rest.iter_mut().enumerate() {
        for t in 0..TOGETHER {
            *c = mul_add::<FMA>(factors[t], rows[t][first + j], *c);
        }
    }
}
