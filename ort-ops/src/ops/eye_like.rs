//! EyeLike: ones on a diagonal.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{Bool, DType, Inputs, Number, Output, TensorError, by_pieces, with_dtype};

use crate::elementwise::{only, shaped_like_first, unsupported};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "EyeLike",
    versions: (9, 22),
    types: is_allowed,
    build: EyeLike::build,
}];

/// EyeLike: `y[i, j] = (j = i + k)`, in the shape of `x: [m, n]`, whose values do not matter. Both are
/// numbers or bool; the type of `y` is `dtype`, without it that of `x`.
///
/// Source: ONNX operator set, EyeLike-22.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EyeLike {
    /// The type of the result, if the attribute is present.
    pub dtype: Option<DType>,
    /// The diagonal: 0 the main one, positive above.
    pub k: i64,
}

impl EyeLike {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let dtype = spec.dtype("dtype")?;
        Ok(Arc::new(Self { dtype, k: spec.int("k")?.unwrap_or(0) }))
    }
}

impl Operator for EyeLike {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let own = inputs.dtype(0, is_allowed)?;
        let dtype = self.dtype.unwrap_or(own);
        if !is_allowed(dtype) {
            return Err(unsupported(0, dtype));
        }
        match inputs.fact(0)?.rank() {
            Some(found) if found != 2 => Err(OpError::InputRank { index: 0, expected: "2", found }),
            _ => Ok(vec![shaped_like_first(inputs, dtype)?]),
        }
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let &[_, n] = x.shape() else {
            return Err(OpError::InputRank { index: 0, expected: "2", found: x.shape().len() });
        };
        let dtype = self.dtype.unwrap_or(x.dtype());
        let y = only(outputs)?.tensor(dtype, x.shape())?;
        with_dtype!(dtype, number,
            T => fill(y.into_slice::<T>()?, n, self.k, (T::from_f64(0.0), T::from_f64(1.0))),
            else => with_dtype!(dtype, [Bool],
                T => fill(y.into_slice::<T>()?, n, self.k, (Bool::from(false), Bool::from(true))),
                else => return Err(unsupported(0, dtype))))?;
        Ok(())
    }
}

const fn is_allowed(dtype: DType) -> bool {
    dtype.is_number() || dtype.is_bool()
}

/// Writes a matrix with `n` columns: `one` on diagonal `k`, else `zero`.
fn fill<T: Copy>(y: &mut [T], n: usize, k: i64, (zero, one): (T, T)) -> Result<(), TensorError> {
    by_pieces(y, |_, y| y.fill(zero))?;
    if n == 0 {
        return Ok(());
    }
    for (i, row) in y.chunks_exact_mut(n).enumerate() {
        let column = i64::try_from(i).ok().and_then(|i| i.checked_add(k));
        let column = column.and_then(|column| usize::try_from(column).ok());
        if let Some(y) = column.and_then(|column| row.get_mut(column)) {
            *y = one;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Case, tensor};
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    #[test]
    fn ones_stand_on_the_diagonal() {
        let x = || tensor(&[2, 3], &[9_i32; 6]);
        let k = |k| Case::new("EyeLike", 9).attr("k", Attr::Int(k));
        assert_eq!(k(0).tensor(&[x()]), Ok(tensor(&[2, 3], &[1, 0, 0, 0, 1, 0])));
        assert_eq!(k(1).tensor(&[x()]), Ok(tensor(&[2, 3], &[0, 1, 0, 0, 0, 1])));
        assert_eq!(k(-1).tensor(&[x()]), Ok(tensor(&[2, 3], &[0, 0, 0, 1, 0, 0])));
        assert_eq!(k(i64::MAX).tensor(&[x()]), Ok(tensor(&[2, 3], &[0; 6])));
        let bools = k(2).attr("dtype", Attr::Int(DType::Bool.onnx().into()));
        let y = [false, false, true, false, false, false].map(Bool::from);
        assert_eq!(bools.tensor(&[x()]), Ok(tensor(&[2, 3], &y)));
    }

    #[test]
    fn only_matrices_of_numbers_are_made() {
        let empty = Tensor::zeros(DType::F32, &[3, 0]).unwrap();
        assert_eq!(Case::new("EyeLike", 22).tensor(std::slice::from_ref(&empty)), Ok(empty));
        assert!(Case::new("EyeLike", 22).tensor(&[tensor(&[1], &[1_f32])]).is_err());
        for &dtype in DType::ALL {
            let x = Tensor::zeros(dtype, &[1, 1]).unwrap();
            let case = Case::new("EyeLike", 22).attr("dtype", Attr::Int(1));
            assert_eq!(case.tensor(&[x]).is_ok(), is_allowed(dtype), "{dtype}");
        }
        assert!(
            Case::new("EyeLike", 22)
                .tensor(&[tensor(&[1, 1], &[ort_tensor::Complex::new(0_f32, 0.0)])])
                .is_err()
        );
    }
}
