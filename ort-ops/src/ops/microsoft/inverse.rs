//! Inverse: inverses of square matrices.

use std::sync::Arc;

use ort_graph::{Fact, Facts, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Pace, TensorError, filled};

use crate::elementwise::like_first;
use crate::floats::{read, write};
use crate::infer::{square_dims, square_matrices};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "Inverse",
    versions: (1, 1),
    types: DType::is_float,
    build: |_| Ok(Arc::new(Inverse)),
}];

/// Inverse: `y[.., m, m] = x[.., m, m]⁻¹` of floats, by elimination with partial pivoting in double
/// precision, rounded once. A matrix without an inverse is an error.
///
/// Source: com.microsoft, Inverse-1 (ONNX Runtime 1.31, which divides by zero instead).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inverse;

impl Operator for Inverse {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let facts = like_first(inputs, DType::is_float)?;
        inputs.fact(0)?.dims().map(square_dims).transpose()?;
        Ok(facts)
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let (_, n) = square_matrices(x.shape())?;
        let mut y = read(x)?;
        let singular = OpError::InputValue { index: 0, what: "a matrix has no inverse" };
        let mut pace = Pace::new();
        let mut inverse = if y.is_empty() { Vec::new() } else { filled(0.0, n * n)? };
        for matrix in y.chunks_exact_mut((n * n).max(1)) {
            invert(matrix, n, (&mut inverse, &mut pace))?.ok_or_else(|| singular.clone())?;
            matrix.copy_from_slice(&inverse);
        }
        write(outputs, 0, x.dtype(), x.shape(), &y)
    }
}

/// The inverse of `a: [n, n]`, which becomes the identity; `None` if a column has no pivot.
fn invert(
    a: &mut [f64],
    n: usize,
    (inverse, pace): (&mut [f64], &mut Pace),
) -> Result<Option<()>, TensorError> {
    inverse.fill(0.0);
    inverse.iter_mut().step_by(n + 1).for_each(|one| *one = 1.0);
    for k in 0..n {
        let magnitude = |i: usize| a[i * n + k].abs();
        let pivot = (k..n).max_by(|&i, &j| magnitude(i).total_cmp(&magnitude(j))).unwrap_or(k);
        let divisor = a[pivot * n + k];
        if divisor == 0.0 {
            return Ok(None);
        }
        for matrix in [&mut *a, &mut *inverse] {
            for column in 0..n {
                matrix.swap(k * n + column, pivot * n + column);
                matrix[k * n + column] /= divisor;
            }
        }
        for i in (0..n).filter(|&i| i != k) {
            pace.go(2 * n)?;
            let factor = a[i * n + k];
            for matrix in [&mut *a, &mut *inverse] {
                for column in 0..n {
                    matrix[i * n + column] -= factor * matrix[k * n + column];
                }
            }
        }
    }
    Ok(Some(()))
}

#[cfg(test)]
mod tests {
    use ort_tensor::{Tensor, bf16};

    use crate::case::{Case, tensor};

    fn run(x: Tensor) -> Result<Tensor, String> {
        Case::new("Inverse", 1).domain("com.microsoft").tensor(&[x])
    }

    #[test]
    fn each_matrix_of_a_batch_has_its_inverse() {
        let x = tensor(&[2, 2, 2], &[0.0_f32, 2.0, 4.0, 0.0, 1.0, 1.0, 0.0, 0.5]);
        let y = tensor(&[2, 2, 2], &[0.0_f32, 0.25, 0.5, 0.0, 1.0, -2.0, 0.0, 2.0]);
        assert_eq!(run(x), Ok(y));
        let x = [2.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 4.0, 0.0].map(bf16::from_f32);
        let y = [0.5, 0.0, 0.0, 0.0, 0.0, 0.25, 0.0, 1.0, 0.0].map(bf16::from_f32);
        assert_eq!(run(tensor(&[3, 3], &x)), Ok(tensor(&[3, 3], &y)));
    }

    #[test]
    fn empty_matrices_are_their_own_inverse_and_singular_ones_have_none() {
        let empty = || tensor::<f64>(&[2, 0, 0], &[]);
        assert_eq!(run(empty()), Ok(empty()));
        let error = run(tensor(&[2, 2], &[1.0_f64, 2.0, 2.0, 4.0])).unwrap_err();
        assert_eq!(error, "input 0: a matrix has no inverse");
        assert!(run(tensor(&[2, 1], &[1.0_f32; 2])).is_err());
        assert!(run(tensor(&[1], &[1.0_f32])).is_err());
        assert!(run(tensor(&[1, 1], &[f32::NAN])).unwrap().as_slice::<f32>().unwrap()[0].is_nan());
    }
}
