//! `C[m,n] = alpha·Σ_k A[m,k]·B[k,n] + beta·C[m,n]` in f64, by the crate `matrixmultiply`.
//!
//! Unlike the kernels of our own it chooses its instruction set itself and allocates its packed
//! operands for the length of the call.

use crate::gemm_f32::Matrix;
use crate::isa;

/// `C = alpha·A·B + beta·C`, A: [m, k] and B: [k, n] of any strides, C: [m, n] contiguous.
///
/// With `beta = 0` C is not read. Rows of C may be split among threads without changing a bit.
///
/// # Panics
/// If an operand is shorter than its shape and strides say, or the shapes do not fit.
pub fn gemm(alpha: f64, a: &Matrix<'_, f64>, b: &Matrix<'_, f64>, beta: f64, c: &mut [f64]) {
    isa::multiply_f64(alpha, a, b, beta, c);
}

#[cfg(test)]
mod tests {
    use super::{Matrix, gemm};

    #[test]
    fn a_product_of_small_integers_is_exact() {
        let a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let a = Matrix::row_major(&a, 2, 3);
        let b = Matrix::row_major(&[1.0, 0.0, -1.0, 2.0, 0.5, 4.0], 2, 3).transposed();
        let mut c = [f64::NAN; 4];
        gemm(2.0, &a, &b, 0.0, &mut c);
        assert_eq!(c, [-4.0, 30.0, -4.0, 69.0]);
        gemm(1.0, &a, &b, 0.5, &mut c);
        assert_eq!(c, [-4.0, 30.0, -4.0, 69.0]);
    }

    #[test]
    fn empty_operands_leave_beta_times_c() {
        let empty = Matrix::row_major(&[], 2, 0);
        let mut c = [1.0, 2.0, 3.0, 4.0];
        gemm(1.0, &empty, &empty.transposed(), 0.5, &mut c);
        assert_eq!(c, [0.5, 1.0, 1.5, 2.0]);
    }
}
