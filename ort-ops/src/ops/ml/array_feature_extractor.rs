//! ArrayFeatureExtractor: columns of the last axis.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Shape, try_collected};

use crate::features;
use crate::infer::{dims_product, tensor_fact};
use crate::ops::gather::gather_tensor;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "ai.onnx.ml",
    name: "ArrayFeatureExtractor",
    versions: (1, 1),
    types: is_feature,
    build: |_| Ok(Arc::new(ArrayFeatureExtractor)),
}];

/// ArrayFeatureExtractor: `z[n…, i] = x[n…, y[i]]`, where `y` (int64) is a list, whatever its shape. A vector `x`
/// counts as one row. Indices below zero are out of range.
///
/// Source: ONNX operator set ai.onnx.ml, ArrayFeatureExtractor-1. ONNX Runtime rejects an empty list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayFeatureExtractor;

const fn is_feature(dtype: DType) -> bool {
    features::is_feature(dtype) || dtype.is_string()
}

impl Operator for ArrayFeatureExtractor {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, is_feature)?;
        inputs.fact(1)?;
        inputs.expect_dtype(1, DType::I64)?;
        let n = inputs.fact(1)?.dims().map_or(Dim::Unknown, dims_product);
        let Some(x) = inputs.fact(0)?.dims() else { return Ok(vec![tensor_fact(dtype, None)]) };
        let rows: Dims = match x {
            [] => return Err(no_scalar()),
            [_] => std::iter::once(Dim::Known(1)).collect(),
            [rows @ .., _] => rows.into(),
        };
        Ok(vec![Fact::tensor(dtype, rows.into_iter().chain([n]))])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let (rows, n): (&[usize], usize) = match x.shape() {
            [] => return Err(no_scalar()),
            [n] => (&[1], *n),
            [rows @ .., n] => (rows, *n),
        };
        let index = |&index: &i64| {
            let found = usize::try_from(index).ok().filter(|&index| index < n);
            found.ok_or(OpError::Index { what: "features", index, len: n })
        };
        let indices = inputs.tensor(1)?.as_slice::<i64>()?.iter().map(index);
        let indices = try_collected(indices)?;
        let shape: Shape = rows.iter().copied().chain([indices.len()]).collect();
        let z = outputs[0].tensor(x.dtype(), &shape)?;
        Ok(gather_tensor(x, (n, 1), &indices, z)?)
    }
}

const fn no_scalar() -> OpError {
    OpError::InputRank { index: 0, expected: "at least 1", found: 0 }
}

#[cfg(test)]
mod tests {
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    #[test]
    fn columns_are_picked() {
        let x = |shape: &[usize]| {
            let n = u8::try_from(shape.iter().product::<usize>()).unwrap();
            tensor(shape, &(0..n).map(f32::from).collect::<Vec<_>>())
        };
        let cases = [
            (x(&[2, 3]), tensor(&[2], &[0_i64, 2]), Some(tensor(&[2, 2], &[0_f32, 2., 3., 5.]))),
            (x(&[3]), tensor(&[2, 1], &[2_i64, 1]), Some(tensor(&[1, 2], &[2_f32, 1.0]))),
            (x(&[2, 1, 2]), Tensor::scalar(1_i64), Some(tensor(&[2, 1, 1], &[1_f32, 3.0]))),
            (x(&[0, 3]), tensor(&[1], &[2_i64]), Some(x(&[0, 1]))),
            (x(&[2, 3]), tensor(&[0], &[0_i64; 0]), Some(x(&[2, 0]))),
            (x(&[3]), tensor(&[1], &[3_i64]), None),
            (x(&[3]), tensor(&[1], &[-1_i64]), None),
            (x(&[2, 0]), tensor(&[1], &[0_i64]), None),
            (x(&[]), tensor(&[1], &[0_i64]), None),
        ];
        for (x, y, z) in cases {
            let found = Case::new("ArrayFeatureExtractor", 1)
                .domain("ai.onnx.ml")
                .tensor(&[x.clone(), y.clone()]);
            assert_eq!(found.ok(), z, "{x:?} at {y:?}");
        }
    }
}
