//! One row of A times a B whose rows are contiguous: B is read once, front to back, and not packed.

use super::Matrix;
use crate::isa::mul_add;

/// Rows of B that pass over C together, so that C is read and written once for all of them.
const TOGETHER: usize = 8;

per_isa! {
    /// `c[j] = c[j] + Σ_k alpha·a[k]·B[k, j]`: `a: [1, k]`, B of column stride 1.
    pub(super) fn add_row_times_matrix<FMA>(
        a: &Matrix<'_>,
        alpha: f32,
        b: &Matrix<'_>,
        c: &mut [f32],
    ) {
        let width = c.len();
        let row = |k| &b.from(k, 0)[..width];
        let factor = |k| alpha * a.data[k * a.column_stride];
        let whole = b.rows / TOGETHER * TOGETHER;
        for k in (0..whole).step_by(TOGETHER) {
            let mut rows = [row(k); TOGETHER];
            let mut factors = [0.0; TOGETHER];
            for i in 0..TOGETHER {
                (rows[i], factors[i]) = (row(k + i), factor(k + i));
            }
            for (j, c) in c.iter_mut().enumerate() {
                for i in 0..TOGETHER {
                    *c = mul_add::<FMA>(factors[i], rows[i][j], *c);
                }
            }
        }
        for k in whole..b.rows {
            for (c, b) in c.iter_mut().zip(row(k)) {
                *c = mul_add::<FMA>(factor(k), *b, *c);
            }
        }
    }
}
