//! NGramRepeatBlock: prevents repeated n-grams.

use std::sync::Arc;

use ort_graph::{Behaviour, Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output, Pace, TensorViewMut, with_dtype};

use crate::elementwise::unsupported;
use crate::infer::expect_dims;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "NGramRepeatBlock",
    versions: (1, 1),
    types: DType::is_float,
    build: NGramRepeatBlock::build,
}];

/// NGramRepeatBlock: `y[b, v] = −∞` where token `v` after the last `n − 1` of `ids[b]` would form an n-gram that
/// `ids[b]` already has, else `scores[b, v]`.
///
/// Inputs: `ids: [B, S]` int64, `scores: [B, V]` floats. Can run in place of the scores.
///
/// Source: com.microsoft, NGramRepeatBlock-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NGramRepeatBlock {
    /// `n`
    pub ngram_size: usize,
}

impl NGramRepeatBlock {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let name = "ngram_size";
        let n = spec.int(name)?.ok_or(OpError::MissingAttribute { name })?;
        let ngram_size = usize::try_from(n).ok().filter(|&n| n > 0);
        let wrong = || OpError::AttributeValue { name, found: n.to_string() };
        Ok(Arc::new(Self { ngram_size: ngram_size.ok_or_else(wrong)? }))
    }

    fn block<T: Number>(
        self,
        (ids, n_batches): (&[i64], usize),
        y: TensorViewMut<'_>,
    ) -> Result<(), OpError> {
        let y = y.into_slice::<T>()?;
        let (length, vocabulary) = (ids.len() / n_batches.max(1), y.len() / n_batches.max(1));
        let mut pace = Pace::new();
        for batch in 0..n_batches {
            let y = &mut y[batch * vocabulary..][..vocabulary];
            let ids = &ids[batch * length..][..length];
            let last = &ids[ids.len().saturating_sub(self.ngram_size - 1)..];
            for ngram in ids.windows(self.ngram_size) {
                pace.go(self.ngram_size)?;
                // A token that would repeat an n-gram must not follow.
                let Some((&id, _)) = ngram.split_last().filter(|(_, first)| *first == last) else {
                    continue;
                };
                let score = usize::try_from(id).ok().and_then(|id| y.get_mut(id));
                let unknown = OpError::Index { what: "tokens", index: id, len: vocabulary };
                *score.ok_or(unknown)? = T::from_f64(f64::NEG_INFINITY);
            }
        }
        Ok(())
    }
}

impl Operator for NGramRepeatBlock {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.expect_dtype(0, DType::I64)?;
        inputs.dtype(1, DType::is_float)?;
        let batch = match inputs.fact(0)?.dims() {
            None => Dim::Unknown,
            Some([batch, _]) => batch.clone(),
            Some(dims) => return Err(wrong_rank(dims.len())),
        };
        expect_dims(inputs, 1, &[batch, Dim::Unknown])?;
        Ok(vec![inputs.fact(1)?.ty.clone().into()])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let ids = inputs.tensor(0)?;
        let &[n_batches, _] = ids.shape() else { return Err(wrong_rank(ids.shape().len())) };
        let y = if outputs[0].in_place_of().is_some() {
            let taken = OpError::Unsupported { what: "another input in place" };
            outputs[0].in_place_tensor().ok_or(taken)?.1
        } else {
            let scores = inputs.tensor(1)?;
            let mut y = outputs[0].tensor(scores.dtype(), scores.shape())?;
            y.reborrow().copy_from(scores)?;
            y
        };
        let (dtype, shape) = (y.dtype(), y.shape());
        if shape.len() != 2 || shape[0] != n_batches {
            let (left, right) = (ids.shape().to_vec(), shape.to_vec());
            return Err(OpError::Shapes { what: "ids and scores", left, right });
        }
        let ids = (ids.as_slice()?, n_batches);
        with_dtype!(dtype, float, T => self.block::<T>(ids, y), else => Err(unsupported(1, dtype)))
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { in_place: &[(1, 0)], ..Behaviour::default() }
    }
}

const fn wrong_rank(found: usize) -> OpError {
    OpError::InputRank { index: 0, expected: "2", found }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, tensor};

    #[test]
    fn tokens_that_would_repeat_an_ngram_are_blocked() {
        let cases: [(i64, &[i64], Option<&[usize]>); 10] = [
            (2, &[1, 2, 3, 1], Some(&[2])),
            (1, &[1, 2], Some(&[1, 2])),
            (3, &[1, 2, 3, 1, 2], Some(&[3])),
            (2, &[3, 3, 3], Some(&[3])),
            (5, &[1, 2], Some(&[])),
            (2, &[], Some(&[])),
            (i64::MAX, &[1], Some(&[])),
            (2, &[1, 9, 1], None),
            (2, &[1, -2, 1], None),
            (0, &[1], None),
        ];
        for (n, ids, expected) in cases {
            let case = Case::new("NGramRepeatBlock", 1)
                .domain("com.microsoft")
                .attr("ngram_size", Attr::Int(n));
            let scores = tensor(&[1, 4], &[0_f32, 1.0, 2.0, 3.0]);
            let found = case.tensor(&[tensor(&[1, ids.len()], ids), scores.clone()]);
            let expected = expected.map(|blocked| {
                let mut y = scores.as_slice::<f32>().unwrap().to_vec();
                blocked.iter().for_each(|&token| y[token] = f32::NEG_INFINITY);
                tensor(&[1, 4], &y)
            });
            assert_eq!(found.ok(), expected, "{n} of {ids:?}");
        }
    }

    #[test]
    fn ids_and_scores_are_of_one_batch() {
        let run = |batch, scores| {
            let case = Case::new("NGramRepeatBlock", 1)
                .domain("com.microsoft")
                .attr("ngram_size", Attr::Int(1));
            case.tensor(&[tensor(&[batch, 1], &vec![0_i64; batch]), scores])
        };
        let (x, y) = (tensor(&[2, 1], &[1_f64; 2]), tensor(&[2, 1], &[f64::NEG_INFINITY; 2]));
        assert_eq!(run(2, x.clone()), Ok(y));
        assert!(run(1, x).is_err());
        let none = tensor(&[0, 1], &[0_f32; 0]);
        assert_eq!(run(0, none.clone()), Ok(none));
    }
}
