//! TopK: the largest or smallest elements along an axis, and where they are.

use std::cmp::Ordering;
use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{
    DType, Inputs, Output, Room, Shape, TensorError, TensorView, filled, n_elements, with_dtype,
};

use crate::infer::{int_values, normalize_axis};
use crate::lanes::Lanes;
use crate::order::{Sortable, first};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "TopK",
    versions: (1, 24),
    types: DType::is_number,
    build: TopK::build,
}];

/// TopK: the `k` largest (or smallest) elements of each lane along `axis`, and their indices
/// (int64). `k` is input 1, an attribute before version 10. Of equal elements the first comes
/// first; NaN is larger than every number. The elements are sorted, whatever `sorted` says.
///
/// Source: ONNX operator set, TopK-24.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopK {
    /// The axis, `−rank..rank`.
    pub axis: i64,
    /// How many, if it is an attribute.
    pub k: Option<i64>,
    /// Whether the largest are selected.
    pub is_largest: bool,
}

impl TopK {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let axis = spec.int("axis")?.unwrap_or(-1);
        let k = if spec.since_version < 10 {
            Some(spec.int("k")?.ok_or(OpError::MissingAttribute { name: "k" })?)
        } else {
            None
        };
        let has_flags = spec.since_version >= 11;
        let is_largest = !has_flags || spec.flag("largest", true)?;
        if has_flags {
            // Sorted elements are also valid for a node that requires no order.
            spec.flag("sorted", true)?;
        }
        Ok(Arc::new(Self { axis, k, is_largest }))
    }

    /// The indices of the `k` first elements of a lane, best first.
    fn best<T: Sortable>(self, lane: &[T], k: usize) -> Result<Room<usize>, TensorError> {
        let rank = |&a: &usize, &b: &usize| -> Ordering {
            let order = lane[a].order(&lane[b]);
            if self.is_largest { order.reverse() } else { order }.then(a.cmp(&b))
        };
        first(Room::of(0..lane.len())?, k, &rank)
    }

    /// Elements and indices of `[outer, k, inner]`.
    fn select<T: Sortable + Copy + Default>(
        self,
        x: &[T],
        lanes: Lanes,
        k: usize,
    ) -> Result<(Vec<T>, Vec<i64>), OpError> {
        let Lanes { outer, len, inner } = lanes;
        let n = n_elements(&[outer, k, inner]).ok_or(OpError::TooLarge)?;
        let (mut values, mut indices) = (filled(T::default(), n)?, filled(0, n)?);
        if n == 0 {
            // Whatever the length of the lanes.
            return Ok((values, indices));
        }
        let mut lane = filled(T::default(), len)?;
        for block in 0..outer {
            for i in 0..inner {
                let from = x[block * len * inner + i..].iter().step_by(inner);
                lane.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
                for (j, at) in self.best(&lane, k)?.into_iter().enumerate() {
                    let to = (block * k + j) * inner + i;
                    (values[to], indices[to]) = (lane[at], i64::try_from(at).unwrap_or(i64::MAX));
                }
            }
        }
        Ok((values, indices))
    }
}

/// The count in a tensor of one element.
fn count(k: &[i64]) -> Result<usize, OpError> {
    let wrong = OpError::InputValue { index: 1, what: "the count is not one integer from 0 up" };
    match k {
        [k] => usize::try_from(*k).map_err(|_| wrong),
        _ => Err(wrong),
    }
}

fn check(k: usize, dim: usize) -> Result<(), OpError> {
    let (left, right) = (vec![k], vec![dim]);
    if k <= dim {
        Ok(())
    } else {
        Err(OpError::Shapes { what: "the count and the axis", left, right })
    }
}

impl Operator for TopK {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_number)?;
        let k = match self.k {
            Some(k) => Some(count(&[k])?),
            None => {
                inputs.fact(1)?;
                inputs.expect_dtype(1, DType::I64)?;
                inputs.fact(1)?.ints().map(|k| count(&k)).transpose()?
            }
        };
        let Some(x) = inputs.fact(0)?.dims() else {
            return Ok(vec![Fact::unranked(dtype), Fact::unranked(DType::I64)]);
        };
        let axis = normalize_axis(self.axis, x.len())?;
        if let (Some(k), Some(dim)) = (k, x[axis].known()) {
            check(k, dim)?;
        }
        let mut dims: Dims = x.into();
        dims[axis] = k.map_or(Dim::Unknown, Dim::Known);
        Ok(vec![Fact::tensor(dtype, dims.clone()), Fact::tensor(DType::I64, dims)])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x: TensorView<'_> = inputs.tensor(0)?;
        let axis = normalize_axis(self.axis, x.shape().len())?;
        let k = match self.k {
            Some(k) => count(&[k])?,
            None => count(&int_values(inputs.tensor(1)?)?)?,
        };
        check(k, x.shape()[axis])?;
        let mut shape = Shape::from_slice(x.shape());
        shape[axis] = k;
        let lanes = Lanes::along(x.shape(), axis);
        with_dtype!(x.dtype(), number, T => {
            let (values, indices) = self.select(x.as_slice::<T>()?, lanes, k)?;
            write(outputs, 0, &shape, &values)?;
            write(outputs, 1, &shape, &indices)
        }, else => Err(OpError::Unsupported { what: "TopK of this element type" }))
    }
}

/// Writes the elements to the output at `index`, if it is present and used.
fn write<T: ort_tensor::Element>(
    outputs: &mut [Output<'_>],
    index: usize,
    shape: &[usize],
    values: &[T],
) -> Result<(), OpError> {
    if let Some(output) = outputs.get_mut(index).filter(|output| output.is_wanted()) {
        output.tensor(T::DTYPE, shape)?.into_slice::<T>()?.copy_from_slice(values);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, Value};

    use crate::case::{Case, tensor};

    fn top(case: Case, x: Tensor, k: i64) -> Result<[Tensor; 2], String> {
        let values = case.outputs(2).run(&[x, tensor(&[1], &[k])])?;
        Ok([0, 1].map(|i: usize| values[i].as_tensor().unwrap().clone()))
    }

    #[test]
    fn the_first_of_equals_comes_first() {
        let x = tensor(&[5], &[3_i32, 1, 3, 2, 1]);
        let case = || Case::new("TopK", 24);
        let largest = [tensor(&[3], &[3_i32, 3, 2]), tensor(&[3], &[0_i64, 2, 3])];
        assert_eq!(top(case(), x.clone(), 3), Ok(largest));
        let smallest = [tensor(&[2], &[1_i32, 1]), tensor(&[2], &[1_i64, 4])];
        assert_eq!(top(case().attr("largest", Attr::Int(0)), x.clone(), 2), Ok(smallest));
        let none = [tensor::<i32>(&[0], &[]), tensor::<i64>(&[0], &[])];
        assert_eq!(top(case(), x.clone(), 0), Ok(none));
        assert!(top(case(), x.clone(), 6).is_err() && top(case(), x, -1).is_err());
        assert!(top(case(), Tensor::scalar(1_i32), 1).is_err());
        let none = [tensor::<i32>(&[1, 0, 2], &[]), tensor::<i64>(&[1, 0, 2], &[])];
        let middle = case().attr("axis", Attr::Int(1));
        assert_eq!(top(middle, none[0].clone(), 0), Ok(none));
    }

    #[test]
    fn lanes_run_along_the_axis() {
        let x = tensor(&[2, 2, 2], &[1_f32, 2.0, 3.0, f32::NAN, 5.0, 6.0, 4.0, 0.0]);
        let [values, indices] =
            top(Case::new("TopK", 10).attr("axis", Attr::Int(1)), x, 1).unwrap();
        let values = values.as_slice::<f32>().unwrap();
        assert_eq!([values[0], values[2], values[3]], [3.0, 5.0, 6.0]);
        assert!(values[1].is_nan(), "NaN is larger than every number");
        assert_eq!(indices, tensor(&[2, 1, 2], &[1_i64, 1, 0, 0]));
    }

    #[test]
    fn the_count_was_an_attribute_once() {
        let case = Case::new("TopK", 1).attr("k", Attr::Int(1)).outputs(2);
        let values = case.run(&[tensor(&[2], &[1_f64, 2.0])]);
        let expected = [Value::Tensor(tensor(&[1], &[2_f64])), tensor(&[1], &[1_i64]).into()];
        assert_eq!(values, Ok(expected.to_vec()));
    }
}
