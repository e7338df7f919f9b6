//! NonZero: the indices of the elements that are not zero.

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{
    DType, Inputs, Output, Pace, Room, TensorView, go_on, row_major_strides, with_dtype,
};

use crate::order::is_comparable;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "NonZero",
    versions: (9, 13),
    types: is_comparable,
    build: NonZero::build,
}];

/// NonZero: column `j` of `y: [rank, n]` (int64) is the index of the `j`-th element that is not
/// zero, in row-major order. NaN is not zero, −0 is; false and the empty string are. For a scalar
/// `y` has no rows.
///
/// Source: ONNX operator set, NonZero-13.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonZero;

impl NonZero {
    fn build(_: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(NonZero))
    }
}

/// The positions of the elements that are not zero.
fn positions(x: TensorView<'_>) -> Result<Vec<usize>, OpError> {
    fn of<T>(x: &[T], is_zero: impl Fn(&T) -> bool) -> Result<Vec<usize>, OpError> {
        let mut found = Room::new();
        for (part, first) in x.chunks(Pace::STEP).zip((0..).step_by(Pace::STEP)) {
            go_on()?;
            let set = part.iter().zip(first..).filter(|(x, _)| !is_zero(x));
            found.extend(set.map(|(_, i)| i))?;
        }
        Ok(found.into_vec())
    }
    if x.dtype() == DType::String {
        return of(x.as_strings()?, String::is_empty);
    }
    with_dtype!(x.dtype(), plain,
        T => of(x.as_slice::<T>()?, |x| *x == T::default()),
        else => Err(OpError::Unsupported { what: "NonZero of this element type" }))
}

impl Operator for NonZero {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, is_comparable)?;
        let rank = inputs.fact(0)?.rank().map_or(Dim::Unknown, Dim::Known);
        Ok(vec![Fact::tensor(DType::I64, [rank, Dim::Unknown])])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let positions = positions(x)?;
        let (rank, n) = (x.shape().len(), positions.len());
        let y = outputs[0].tensor(DType::I64, &[rank, n])?.into_slice::<i64>()?;
        if n == 0 {
            return Ok(());
        }
        let axes = x.shape().iter().zip(row_major_strides(x.shape()));
        for (row, (&dim, stride)) in y.chunks_exact_mut(n).zip(axes) {
            for (y, &at) in row.iter_mut().zip(&positions) {
                *y = i64::try_from(at / stride % dim).map_err(|_| OpError::TooLarge)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ort_tensor::{Bool, Tensor};

    use crate::case::{Case, tensor};

    #[test]
    fn columns_are_indices() {
        let strings = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Tensor::from_strings(&[words.len()], words).unwrap()
        };
        let flags = [true, false, true, true].map(Bool::from);
        let cases = [
            (tensor(&[2, 2], &flags), tensor(&[2, 3], &[0_i64, 1, 1, 0, 0, 1])),
            (tensor(&[4], &[0.0, -0.0, f32::NAN, 2.0]), tensor(&[1, 2], &[2_i64, 3])),
            (strings(&["", "a"]), tensor(&[1, 1], &[1_i64])),
            (tensor::<u8>(&[0, 3], &[]), tensor::<i64>(&[2, 0], &[])),
            (Tensor::scalar(5_i32), tensor::<i64>(&[0, 1], &[])),
            (Tensor::scalar(0_i32), tensor::<i64>(&[0, 0], &[])),
        ];
        for (x, expected) in cases {
            assert_eq!(Case::new("NonZero", 13).tensor(&[x]), Ok(expected));
        }
    }
}
