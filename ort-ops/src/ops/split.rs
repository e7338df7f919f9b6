//! Split: parts of a tensor along an axis.

// collects are bounded: by the node's outputs

use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Shape, TensorView, row_major_strides};

use crate::infer::{folded, int_values, normalize_axis};
use crate::strided::{self, Strided};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "Split",
    versions: (1, 18),
    types: DType::is_any,
    build: Split::build,
}];

/// Split: output `i` is the next `split[i]` entries of `axis`. The lengths are input 1 (an
/// attribute before version 13); without them the parts are equal, and from version 18 on the last
/// ones are shorter, down to empty, where the number of outputs does not divide the dimension.
///
/// In version 1 lengths that are an input are not supported: they are floats there.
///
/// Source: ONNX operator set, Split-18.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The axis, `−rank..rank`.
    pub axis: i64,
    /// The lengths, if they are an attribute.
    pub split: Option<Vec<i64>>,
    /// How many parts there are.
    pub n_outputs: usize,
    /// Whether parts may be unequal where no lengths are given.
    pub may_be_uneven: bool,
}

impl Split {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let version = spec.since_version;
        if version == 1 && spec.has_input(1) {
            return Err(OpError::Unsupported { what: "Split-1 with lengths as an input" });
        }
        let split = if version < 13 { spec.ints("split")?.map(<[i64]>::to_vec) } else { None };
        let n_outputs = spec.n_outputs;
        if version >= 18
            && let Some(n) = spec.int("num_outputs")?
            && (usize::try_from(n) != Ok(n_outputs) || spec.has_input(1))
        {
            return Err(OpError::AttributeValue { name: "num_outputs", found: n.to_string() });
        }
        let axis = spec.int("axis")?.unwrap_or(0);
        Ok(Arc::new(Self { axis, split, n_outputs, may_be_uneven: version >= 18 }))
    }

    /// The lengths of the parts of a dimension: those given, or equal ones.
    ///
    /// # Errors
    /// If those given do not sum to the dimension, or it is not divisible.
    pub fn lengths(&self, dim: usize, split: Option<&[i64]>) -> Result<Vec<usize>, OpError> {
        let n_outputs = self.n_outputs;
        let wrong = |what| OpError::InputValue { index: 1, what };
        let Some(split) = split else {
            let chunk = dim.div_ceil(n_outputs.max(1));
            if !self.may_be_uneven && chunk * n_outputs != dim {
                let (left, right) = (vec![dim], vec![n_outputs]);
                return Err(OpError::Shapes { what: "equal parts", left, right });
            }
            let length = |i: usize| chunk.min(dim.saturating_sub(chunk.saturating_mul(i)));
            return Ok((0..n_outputs).map(length).collect());
        };
        if split.len() != n_outputs {
            return Err(wrong("there are not as many lengths as outputs"));
        }
        let lengths: Option<Vec<usize>> = split.iter().map(|&n| n.try_into().ok()).collect();
        let lengths = lengths.ok_or(wrong("a length is below zero"))?;
        let sum = lengths.iter().try_fold(0_usize, |sum, &n| sum.checked_add(n));
        if sum == Some(dim) {
            Ok(lengths)
        } else {
            Err(wrong("the lengths do not sum to the dimension"))
        }
    }
}

impl Operator for Split {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_any)?;
        inputs.expect_dtype(1, DType::I64)?;
        let Some(dims) = inputs.fact(0)?.dims() else {
            // bounded: as many as the node has
            return Ok(vec![Fact::unranked(dtype); self.n_outputs]);
        };
        let axis = normalize_axis(self.axis, dims.len())?;
        let split = self.split.clone().or_else(|| inputs.get(1).and_then(Fact::ints));
        let is_known = split.is_some() || inputs.get(1).is_none();
        let lengths: Vec<Dim> = match (dims[axis].known(), &split) {
            (Some(n), _) if is_known => {
                self.lengths(n, split.as_deref())?.into_iter().map(Dim::Known).collect()
            }
            // The lengths determine the dimension.
            (None, Some(split)) if split.len() == self.n_outputs => {
                let dim = |n: &i64| usize::try_from(*n).map_or(Dim::Unknown, Dim::Known);
                split.iter().map(dim).collect()
            }
            // bounded: as many as the node has
            _ => vec![Dim::Unknown; self.n_outputs],
        };
        let fact = |length: Dim| {
            let mut dims: Dims = dims.into();
            dims[axis] = length;
            Fact::tensor(dtype, dims)
        };
        Ok(folded(self, inputs, lengths.into_iter().map(fact).collect()))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let axis = normalize_axis(self.axis, x.shape().len())?;
        let split = match inputs.optional_tensor(1)? {
            Some(split) => Some(int_values(split)?),
            None => self.split.clone(),
        };
        let mut start = 0;
        for (output, length) in
            outputs.iter_mut().zip(self.lengths(x.shape()[axis], split.as_deref())?)
        {
            if output.is_wanted() {
                take(x, axis, start..start + length, output)?;
            }
            start += length;
        }
        Ok(())
    }
}

/// Writes the entries of `axis` in `range`, which must exist.
pub(crate) fn take(
    x: TensorView<'_>,
    axis: usize,
    range: std::ops::Range<usize>,
    output: &mut Output<'_>,
) -> Result<(), OpError> {
    let strides = row_major_strides(x.shape());
    let from = Strided::new(range.start.wrapping_mul(strides[axis]), &strides);
    let mut shape = Shape::from_slice(x.shape());
    shape[axis] = range.len();
    let y = output.tensor(x.dtype(), &shape)?;
    Ok(strided::copy(&shape, x, &from, y, &Strided::row_major(&shape))?)
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, Value};

    use super::*;
    use crate::case::{Case, tensor};

    fn lengths(case: &Case, n: usize, split: Option<&[i64]>) -> Option<Vec<usize>> {
        let x = Some(Tensor::zeros(DType::F64, &[n]).unwrap());
        let split = split.map(|split| tensor(&[split.len()], split));
        let values = case.run_optional(&[x, split]).ok()?;
        Some(values.iter().map(|value| value.as_tensor().unwrap().shape()[0]).collect())
    }

    #[test]
    fn parts_are_cut_along_the_axis() {
        let x = tensor(&[2, 4], &[1_u16, 2, 3, 4, 5, 6, 7, 8]);
        let case = Case::new("Split", 13).attr("axis", Attr::Int(-1)).outputs(2);
        let values = case.run(&[x, tensor(&[2], &[1_i64, 3])]).unwrap();
        let parts = [tensor(&[2, 1], &[1_u16, 5]), tensor(&[2, 3], &[2_u16, 3, 4, 6, 7, 8])];
        assert_eq!(values, parts.map(Value::Tensor));
    }

    #[test]
    fn lengths_are_given_or_equal() {
        let v11 = || Case::new("Split", 11).outputs(3);
        assert_eq!(lengths(&v11(), 6, None), Some(vec![2, 2, 2]));
        assert_eq!(lengths(&v11(), 7, None), None);
        let given = v11().attr("split", Attr::Ints(vec![1, 0, 3]));
        assert_eq!(lengths(&given, 4, None), Some(vec![1, 0, 3]));
        let v13 = || Case::new("Split", 13).outputs(2);
        for split in [&[1_i64, 1][..], &[3], &[4, -1], &[i64::MAX, i64::MAX]] {
            assert_eq!(lengths(&v13(), 3, Some(split)), None, "{split:?}");
        }
        let v18 = |n: usize| {
            let n_outputs = i64::try_from(n).unwrap();
            Case::new("Split", 18).attr("num_outputs", Attr::Int(n_outputs)).outputs(n)
        };
        assert_eq!(lengths(&v18(3), 7, None), Some(vec![3, 3, 1]));
        assert_eq!(lengths(&v18(4), 5, None), Some(vec![2, 2, 1, 0]));
    }
}
