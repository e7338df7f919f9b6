//! GatherElements: one element for each index.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Pace, TensorView, move_elements, row_major_strides};

use crate::infer::{folded, normalize_axis, tensor_fact};
use crate::offsets::Offsets;
use crate::ops::gather::normalize_index;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "GatherElements",
    versions: (11, 13),
    types: DType::is_any,
    build: GatherElements::build,
}];

/// GatherElements: `y[a…, i, b…] = x[a…, indices[a…, i, b…], b…]`. Indices below zero count from
/// the back; along the other axes `indices` may be shorter than `x`.
///
/// Source: ONNX operator set, GatherElements-13.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatherElements {
    /// The axis, `−rank..rank`.
    pub axis: i64,
}

impl GatherElements {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Self { axis: spec.int("axis")?.unwrap_or(0) }))
    }
}

/// Elements whose positions are computed at once, which fit the L1 cache.
const BLOCK: usize = 1 << 10;

/// Calls `each(first, positions)` for blocks of `indices`, in order: the positions in a tensor of shape `x` that
/// indices `first..` along `axis` select.
///
/// # Errors
/// If an axis of `indices` other than `axis` is longer than that of `x`, the ranks differ, or an index
/// is out of range; `each` was called with the blocks before.
pub(crate) fn index_positions(
    x: &[usize],
    indices: TensorView<'_>,
    axis: usize,
    each: impl FnMut(usize, &[usize]) -> Result<(), OpError>,
) -> Result<(), OpError> {
    let fits = |(i, (n, dim)): (usize, (&usize, &usize))| i == axis || n <= dim;
    if x.len() != indices.shape().len() || !indices.shape().iter().zip(x).enumerate().all(fits) {
        let (left, right) = (indices.shape().to_vec(), x.to_vec());
        return Err(OpError::Shapes { what: "the indices", left, right });
    }
    let lines = Lines { x, shape: indices.shape(), axis };
    match indices.dtype() {
        DType::I32 => lines.positions(indices.as_slice::<i32>()?, each),
        _ => lines.positions(indices.as_slice::<i64>()?, each),
    }
}

/// Indices line by line, along their last axis.
struct Lines<'a> {
    x: &'a [usize],
    shape: &'a [usize],
    axis: usize,
}

impl Lines<'_> {
    fn positions<I: Copy + Into<i64>>(
        &self,
        indices: &[I],
        mut each: impl FnMut(usize, &[usize]) -> Result<(), OpError>,
    ) -> Result<(), OpError> {
        let mut strides = row_major_strides(self.x);
        let step = std::mem::replace(&mut strides[self.axis], 0);
        let last = self.shape.len() - 1;
        let (n, stride, dim) = (self.shape[last], strides[last], self.x[self.axis]);
        // bounded: a constant
        let mut positions = Vec::with_capacity(2 * BLOCK);
        let (mut first, mut pace) = (0, Pace::new());
        let origins = Offsets::new(&self.shape[..last], &strides[..last]);
        for (origin, line) in origins.zip(indices.chunks_exact(n.max(1))) {
            for (piece, at) in line.chunks(BLOCK).zip((0..).step_by(BLOCK)) {
                for (j, &index) in piece.iter().enumerate() {
                    let index = normalize_index("indices", index.into(), dim)?;
                    positions.push(origin + (at + j) * stride + index * step);
                }
                if positions.len() >= BLOCK {
                    pace.go(positions.len())?;
                    each(first, &positions)?;
                    first += positions.len();
                    positions.clear();
                }
            }
        }
        each(first, &positions)
    }
}

/// What [`index_positions`] can check of possibly unknown dimensions.
pub(crate) fn check_indices(x: &[Dim], indices: &[Dim], axis: i64) -> Result<(), OpError> {
    let axis = normalize_axis(axis, x.len())?;
    let too_long = |(i, (n, dim)): (usize, (&Dim, &Dim))| {
        i != axis && n.known().zip(dim.known()).is_some_and(|(n, dim)| n > dim)
    };
    if x.len() == indices.len() && !indices.iter().zip(x).enumerate().any(too_long) {
        return Ok(());
    }
    let known = |dims: &[Dim]| dims.iter().map(|dim| dim.known().unwrap_or(0)).collect();
    Err(OpError::Shapes { what: "the indices", left: known(indices), right: known(x) })
}

impl Operator for GatherElements {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_any)?;
        inputs.dtype(1, DType::is_index)?;
        let (x, indices) = (inputs.fact(0)?.dims(), inputs.fact(1)?.dims());
        if let (Some(x), Some(indices)) = (x, indices) {
            check_indices(x, indices, self.axis)?;
        }
        Ok(folded(self, inputs, vec![tensor_fact(dtype, indices.map(Into::into))]))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (x, indices) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let axis = normalize_axis(self.axis, x.shape().len())?;
        let y = outputs[0].tensor(x.dtype(), indices.shape())?;
        let mut result = Ok(());
        move_elements!(x => y, |src, dst| {
            result = index_positions(x.shape(), indices, axis, |first, positions| {
                for (to, &at) in dst[first..].iter_mut().zip(positions) {
                    to.clone_from(&src[at]);
                }
                Ok(())
            });
        })?;
        result
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, tensor};

    #[test]
    fn every_index_picks_an_element() {
        let x = tensor(&[3, 3], &[1_i16, 2, 3, 4, 5, 6, 7, 8, 9]);
        let indices = tensor(&[2, 3], &[1_i64, 2, 0, -1, 0, 0]);
        let case = |axis| Case::new("GatherElements", 13).attr("axis", Attr::Int(axis));
        let rows = tensor(&[2, 3], &[4_i16, 8, 3, 7, 2, 3]);
        assert_eq!(case(0).tensor(&[x.clone(), indices.clone()]), Ok(rows));
        let columns = tensor(&[2, 3], &[2_i16, 3, 1, 6, 4, 4]);
        assert_eq!(case(-1).tensor(&[x.clone(), indices.clone()]), Ok(columns));
        let empty = tensor::<i32>(&[0, 3], &[]);
        assert_eq!(case(0).tensor(&[x.clone(), empty]), Ok(tensor::<i16>(&[0, 3], &[])));
        assert!(case(0).tensor(&[x.clone(), tensor(&[1, 4], &[0_i64; 4])]).is_err());
        assert!(case(0).tensor(&[x, tensor(&[1, 1], &[3_i64])]).is_err());
    }
}
