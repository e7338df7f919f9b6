//! SplitToSequence: parts of a tensor along an axis, as a sequence.

use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{
    DType, Inputs, Output, Pace, Room, Shape, Tensor, TensorView, Value, charge, collected, filled,
    try_collected,
};

use crate::infer::{int_values, normalize_axis};
use crate::ops::sequence::sequence_of;
use crate::ops::split::take;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "SplitToSequence",
    versions: (11, 24),
    types: DType::is_any,
    build: SplitToSequence::build,
}];

/// SplitToSequence: the parts of `axis` whose lengths input 1 lists, or parts of one length (the
/// last may be shorter) if it is a scalar. Without it the parts are single entries, and lose the
/// axis unless `keep_dims`.
///
/// Source: ONNX operator set, SplitToSequence-24.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitToSequence {
    /// The axis, `−rank..rank`.
    pub axis: i64,
    /// Whether single entries keep the axis.
    pub keep_dims: bool,
}

impl SplitToSequence {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let axis = spec.int("axis")?.unwrap_or(0);
        let keep_dims = spec.flag("keepdims", true)? || spec.has_input(1);
        Ok(Arc::new(Self { axis, keep_dims }))
    }
}

/// The lengths of the parts of a dimension.
fn lengths(dim: usize, split: Option<TensorView<'_>>) -> Result<Vec<usize>, OpError> {
    let wrong = |what| OpError::InputValue { index: 1, what };
    let Some(split) = split else { return Ok(filled(1, dim)?) };
    let below_zero = |_| wrong("a length is below zero");
    let values = int_values(split)?.into_iter().map(|n| n.try_into().map_err(below_zero));
    let values: Vec<usize> = try_collected(values)?;
    match (split.shape(), &values[..]) {
        ([], [0]) => Err(wrong("the length of each part is zero")),
        ([], &[n]) => Ok(collected((0..dim).step_by(n).map(|start| n.min(dim - start)))?),
        ([_], values) => {
            let sum = values.iter().try_fold(0_usize, |sum, &n| sum.checked_add(n));
            let wrong = wrong("the lengths do not sum to the dimension");
            if sum == Some(dim) { Ok(collected(values.iter().copied())?) } else { Err(wrong) }
        }
        (shape, _) => Err(OpError::InputRank { index: 1, expected: "0 or 1", found: shape.len() }),
    }
}

/// What a part takes in addition to its elements, in bytes, and costs in addition to copying them.
const MIN_PART: usize = 256;

impl Operator for SplitToSequence {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_any)?;
        if inputs.get(1).is_some() {
            inputs.dtype(1, DType::is_index)?;
        }
        let Some(dims) = inputs.fact(0)?.dims() else {
            return Ok(vec![sequence_of(Fact::unranked(dtype).ty)]);
        };
        let mut dims: Dims = dims.into();
        let axis = normalize_axis(self.axis, dims.len())?;
        if !self.keep_dims {
            dims.remove(axis);
        } else if inputs.get(1).is_none() {
            dims[axis] = Dim::Known(1);
        } else {
            dims[axis] = Dim::Unknown;
        }
        Ok(vec![sequence_of(Fact::tensor(dtype, dims).ty)])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let axis = normalize_axis(self.axis, x.shape().len())?;
        let (mut parts, mut pace) = (Room::new(), Pace::new());
        let mut start = 0;
        for length in lengths(x.shape()[axis], inputs.optional_tensor(1)?)? {
            pace.go(MIN_PART)?;
            charge(MIN_PART)?;
            parts.push(Value::Tensor(self.part(x, axis, start..start + length)?))?;
            start += length;
        }
        Ok(outputs[0].set(Value::Sequence(parts.into_vec()))?)
    }
}

impl SplitToSequence {
    fn part(
        self,
        x: TensorView<'_>,
        axis: usize,
        range: std::ops::Range<usize>,
    ) -> Result<Tensor, OpError> {
        let mut shape = Shape::from_slice(x.shape());
        shape[axis] = range.len();
        let mut part = Tensor::zeros(x.dtype(), &shape)?;
        take(x, axis, range, &mut Output::planned(part.view_mut()))?;
        if self.keep_dims {
            return Ok(part);
        }
        shape.remove(axis);
        Ok(part.reshaped(&shape)?)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use super::*;
    use crate::case::{Case, tensor};

    fn split(case: &Case, split: Option<Tensor>) -> Option<Vec<Tensor>> {
        let x = tensor(&[2, 3], &[1_i8, 2, 3, 4, 5, 6]);
        let values = case.run_optional(&[Some(x), split]).ok()?;
        let parts = values[0].view().sequence().unwrap();
        Some(parts.iter().map(|part| part.as_tensor().unwrap().clone()).collect())
    }

    #[test]
    fn parts_are_listed_equal_or_single() {
        let columns = Case::new("SplitToSequence", 11).attr("axis", Attr::Int(-1));
        let column = |shape: &[usize], data: [i8; 2]| tensor(shape, &data);
        let wide = tensor(&[2, 2], &[1_i8, 2, 4, 5]);
        let expected = vec![wide.clone(), column(&[2, 1], [3, 6])];
        assert_eq!(split(&columns, Some(Tensor::scalar(2_i64))), Some(expected.clone()));
        assert_eq!(split(&columns, Some(tensor(&[2], &[2_i32, 1]))), Some(expected));
        let rows = Case::new("SplitToSequence", 24);
        let row = |shape: &[usize], n: i8| tensor(shape, &[n, n + 1, n + 2]);
        assert_eq!(split(&rows, None), Some(vec![row(&[1, 3], 1), row(&[1, 3], 4)]));
        let flat = rows.attr("keepdims", Attr::Int(0));
        assert_eq!(split(&flat, None), Some(vec![row(&[3], 1), row(&[3], 4)]));
        for wrong in [Tensor::scalar(0_i64), Tensor::scalar(-1_i64), tensor(&[1], &[2_i64])] {
            assert_eq!(split(&columns, Some(wrong)), None);
        }
    }
}
