//! TensorScatter: new entries of a cache, written where each sequence of the batch ends.

use std::sync::Arc;

use ort_graph::{Behaviour, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Shape};

use crate::infer::{folded, int_values, normalize_axis, vector_len};
use crate::scatter::update_copy;
use crate::strided::{self, Strided};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "TensorScatter",
    versions: (24, 24),
    types: DType::is_any,
    build: TensorScatter::build,
}];

/// TensorScatter: `y = past`, then `y[b, …, start[b] + t, …] = update[b, …, t, …]` along `axis`;
/// the starts are the optional input 2, and 0 without it. A circular cache continues at its beginning; an update is
/// no longer than the cache. Can run in place.
///
/// Source: ONNX operator set, TensorScatter-24.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorScatter {
    /// The axis of time, `−rank..rank`, not the first.
    pub axis: i64,
    /// Whether entries beyond the end continue at the beginning.
    pub is_circular: bool,
}

impl TensorScatter {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let axis = spec.int("axis")?.unwrap_or(-2);
        let is_circular = match spec.string("mode")? {
            None | Some("linear") => false,
            Some("circular") => true,
            Some(other) => {
                return Err(OpError::AttributeValue { name: "mode", found: other.to_owned() });
            }
        };
        Ok(Arc::new(Self { axis, is_circular }))
    }

    fn axis(self, rank: usize) -> Result<usize, OpError> {
        match normalize_axis(self.axis, rank)? {
            0 => Err(OpError::Axis { axis: self.axis, rank }),
            axis => Ok(axis),
        }
    }

    /// The pieces (to, from, length) in which `n` entries that begin at `start` are written.
    fn pieces(self, start: i64, n: usize, len: usize) -> Result<Vec<[usize; 3]>, OpError> {
        let wrong = OpError::Index { what: "the cache", index: start, len };
        let start = usize::try_from(start).map_err(|_| wrong.clone())?;
        if !self.is_circular {
            let fits = start.checked_add(n).is_some_and(|end| end <= len);
            return if fits { Ok(vec![[start, 0, n]]) } else { Err(wrong) };
        }
        if n > len {
            return Err(wrong);
        }
        let start = start.checked_rem(len).unwrap_or(0);
        let before_end = n.min(len - start);
        Ok(vec![[start, 0, before_end], [0, before_end, n - before_end]])
    }
}

impl Operator for TensorScatter {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_any)?;
        inputs.fact(1)?;
        inputs.expect_dtype(1, dtype)?;
        inputs.expect_dtype(2, DType::I64)?;
        vector_len(inputs, 2)?;
        let past = inputs.fact(0)?;
        if let Some(dims) = past.dims() {
            self.axis(dims.len())?;
        }
        Ok(folded(self, inputs, vec![Fact { constant: None, ..past.clone() }]))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let update = inputs.tensor(1)?;
        let starts = inputs.optional_tensor(2)?.map(int_values).transpose()?;
        update_copy(inputs, &mut outputs[0], |mut y| {
            let cache = Shape::from_slice(y.shape());
            let axis = self.axis(cache.len())?;
            let mut expected = cache.clone();
            expected[axis] = update.shape().get(axis).copied().unwrap_or(0);
            let batch = starts.as_ref().map_or(cache[0], Vec::len);
            if update.shape() != expected.as_slice() || batch != cache[0] {
                let (left, right) = (cache.to_vec(), update.shape().to_vec());
                return Err(OpError::Shapes { what: "a cache and its update", left, right });
            }
            if update.is_empty() || cache.contains(&0) {
                return Ok(());
            }
            let (to, from) = (Strided::row_major(&cache), Strided::row_major(update.shape()));
            let at = |layout: &Strided, b: usize, t: usize| {
                let stride = |axis: usize| layout.strides[axis].unsigned_abs();
                Strided { offset: b * stride(0) + t * stride(axis), ..layout.clone() }
            };
            for b in 0..cache[0] {
                let start = starts.as_ref().map_or(0, |starts| starts[b]);
                for [to_t, from_t, n] in self.pieces(start, expected[axis], cache[axis])? {
                    let mut piece = expected.clone();
                    (piece[0], piece[axis]) = (1, n);
                    let (from, to) = (at(&from, b, from_t), at(&to, b, to_t));
                    strided::copy(&piece, update, &from, y.reborrow(), &to)?;
                }
            }
            Ok(())
        })
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { in_place: &[(0, 0)], ..Behaviour::default() }
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{DType, Tensor};

    use crate::case::{Case, tensor};

    #[test]
    fn every_type_is_scattered() {
        for &dtype in DType::ALL {
            let x = |n: usize| Tensor::zeros(dtype, &[1, n, 3]).unwrap();
            assert_eq!(Case::new("TensorScatter", 24).tensor(&[x(2), x(1)]), Ok(x(2)), "{dtype}");
        }
    }

    #[test]
    fn every_sequence_has_its_own_start() {
        let past = tensor(&[2, 3, 1], &[1_i8, 2, 3, 4, 5, 6]);
        let update = tensor(&[2, 2, 1], &[7_i8, 8, 9, 10]);
        let starts = |starts: [i64; 2]| tensor(&[2], &starts);
        let linear = || Case::new("TensorScatter", 24);
        let circular = || linear().attr("mode", Attr::String("circular".into()));
        let run =
            |case: Case, at: [i64; 2]| case.tensor(&[past.clone(), update.clone(), starts(at)]);
        let of = |data: [i8; 6]| Ok(tensor(&[2, 3, 1], &data));
        assert_eq!(run(linear(), [1, 0]), of([1, 7, 8, 9, 10, 6]));
        assert_eq!(linear().tensor(&[past.clone(), update.clone()]), of([7, 8, 3, 9, 10, 6]));
        assert_eq!(run(circular(), [2, 4]), of([8, 2, 7, 4, 9, 10]));
        assert!(run(linear(), [2, 0]).is_err() && run(linear(), [-1, 0]).is_err());
        assert!(run(linear(), [i64::MAX, 0]).is_err());
        assert!(run(linear().attr("axis", Attr::Int(0)), [0, 0]).is_err());
        assert!(linear().tensor(&[past.clone(), update.clone(), tensor(&[1], &[0_i64])]).is_err());
    }
}
