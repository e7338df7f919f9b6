//! Products of matrices whose rows are contiguous in both operands.

use std::ops::{Add, Mul};

use ort_tensor::{Number, Pace, TensorError};

/// f32 or f64: what products accumulate in.
pub(crate) trait Real: Number + Add<Output = Self> + Mul<Output = Self> {}

impl Real for f32 {}
impl Real for f64 {}

/// The number of independent partial sums, so that additions need not wait for each other.
const N_PARTIAL: usize = 16;

/// `c[i, j] += Σ a[i, k] · b[j, k]`, where `a: [m, k]`, `b: [n, k]` and `c: [m, n]`, whose rows are
/// `c_stride` apart; `m` follows from `a`, `n` from `b`. `k` must not be 0.
///
/// # Errors
/// If the run was cancelled.
pub(crate) fn add_product<R: Real>(
    c: &mut [R],
    c_stride: usize,
    a: &[R],
    b: &[R],
    k: usize,
) -> Result<(), TensorError> {
    let mut pace = Pace::new();
    // A row of `b` stays in the L1 cache while it is multiplied with all rows of `a`.
    for (j, b) in b.chunks_exact(k).enumerate() {
        for (i, a) in a.chunks_exact(k).enumerate() {
            pace.go(k)?;
            let c = &mut c[i * c_stride + j];
            *c = *c + dot(a, b);
        }
    }
    Ok(())
}

/// `Σ a[k] · b[k]`.
pub(crate) fn dot<R: Real>(a: &[R], b: &[R]) -> R {
    let mut sums = [R::default(); N_PARTIAL];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<N_PARTIAL>(), b.as_chunks::<N_PARTIAL>());
    for (a, b) in a.iter().zip(b) {
        for ((sum, &a), &b) in sums.iter_mut().zip(a).zip(b) {
            *sum = *sum + a * b;
        }
    }
    let rest = a_rest.iter().zip(b_rest).fold(R::default(), |sum, (&a, &b)| sum + a * b);
    sums.into_iter().fold(rest, R::add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_meet_rows() {
        let a: Vec<f64> = (0_u8..38).map(f64::from).collect();
        let b: Vec<f64> = (0_u8..57).map(f64::from).rev().collect();
        let mut c = vec![1.0; 2 * 4];
        add_product(&mut c, 4, &a, &b, 19).unwrap();
        for (i, row) in c.chunks_exact(4).enumerate() {
            for (j, &found) in row[..3].iter().enumerate() {
                let sum: f64 = (0..19).map(|k| a[i * 19 + k] * b[j * 19 + k]).sum();
                assert_eq!(found, 1.0 + sum);
            }
            assert_eq!(row[3], 1.0);
        }
    }
}
