//! Det: determinants of square matrices.

use std::sync::Arc;

use ort_graph::{Fact, Facts, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output, Pace, Shape, TensorError, with_dtype};

use crate::elementwise::{only, unsupported};
use crate::floats;
use crate::infer::{square_dims, square_matrices};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "Det",
    versions: (11, 22),
    types: DType::is_float,
    build: |_| Ok(Arc::new(Det)),
}];

/// Det: `y[..] = det x[.., m, m]` of floats, by elimination with partial pivoting in double
/// precision, rounded once. A matrix without rows has the determinant 1.
///
/// Source: ONNX operator set, Det-22.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Det;

impl Operator for Det {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        let Some(dims) = inputs.fact(0)?.dims() else { return Ok(vec![Fact::unranked(dtype)]) };
        Ok(vec![Fact::tensor(dtype, square_dims(dims)?.to_vec())])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let (batch, n) = square_matrices(x.shape())?;
        let mut data = floats::read(x)?;
        let y = only(outputs)?.tensor(x.dtype(), &Shape::from_slice(batch))?;
        with_dtype!(x.dtype(), float,
            T => {
                let y = y.into_slice::<T>()?;
                y.fill(T::from_f64(1.0));
                let mut pace = Pace::new();
                for (y, matrix) in y.iter_mut().zip(data.chunks_exact_mut((n * n).max(1))) {
                    *y = <T as Number>::from_f64(determinant(matrix, n, &mut pace)?);
                }
                Ok(())
            },
            else => Err(unsupported(0, x.dtype())))
    }
}

/// The determinant of `a: [n, n]`, which becomes triangular.
///
/// # Errors
/// If the run is cancelled.
pub fn determinant(a: &mut [f64], n: usize, pace: &mut Pace) -> Result<f64, TensorError> {
    // With a known size, loops are unrolled.
    match n {
        2 => eliminate(a, 2, pace),
        3 => eliminate(a, 3, pace),
        4 => eliminate(a, 4, pace),
        n => eliminate(a, n, pace),
    }
}

/// Makes the matrix triangular; the product of its diagonal is the determinant, except for the sign, which each row
/// exchange flips.
#[inline(always)]
fn eliminate(a: &mut [f64], n: usize, pace: &mut Pace) -> Result<f64, TensorError> {
    let a = &mut a[..n * n];
    let mut det = 1.0;
    for k in 0..n {
        let magnitude = |i: usize| a[i * n + k].abs();
        let pivot = (k..n).max_by(|&i, &j| magnitude(i).total_cmp(&magnitude(j))).unwrap_or(k);
        if a[pivot * n + k] == 0.0 {
            return Ok(0.0);
        }
        if pivot != k {
            (0..n).for_each(|j| a.swap(k * n + j, pivot * n + j));
            det = -det;
        }
        det *= a[k * n + k];
        let (above, below) = a.split_at_mut((k + 1) * n);
        let row = &above[k * n..];
        for other in below.chunks_exact_mut(n) {
            pace.go(n)?;
            let factor = other[k] / row[k];
            for (other, row) in other[k..].iter_mut().zip(&row[k..]) {
                *other -= factor * row;
            }
        }
    }
    Ok(det)
}

#[cfg(test)]
mod tests {
    use crate::case::{Case, tensor};
    use ort_tensor::{DType, Tensor, bf16};

    #[test]
    fn each_matrix_of_a_batch_has_its_determinant() {
        let x = [1.0_f32, 2.0, 3.0, 4.0, 1.0, 2.0, 2.0, 1.0, 0.0, 3.0, 2.0, 0.0];
        let y = Case::new("Det", 11).tensor(&[tensor(&[3, 2, 2], &x)]);
        assert_eq!(y, Ok(tensor(&[3], &[-2.0_f32, -3.0, -6.0])));
        let x = [0.0, 0.0, 2.0, 0.0, 3.0, 0.0, 4.0, 0.0, 0.0].map(bf16::from_f32);
        let y = Case::new("Det", 22).tensor(&[tensor(&[3, 3], &x)]);
        assert_eq!(y, Ok(Tensor::scalar(bf16::from_f32(-24.0))));
    }

    #[test]
    fn singular_and_empty_matrices_have_one_too() {
        let run = |x: Tensor| Case::new("Det", 11).tensor(&[x]);
        assert_eq!(run(tensor(&[2, 2], &[1.0_f64, 2.0, 2.0, 4.0])), Ok(Tensor::scalar(0.0_f64)));
        let empty = Tensor::zeros(DType::F32, &[2, 0, 0]).unwrap();
        assert_eq!(run(empty), Ok(tensor(&[2], &[1.0_f32, 1.0])));
        assert!(run(tensor(&[1, 2], &[1.0_f32, 2.0])).is_err());
        assert!(run(tensor(&[2], &[1.0_f32, 2.0])).is_err());
    }
}
