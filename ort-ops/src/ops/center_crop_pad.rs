//! CenterCropPad: the middle of a tensor, or a tensor in the middle of zeros.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Shape, by_pieces, move_elements, row_major_strides};

use crate::infer::{
    MAX_RANK, folded, int_values, known_dims, known_shape, normalize_axes, normalize_axis,
    ranked_fact, sizes, vector_len,
};
use crate::strided::{self, Strided};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "CenterCropPad",
    versions: (18, 18),
    types: DType::is_any,
    build: CenterCropPad::build,
}];

/// CenterCropPad: `y` has length `m` along each listed axis, `m` being its entry in input 1. Of an axis of `n > m`,
/// the `m` entries from `⌊(n − m)/2⌋` on remain; one of `n < m` is preceded by `⌊(m − n)/2⌋` zeros (false, empty
/// strings), and followed by the others.
///
/// `x`: any type and rank; the lengths: int32 or int64, one per axis.
///
/// Source: ONNX operator set, CenterCropPad-18.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CenterCropPad {
    /// The axes of the lengths, negative from the back; all if absent.
    pub axes: Option<Vec<i64>>,
}

impl CenterCropPad {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Self { axes: spec.ints("axes")?.map(<[i64]>::to_vec) }))
    }

    /// The dimensions of the result; without `lengths`, of unknown ones along the axes.
    fn dims(&self, x: &[Dim], lengths: Option<&[Dim]>) -> Result<Dims, OpError> {
        let rank = x.len();
        let axes = match &self.axes {
            None => (0..rank).collect(),
            Some(axes) => {
                normalize_axes(axes, rank)?;
                let axes = axes.iter().map(|&axis| normalize_axis(axis, rank));
                axes.collect::<Result<Vec<_>, _>>()?
            }
        };
        if lengths.is_some_and(|lengths| lengths.len() != axes.len()) {
            return Err(OpError::InputValue { index: 1, what: "takes one length per axis" });
        }
        let mut dims = Dims::from(x);
        for (i, axis) in axes.into_iter().enumerate() {
            dims[axis] = lengths.map_or(Dim::Unknown, |lengths| lengths[i].clone());
        }
        Ok(dims)
    }
}

impl Operator for CenterCropPad {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_any)?;
        inputs.dtype(1, DType::is_index)?;
        let n_lengths = vector_len(inputs, 1)?;
        let lengths = match inputs.fact(1)?.ints() {
            Some(lengths) => Some(known_dims(&sizes(1, &lengths)?)),
            None => {
                let n = n_lengths.filter(|&n| n <= MAX_RANK);
                // bounded: rank
                n.map(|n| Dims::from_elem(Dim::Unknown, n))
            }
        };
        let fact = match (inputs.fact(0)?.dims(), lengths) {
            (Some(x), lengths) => Fact::tensor(dtype, self.dims(x, lengths.as_deref())?),
            // The lengths of all axes determine the shape.
            (None, Some(lengths)) if self.axes.is_none() => Fact::tensor(dtype, lengths),
            (None, _) => ranked_fact(dtype, None),
        };
        Ok(folded(self, inputs, vec![fact]))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let lengths = known_dims(&sizes(1, &int_values(inputs.tensor(1)?)?)?);
        let shape = known_shape(&self.dims(&known_dims(x.shape()), Some(&lengths))?)?;
        let mut y = outputs[0].tensor(x.dtype(), &shape)?;
        let axes = || x.shape().iter().zip(&shape);
        let kept: Shape = axes().map(|(&n, &m)| n.min(m)).collect();
        if kept != shape {
            move_elements!(x => y.reborrow(), |_src, dst| {
                by_pieces(dst, |_, dst| dst.fill(Default::default()))
            })?;
        }
        let middle = |of: &[usize], before: &dyn Fn(usize, usize) -> usize| {
            let strides = row_major_strides(of);
            let first = axes().zip(&strides).map(|((&n, &m), stride)| before(n, m) * stride);
            Strided::new(first.sum(), &strides)
        };
        if kept.contains(&0) {
            return Ok(());
        }
        let from = middle(x.shape(), &|n, m| n.saturating_sub(m) / 2);
        let to = middle(&shape, &|n, m| m.saturating_sub(n) / 2);
        Ok(strided::copy(&kept, x, &from, y, &to)?)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Bool, DType, Tensor};

    use crate::case::{Case, tensor};

    fn case() -> Case {
        Case::new("CenterCropPad", 18)
    }

    fn lengths(lengths: &[i64]) -> Tensor {
        tensor(&[lengths.len()], lengths)
    }

    #[test]
    fn what_is_odd_is_cut_and_added_behind() {
        let x = tensor(&[5], &[1_i32, 2, 3, 4, 5]);
        for (n, expected) in [
            (0, &[] as &[i32]),
            (1, &[3]),
            (2, &[2, 3]),
            (3, &[2, 3, 4]),
            (5, &[1, 2, 3, 4, 5]),
            (6, &[1, 2, 3, 4, 5, 0]),
            (8, &[0, 1, 2, 3, 4, 5, 0, 0]),
        ] {
            let y = case().tensor(&[x.clone(), lengths(&[n])]);
            assert_eq!(y, Ok(tensor(&[expected.len()], expected)), "{n}");
        }
    }

    #[test]
    fn axes_are_named_in_any_order() {
        let x = tensor(&[1, 2, 3], &[1_u8, 2, 3, 4, 5, 6]);
        let case = case().attr("axes", Attr::Ints(vec![-1, 0]));
        let y = case.tensor(&[x.clone(), tensor(&[2], &[1_i32, 2])]);
        assert_eq!(y, Ok(tensor(&[2, 2, 1], &[2_u8, 5, 0, 0])));
        for wrong in [&[1_i64] as &[i64], &[1, 2, 3], &[1, -1]] {
            assert!(case.tensor(&[x.clone(), lengths(wrong)]).is_err(), "{wrong:?}");
        }
        for wrong in [vec![0, 3], vec![1, -2]] {
            let case = super::tests::case().attr("axes", Attr::Ints(wrong));
            assert!(case.tensor(&[x.clone(), lengths(&[1, 1])]).is_err());
        }
        let huge = lengths(&[i64::MAX, i64::MAX]);
        assert!(case.tensor(&[x, huge]).is_err());
    }

    #[test]
    fn every_type_is_moved_and_the_rest_is_zero() {
        for &dtype in DType::ALL {
            let x = |n: usize| Tensor::zeros(dtype, &[n, 2]).unwrap();
            assert_eq!(case().tensor(&[x(3), lengths(&[1, 2])]), Ok(x(1)), "{dtype}");
            assert_eq!(case().tensor(&[x(0), lengths(&[3, 2])]), Ok(x(3)), "{dtype}");
        }
        let x = Tensor::from_strings(&[1], vec!["a".into()]).unwrap();
        let y = Tensor::from_strings(&[2], vec!["a".into(), String::new()]).unwrap();
        assert_eq!(case().tensor(&[x, lengths(&[2])]), Ok(y));
        let scalar = Tensor::scalar(Bool::from(true));
        assert_eq!(case().tensor(&[scalar.clone(), lengths(&[])]), Ok(scalar));
    }
}
