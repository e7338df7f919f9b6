//! ArgMax and ArgMin: the index of the largest or smallest element along an axis.

// collects are bounded: into checked allocations

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output, Pace, Shape, TensorError, with_dtype, with_room};

use crate::infer::{Axes, normalize_axis, reduced_fact};
use crate::lanes::Lanes;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "ArgMax",
        versions: (1, 13),
        types: DType::is_number,
        build: |spec| ArgMax::build(spec, true),
    },
    OpDef {
        domain: "",
        name: "ArgMin",
        versions: (1, 13),
        types: DType::is_number,
        build: |spec| ArgMax::build(spec, false),
    },
];

/// ArgMax: `y = argmax x` along `axis`, as int64, on any number type; or ArgMin. A NaN counts as
/// the largest and as the smallest value.
///
/// Source: ONNX operator set, ArgMax-13 and ArgMin-13.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgMax {
    /// The largest; else the smallest.
    pub is_max: bool,
    /// The axis, negative from the back.
    pub axis: i64,
    /// Whether the axis stays, as 1.
    pub keeps_dims: bool,
    /// Whether the last of equal elements is selected; else the first.
    pub selects_last: bool,
}

impl ArgMax {
    fn build(spec: &NodeSpec<'_>, is_max: bool) -> Result<Arc<dyn Operator>, OpError> {
        let axis = spec.int("axis")?.unwrap_or(0);
        let keeps_dims = spec.flag("keepdims", true)?;
        let selects_last = spec.since_version >= 12 && spec.flag("select_last_index", false)?;
        Ok(Arc::new(Self { is_max, axis, keeps_dims, selects_last }))
    }

    /// The axis of a tensor of shape `x`, and the shape of the result.
    ///
    /// # Errors
    /// If there is no such axis.
    pub fn reduced(&self, x: &[usize]) -> Result<(usize, Shape), OpError> {
        let axis = normalize_axis(self.axis, x.len())?;
        let mut shape = Shape::from_slice(x);
        if self.keeps_dims {
            shape[axis] = 1;
        } else {
            shape.remove(axis);
        }
        Ok((axis, shape))
    }

    fn search<T: Number>(&self, lanes: Lanes, x: &[T], y: &mut [i64]) -> Result<(), TensorError> {
        let is_nan = |x: T| x.partial_cmp(&x).is_none();
        match (self.is_max, self.selects_last) {
            (true, false) => {
                search(lanes, x, y, |x, best| x > best || (is_nan(x) && !is_nan(best)))
            }
            (false, false) => {
                search(lanes, x, y, |x, best| x < best || (is_nan(x) && !is_nan(best)))
            }
            (true, true) => search(lanes, x, y, |x, best| x >= best || is_nan(x)),
            (false, true) => search(lanes, x, y, |x, best| x <= best || is_nan(x)),
        }
    }
}

impl Operator for ArgMax {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, DType::is_number)?;
        let axes = [self.axis];
        Ok(vec![reduced_fact(inputs.fact(0)?, DType::I64, Axes::These(&axes), self.keeps_dims)?])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let (axis, shape) = self.reduced(x.shape())?;
        let y = outputs[0].tensor(DType::I64, &shape)?.into_slice::<i64>()?;
        if x.is_empty() && !y.is_empty() {
            return Err(OpError::InputValue {
                index: 0,
                what: "an empty axis has no largest element",
            });
        }
        let lanes = Lanes::along(x.shape(), axis);
        with_dtype!(x.dtype(), number, T => self.search::<T>(lanes, x.as_slice()?, y)?,
            else => return Err(OpError::Unsupported { what: "an order of this element type" }));
        Ok(())
    }
}

/// Writes for each lane the last index at which `is_better` than the best before it.
fn search<T: Number>(
    lanes: Lanes,
    x: &[T],
    y: &mut [i64],
    is_better: impl Fn(T, T) -> bool,
) -> Result<(), TensorError> {
    let Some(block) = lanes.len.checked_mul(lanes.inner).filter(|&block| block > 0) else {
        return Ok(());
    };
    let (mut best, mut pace) = (with_room(lanes.inner)?, Pace::new());
    for (x, y) in x.chunks_exact(block).zip(y.chunks_exact_mut(lanes.inner)) {
        // Interleaved lanes: each row has one element of every lane.
        let (first, rows) = x.split_at(lanes.inner);
        best.clear();
        best.extend_from_slice(first);
        y.fill(0);
        for (row, index) in rows.chunks_exact(lanes.inner).zip(1_i64..) {
            pace.go(lanes.inner)?;
            for ((best, y), &x) in best.iter_mut().zip(&mut *y).zip(row) {
                if is_better(x, *best) {
                    (*best, *y) = (x, index);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Element, Tensor, bf16, f16};

    use crate::case::{Case, tensor};

    fn along<T: Element>(name: &'static str, axis: i64, shape: &[usize], x: &[T]) -> Tensor {
        let case = Case::new(name, 13).attr("axis", Attr::Int(axis));
        case.attr("keepdims", Attr::Int(0)).tensor(&[tensor(shape, x)]).unwrap()
    }

    #[test]
    fn each_lane_gives_one_index() {
        let x = [2_i32, 1, 2, 3, 10, 3];
        let cases: [(_, _, &[i64]); 4] = [
            ("ArgMax", 1, &[0, 1]),
            ("ArgMin", -1, &[1, 0]),
            ("ArgMax", 0, &[1, 1, 1]),
            ("ArgMin", -2, &[0, 0, 0]),
        ];
        for (name, axis, expected) in cases {
            let expected = tensor(&[expected.len()], expected);
            assert_eq!(along(name, axis, &[2, 3], &x), expected, "{name} along {axis}");
        }
        let kept = Case::new("ArgMax", 1).tensor(&[tensor(&[2, 3], &x)]);
        assert_eq!(kept, Ok(tensor(&[1, 3], &[1_i64, 1, 1])));
    }

    #[test]
    fn of_equal_elements_the_first_unless_the_last_is_asked_for() {
        let x = tensor(&[4], &[1_f32, 5.0, 5.0, 1.0]);
        for (name, last, expected) in
            [("ArgMax", 0, 1_i64), ("ArgMax", 1, 2), ("ArgMin", 0, 0), ("ArgMin", 1, 3)]
        {
            let case = Case::new(name, 12).attr("select_last_index", Attr::Int(last));
            assert_eq!(case.tensor(std::slice::from_ref(&x)), Ok(tensor(&[1], &[expected])));
        }
    }

    #[test]
    fn a_nan_is_found_and_zeros_are_equal() {
        for name in ["ArgMax", "ArgMin"] {
            let x = [1_f32, f32::NAN, f32::INFINITY, f32::NAN, f32::NEG_INFINITY];
            assert_eq!(along(name, 0, &[5], &x), Tensor::scalar(1_i64));
            assert_eq!(along(name, 0, &[2], &[0.0_f64, -0.0]), Tensor::scalar(0_i64));
            assert_eq!(along(name, 0, &[2], &[f16::ONE; 2]), Tensor::scalar(0_i64));
            assert_eq!(along(name, 0, &[2], &[bf16::ONE; 2]), Tensor::scalar(0_i64));
        }
        assert_eq!(along("ArgMax", 0, &[2], &[1_u64, u64::MAX]), Tensor::scalar(1_i64));
    }

    #[test]
    fn nothing_has_no_largest_element() {
        let case = Case::new("ArgMax", 13);
        assert!(case.tensor(&[tensor::<f32>(&[0, 2], &[])]).is_err());
        assert_eq!(case.tensor(&[tensor::<f32>(&[2, 0], &[])]), Ok(tensor::<i64>(&[1, 0], &[])));
        assert!(case.tensor(&[Tensor::scalar(1_f32)]).is_err());
    }
}
