//! GatherND: slices of a tensor, selected by tuples of indices.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{
    DType, Inputs, Output, Pace, TensorView, move_elements, n_elements, row_major_strides,
    try_collected,
};

use crate::infer::{folded, int_values, known_dims, known_shape, tensor_fact};
use crate::ops::gather::normalize_index;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "GatherND",
        versions: (11, 13),
        types: DType::is_any,
        build: GatherNd::build,
    },
    OpDef {
        domain: "com.microsoft",
        name: "GatherND",
        versions: (1, 1),
        types: DType::is_any,
        build: GatherNd::build,
    },
];

/// GatherND: `y[b…, i…, :] = x[b…, indices[b…, i…, 0], …, indices[b…, i…, k − 1], :]`, where the
/// first `batch_dims` dimensions `b` are common. Indices below zero count from the back.
///
/// Source: ONNX operator set, GatherND-13; com.microsoft, GatherND-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatherNd {
    /// How many leading dimensions are common.
    pub batch_dims: usize,
}

impl GatherNd {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let has_batches = spec.since_version >= 12;
        let batch_dims = if has_batches { spec.int("batch_dims")? } else { None }.unwrap_or(0);
        let wrong =
            |_| OpError::AttributeValue { name: "batch_dims", found: batch_dims.to_string() };
        Ok(Arc::new(Self { batch_dims: usize::try_from(batch_dims).map_err(wrong)? }))
    }

    /// The dimensions of the output; `None` if the length of the tuples is not known.
    fn dims(self, x: &[Dim], indices: &[Dim]) -> Result<Option<Dims>, OpError> {
        let b = self.batch_dims;
        let known = |dims: &[Dim]| dims.iter().map(|dim| dim.known().unwrap_or(0)).collect();
        let misfit = || {
            let (left, right) = (known(x), known(indices));
            OpError::Shapes { what: "tuples of indices", left, right }
        };
        let Some((k, outer)) = indices.split_last() else { return Err(misfit()) };
        if b > outer.len() || b > x.len() {
            return Err(misfit());
        }
        let batches: Option<Dims> = x[..b].iter().zip(outer).map(|(x, i)| x.unify(i)).collect();
        let batches = batches.ok_or_else(misfit)?;
        let Some(k) = k.known() else { return Ok(None) };
        let rest = x.get(b..).and_then(|x| x.get(k..)).ok_or_else(misfit)?;
        Ok(Some(batches.iter().chain(&outer[b..]).chain(rest).cloned().collect()))
    }
}

/// The offset of each tuple of indices: tuples of the last dimension of `indices`, into the
/// dimensions `x[batch_dims..]`, one group of tuples for each batch.
///
/// # Errors
/// If an index is out of range, or the shapes do not fit.
pub(crate) fn tuple_offsets(
    x: &[usize],
    indices: TensorView<'_>,
    batch_dims: usize,
) -> Result<Vec<usize>, OpError> {
    let k = indices.shape().last().copied().unwrap_or(0);
    let strides = row_major_strides(x);
    let axes: Vec<(usize, usize)> =
        x.iter().copied().zip(strides.iter().copied()).skip(batch_dims).take(k).collect();
    let n_batches = n_elements(&x[..batch_dims]).ok_or(OpError::TooLarge)?;
    let batch = n_elements(&x[batch_dims..]).ok_or(OpError::TooLarge)?;
    let outer = n_elements(indices.shape().split_last().map_or(&[], |(_, outer)| outer));
    let n_tuples = outer.ok_or(OpError::TooLarge)?;
    if n_tuples == 0 {
        return Ok(Vec::new());
    }
    let per_batch = n_tuples / n_batches.max(1);
    let values = int_values(indices)?;
    let offset = |tuple: usize| -> Result<usize, OpError> {
        let origin = tuple / per_batch.max(1) * batch;
        let indices = values[tuple * k..(tuple + 1) * k].iter().zip(&axes);
        indices.into_iter().try_fold(origin, |offset, (&index, &(n, stride))| {
            Ok(offset + normalize_index("a tuple of indices", index, n)? * stride)
        })
    };
    try_collected((0..n_tuples).map(offset))
}

impl Operator for GatherNd {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_any)?;
        inputs.dtype(1, DType::is_index)?;
        let both = inputs.fact(0)?.dims().zip(inputs.fact(1)?.dims());
        let dims = both.map(|(x, indices)| self.dims(x, indices)).transpose()?.flatten();
        Ok(folded(self, inputs, vec![tensor_fact(dtype, dims)]))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (x, indices) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let dims = self.dims(&known_dims(x.shape()), &known_dims(indices.shape()))?;
        let shape = known_shape(&dims.ok_or(OpError::TooLarge)?)?;
        let offsets = tuple_offsets(x.shape(), indices, self.batch_dims)?;
        let y = outputs[0].tensor(x.dtype(), &shape)?;
        let k = indices.shape().last().copied().unwrap_or(0);
        let run = n_elements(&x.shape()[self.batch_dims + k..]).ok_or(OpError::TooLarge)?;
        if run == 0 {
            return Ok(());
        }
        Ok(move_elements!(x => y, |src, dst| {
            let mut pace = Pace::new();
            for (to, &from) in dst.chunks_exact_mut(run).zip(&offsets) {
                pace.go(run)?;
                to.clone_from_slice(&src[from..from + run]);
            }
            Ok(())
        })?)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    fn gather(batch_dims: i64, x: &Tensor, indices: Tensor) -> Result<Tensor, String> {
        let case = Case::new("GatherND", 13).attr("batch_dims", Attr::Int(batch_dims));
        case.tensor(&[x.clone(), indices])
    }

    #[test]
    fn tuples_pick_elements_or_slices() {
        let x = tensor(&[2, 2, 2], &[0_u8, 1, 2, 3, 4, 5, 6, 7]);
        let cases = [
            (0, tensor(&[2, 3], &[0_i64, 1, 1, 1, 0, -1]), tensor(&[2], &[3_u8, 5])),
            (0, tensor(&[2, 2], &[0_i64, 1, 1, 0]), tensor(&[2, 2], &[2_u8, 3, 4, 5])),
            (0, tensor(&[1, 1, 1], &[1_i64]), tensor(&[1, 1, 2, 2], &[4_u8, 5, 6, 7])),
            (1, tensor(&[2, 1], &[1_i64, 0]), tensor(&[2, 2], &[2_u8, 3, 4, 5])),
            (1, tensor(&[2, 1, 2], &[1_i64, 1, 0, 1]), tensor(&[2, 1], &[3_u8, 5])),
            (0, tensor::<i64>(&[0, 3], &[]), tensor::<u8>(&[0], &[])),
            (0, tensor::<i64>(&[1, 0], &[]), tensor(&[1, 2, 2, 2], &[0_u8, 1, 2, 3, 4, 5, 6, 7])),
        ];
        for (batch_dims, indices, expected) in cases {
            assert_eq!(gather(batch_dims, &x, indices), Ok(expected));
        }
    }

    #[test]
    fn misfits_are_errors() {
        let x = tensor(&[2, 2], &[0_f32; 4]);
        for (batch_dims, indices) in [
            (0, tensor(&[1, 3], &[0_i64; 3])),
            (0, tensor(&[1], &[2_i64])),
            (0, Tensor::scalar(0_i64)),
            (1, tensor(&[3, 1], &[0_i64; 3])),
            (2, tensor(&[1], &[0_i64])),
            (-1, tensor(&[1], &[0_i64])),
        ] {
            assert!(gather(batch_dims, &x, indices).is_err());
        }
        let empty = Tensor::zeros(ort_tensor::DType::F32, &[2, 0]).unwrap();
        assert!(gather(0, &empty, tensor(&[1, 2], &[0_i64, 0])).is_err());
        assert_eq!(gather(0, &empty, tensor(&[1, 1], &[1_i64])).unwrap().shape(), [1, 0]);
    }
}
