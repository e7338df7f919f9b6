//! UnfoldTensor: the windows of an axis.

use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Shape, row_major_strides};

use crate::infer::normalize_axis;
use crate::strided::{self, Strided};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "UnfoldTensor",
    versions: (1, 1),
    types: DType::is_any,
    build: UnfoldTensor::build,
}];

/// UnfoldTensor: `y[a…, w, b…, i] = x[a…, w·step + i, b…]` for the `(n − size) / step + 1` windows
/// of `size` elements of axis `dim`, which has `n`. Any element type.
///
/// Source: com.microsoft, UnfoldTensor-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnfoldTensor {
    /// The axis, `−rank..rank`.
    pub dim: i64,
    /// The length of a window, at least 1.
    pub size: usize,
    /// From one window to the next, at least 1.
    pub step: usize,
}

impl UnfoldTensor {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let positive = |name, n: i64| {
            let found = usize::try_from(n).ok().filter(|&n| n > 0);
            found.ok_or_else(|| OpError::AttributeValue { name, found: n.to_string() })
        };
        let size = spec.int("size")?.ok_or(OpError::MissingAttribute { name: "size" })?;
        Ok(Arc::new(Self {
            dim: spec.int("dim")?.unwrap_or(-1),
            size: positive("size", size)?,
            step: positive("step", spec.int("step")?.unwrap_or(1))?,
        }))
    }

    /// How many windows `n` elements have.
    fn n_windows(self, n: usize) -> Result<usize, OpError> {
        let longer = OpError::Index { what: "a window", index: i64::MAX, len: n };
        Ok(n.checked_sub(self.size).ok_or(longer)? / self.step + 1)
    }
}

impl Operator for UnfoldTensor {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_any)?;
        let Some(x) = inputs.fact(0)?.dims() else { return Ok(vec![Fact::unranked(dtype)]) };
        let mut dims: Dims = x.into();
        let dim = &mut dims[normalize_axis(self.dim, x.len())?];
        *dim = match dim {
            Dim::Known(n) => Dim::Known(self.n_windows(*n)?),
            _ => Dim::Unknown,
        };
        Ok(vec![Fact::tensor(dtype, dims.into_iter().chain([Dim::Known(self.size)]))])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let axis = normalize_axis(self.dim, x.shape().len())?;
        let (mut shape, mut strides) = (Shape::from_slice(x.shape()), row_major_strides(x.shape()));
        shape[axis] = self.n_windows(shape[axis])?;
        shape.push(self.size);
        let stride = strides[axis];
        // A step beyond the axis is never taken.
        strides[axis] = stride.wrapping_mul(self.step);
        strides.push(stride);
        let y = outputs[0].tensor(x.dtype(), &shape)?;
        let (from, to) = (Strided::new(0, &strides), Strided::row_major(&shape));
        Ok(strided::copy(&shape, x, &from, y, &to)?)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use super::*;
    use crate::case::{Case, tensor};

    fn unfold(dim: i64, size: i64, step: i64, x: Tensor) -> Option<Tensor> {
        let case = Case::new("UnfoldTensor", 1)
            .domain("com.microsoft")
            .attr("dim", Attr::Int(dim))
            .attr("size", Attr::Int(size))
            .attr("step", Attr::Int(step));
        case.tensor(&[x]).ok()
    }

    #[test]
    fn windows_may_overlap_or_leave_gaps() {
        let x = || tensor(&[5], &[0_i16, 1, 2, 3, 4]);
        let y = tensor(&[4, 2], &[0_i16, 1, 1, 2, 2, 3, 3, 4]);
        assert_eq!(unfold(-1, 2, 1, x()), Some(y));
        assert_eq!(unfold(0, 1, 3, x()), Some(tensor(&[2, 1], &[0_i16, 3])));
        assert_eq!(unfold(0, 4, i64::MAX, x()), Some(tensor(&[1, 4], &[0_i16, 1, 2, 3])));
        for (dim, size, step) in [(0, 6, 1), (0, 0, 1), (0, 1, 0), (1, 1, 1), (0, i64::MAX, 1)] {
            assert_eq!(unfold(dim, size, step, x()), None, "{size} by {step}");
        }
    }

    #[test]
    fn windows_of_any_axis_and_type_come_last() {
        let x = tensor(&[3, 2], &[0_u8, 1, 2, 3, 4, 5]);
        let y = tensor(&[2, 2, 2], &[0_u8, 2, 1, 3, 2, 4, 3, 5]);
        assert_eq!(unfold(-2, 2, 1, x), Some(y));
        for &dtype in DType::ALL {
            let zeros = |shape: &[usize]| Tensor::zeros(dtype, shape).unwrap();
            assert_eq!(unfold(1, 2, 1, zeros(&[0, 3])), Some(zeros(&[0, 2, 2])));
            assert_eq!(unfold(0, 3, 1, zeros(&[3])), Some(zeros(&[1, 3])));
        }
    }
}
