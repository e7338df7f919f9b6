//! OneHot: indices as one-hot vectors.

use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{
    DType, Inputs, Number, Output, Pace, Shape, TensorError, TensorView, collected, go_on,
    move_elements, n_elements, with_dtype,
};

use crate::infer::{folded, int_values, normalize_axis, tensor_fact};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "OneHot",
    versions: (9, 28),
    types: DType::is_any,
    build: OneHot::build,
}];

/// OneHot: `y[a…, d, b…] = values[1] if indices[a…, b…] = d, else values[0]`, for `d` below the
/// depth in input 1. Indices below zero count from the back (from version 11 on); those out of range give only off
/// values. Indices and depth of any number type are truncated.
///
/// Source: ONNX operator set, OneHot-28.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneHot {
    /// Where the new axis is, `−rank..rank` of the output.
    pub axis: i64,
    /// Whether indices below zero count from the back.
    pub from_back: bool,
}

impl OneHot {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let axis = spec.int("axis")?.unwrap_or(-1);
        Ok(Arc::new(Self { axis, from_back: spec.since_version >= 11 }))
    }

    /// The index counted from the front, if it is in range.
    fn position(self, index: i64, depth: usize) -> Option<usize> {
        if index < 0 && !self.from_back { None } else { normalize_axis(index, depth).ok() }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "truncation is intended")]
fn truncated(x: TensorView<'_>) -> Result<Vec<i64>, OpError> {
    if x.dtype() == DType::I64 {
        return Ok(int_values(x)?);
    }
    with_dtype!(x.dtype(), number,
        T => Ok(collected(x.as_slice::<T>()?.iter().map(|&x| Number::to_f64(x) as i64))?),
        else => Err(OpError::Unsupported { what: "an index that is not a number" }))
}

fn depth(x: TensorView<'_>) -> Result<usize, OpError> {
    let depth = truncated(x)?.first().and_then(|&depth| usize::try_from(depth).ok());
    let what = "the depth is not one number from 0 up";
    depth.filter(|_| x.len() == 1).ok_or(OpError::InputValue { index: 1, what })
}

impl Operator for OneHot {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        (0..2).try_for_each(|i| inputs.dtype(i, DType::is_number).map(drop))?;
        let dtype = inputs.dtype(2, DType::is_any)?;
        let depth = match &inputs.fact(1)?.constant {
            Some(constant) => Dim::Known(depth(constant.view())?),
            None => Dim::Unknown,
        };
        let Some(indices) = inputs.fact(0)?.dims() else {
            return Ok(vec![tensor_fact(dtype, None)]);
        };
        let mut dims: Dims = indices.into();
        dims.insert(normalize_axis(self.axis, indices.len() + 1)?, depth);
        Ok(folded(self, inputs, vec![Fact::tensor(dtype, dims)]))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (indices, values) = (inputs.tensor(0)?, inputs.tensor(2)?);
        if values.len() != 2 {
            return Err(OpError::InputValue { index: 2, what: "there are not two values" });
        }
        let depth = depth(inputs.tensor(1)?)?;
        let axis = normalize_axis(self.axis, indices.shape().len() + 1)?;
        let mut shape = Shape::from_slice(indices.shape());
        shape.insert(axis, depth);
        let inner = n_elements(&shape[axis + 1..]).ok_or(OpError::TooLarge)?;
        let indices = truncated(indices)?;
        let y = outputs[0].tensor(values.dtype(), &shape)?;
        Ok(move_elements!(values => y, |src, dst| self.fill(src, &indices, (depth, inner), dst))?)
    }
}

impl OneHot {
    /// Fills `y: [outer, depth, inner]` from `indices: [outer, inner]`.
    fn fill<T: Clone>(
        self,
        values: &[T],
        indices: &[i64],
        (depth, inner): (usize, usize),
        y: &mut [T],
    ) -> Result<(), TensorError> {
        for y in y.chunks_mut(Pace::STEP) {
            go_on()?;
            y.fill(values[0].clone());
        }
        let mut pace = Pace::new();
        for (i, &index) in indices.iter().enumerate() {
            pace.go(1)?;
            if let Some(d) = self.position(index, depth) {
                y[(i / inner * depth + d) * inner + i % inner].clone_from(&values[1]);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    #[test]
    fn each_index_is_on_in_one_place() {
        let indices = tensor(&[3], &[1_i64, -1, 5]);
        let values = tensor(&[2], &[0_u8, 9]);
        let inputs = [indices, Tensor::scalar(3_i32), values.clone()];
        let y = Case::new("OneHot", 11).tensor(&inputs);
        assert_eq!(y, Ok(tensor(&[3, 3], &[0_u8, 9, 0, 0, 0, 9, 0, 0, 0])));
        let y = Case::new("OneHot", 9).tensor(&inputs);
        assert_eq!(y, Ok(tensor(&[3, 3], &[0_u8, 9, 0, 0, 0, 0, 0, 0, 0])));
        let y = Case::new("OneHot", 28).attr("axis", Attr::Int(0)).tensor(&inputs);
        assert_eq!(y, Ok(tensor(&[3, 3], &[0_u8, 0, 0, 9, 0, 0, 0, 9, 0])));
        let floats = [Tensor::scalar(1.9_f32), tensor(&[1], &[2.5_f32]), values.clone()];
        assert_eq!(Case::new("OneHot", 11).tensor(&floats), Ok(tensor(&[2], &[0_u8, 9])));
        let empty = [tensor::<i64>(&[2, 0], &[]), Tensor::scalar(0_i64), values.clone()];
        assert_eq!(Case::new("OneHot", 11).tensor(&empty), Ok(tensor::<u8>(&[2, 0, 0], &[])));
        let negative = [Tensor::scalar(1_i64), Tensor::scalar(-1_i64), values];
        assert!(Case::new("OneHot", 11).tensor(&negative).is_err());
    }
}
