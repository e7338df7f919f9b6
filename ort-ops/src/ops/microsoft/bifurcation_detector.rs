//! BifurcationDetector: how far predicted tokens follow their source, and where to continue.

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Pace, Room, TensorError};

use crate::infer::{read_scalar, vector_len};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "BifurcationDetector",
    versions: (1, 1),
    types: is_token,
    build: BifurcationDetector::build,
}];

/// BifurcationDetector, a step of aggressive decoding: `tokens = current ++ predicted[..=i]`, where
/// `predicted` first differs from `source[match..]` at `i`, and the end of the only n-gram of
/// `source` that is the end of `tokens`, for the least `n` of `min..=max` with at most one; −1 if there is none.
///
/// Inputs, all int64: `source: [S]`, `current: [C]`, `match` (one element), and none or
/// `predicted: [S + 1 − match]`.
///
/// Source: com.microsoft, BifurcationDetector-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BifurcationDetector {
    /// The least length of the end, at least 1.
    pub min_ngram_size: usize,
    /// The greatest.
    pub max_ngram_size: usize,
}

impl BifurcationDetector {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let read = |name, default, least| {
            let n = spec.int(name)?.unwrap_or(default);
            let size = usize::try_from(n).ok().filter(|&size| size >= least);
            size.ok_or_else(|| OpError::AttributeValue { name, found: n.to_string() })
        };
        let min_ngram_size = read("min_ngram_size", 1, 1)?;
        let max_ngram_size = read("max_ngram_size", 3, min_ngram_size)?;
        Ok(Arc::new(Self { min_ngram_size, max_ngram_size }))
    }

    /// Where in `source` the end of `tokens` ends, if it occurs once.
    fn suffix(self, source: &[i64], tokens: &[i64]) -> Result<Option<usize>, TensorError> {
        let mut pace = Pace::new();
        for n in self.min_ngram_size..=self.max_ngram_size.min(tokens.len()) {
            let end = &tokens[tokens.len() - n..];
            let (mut n_found, mut first) = (0, None);
            for (ngram, at) in source.windows(n).zip(n..) {
                pace.go(n)?;
                if ngram == end {
                    n_found += 1;
                    first = first.or(Some(at));
                }
                if n_found > 1 {
                    break;
                }
            }
            if n_found < 2 {
                return Ok(first);
            }
        }
        Ok(None)
    }
}

/// The accepted prefix of `predicted`.
fn accepted<'a>(source: &[i64], start: i64, predicted: &'a [i64]) -> Result<&'a [i64], OpError> {
    let rest = usize::try_from(start).ok().and_then(|start| source.get(start..));
    let len = source.len();
    let rest = rest.ok_or(OpError::Index { what: "source tokens", index: start, len })?;
    if predicted.len() != rest.len() + 1 {
        let (left, right) = (vec![predicted.len()], vec![rest.len() + 1]);
        return Err(OpError::Shapes { what: "predicted tokens", left, right });
    }
    let n_equal = predicted.iter().zip(rest).take_while(|(a, b)| a == b).count();
    Ok(&predicted[..=n_equal])
}

fn is_token(dtype: DType) -> bool {
    dtype == DType::I64
}

impl Operator for BifurcationDetector {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        for index in 0..3 {
            inputs.dtype(index, is_token)?;
        }
        inputs.expect_dtype(3, DType::I64)?;
        vector_len(inputs, 0)?;
        vector_len(inputs, 3)?;
        let current = vector_len(inputs, 1)?.map_or(Dim::Unknown, Dim::Known);
        let n = if inputs.get(3).is_some() { Dim::Unknown } else { current };
        Ok(vec![Fact::tensor(DType::I64, [n]), inputs.fact(2)?.ty.clone().into()])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let source = inputs.tensor(0)?.as_slice::<i64>()?;
        let mut tokens = Room::of(inputs.tensor(1)?.as_slice::<i64>()?.iter().copied())?;
        let shape = inputs.tensor(2)?.shape();
        let start = read_scalar(inputs, 2)?.unwrap_or(0);
        if let Some(predicted) = inputs.optional_tensor(3)? {
            tokens.extend(accepted(source, start, predicted.as_slice()?)?.iter().copied())?;
        }
        if outputs[0].is_wanted() {
            let y = outputs[0].tensor(DType::I64, &[tokens.len()])?;
            y.into_slice::<i64>()?.copy_from_slice(&tokens);
        }
        if let Some(output) = outputs.get_mut(1).filter(|output| output.is_wanted()) {
            let found = self.suffix(source, &tokens)?.map(i64::try_from);
            let found = found.transpose().map_err(|_| OpError::TooLarge)?.unwrap_or(-1);
            output.tensor(DType::I64, shape)?.into_slice::<i64>()?.fill(found);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    type Found = Option<(Vec<i64>, i64)>;

    fn run(
        (min, max): (i64, i64),
        source: &[i64],
        current: &[i64],
        start: i64,
        predicted: Option<&[i64]>,
    ) -> Found {
        let case = Case::new("BifurcationDetector", 1)
            .domain("com.microsoft")
            .attr("min_ngram_size", Attr::Int(min))
            .attr("max_ngram_size", Attr::Int(max))
            .outputs(2);
        let vector = |x: &[i64]| Some(tensor(&[x.len()], x));
        let start = Some(Tensor::scalar(start));
        let inputs = [vector(source), vector(current), start, predicted.and_then(vector)];
        let values = case.run_optional(&inputs).ok()?;
        let ints = |i: usize| values[i].as_tensor().unwrap().as_slice::<i64>().unwrap().to_vec();
        Some((ints(0), ints(1)[0]))
    }

    #[test]
    fn predictions_are_taken_up_to_the_first_that_differs() {
        let run = |start, predicted| run((1, 3), &[1, 5, 3, 4, 2], &[2, 1], start, Some(predicted));
        assert_eq!(run(1, &[5, 3, 4, 2, 9]), Some((vec![2, 1, 5, 3, 4, 2, 9], -1)));
        assert_eq!(run(5, &[5]), Some((vec![2, 1, 5], 2)));
        assert_eq!(run(4, &[6, 6]), Some((vec![2, 1, 6], -1)));
        for (start, predicted) in [(0, &[1][..]), (9, &[6]), (-1, &[6]), (5, &[])] {
            assert_eq!(run(start, predicted), None);
        }
    }

    #[test]
    fn the_end_is_found_where_it_is_the_only_one() {
        let run = |sizes, source: &[i64], current: &[i64]| {
            run(sizes, source, current, 0, None).map(|found| found.1)
        };
        let cases = [
            ((1, 3), &[1, 5, 3, 4][..], &[5, 3][..], Some(3)),
            ((1, 3), &[1, 5, 3, 4], &[3, 4], Some(4)),
            ((1, 3), &[1, 5, 3, 4], &[9], Some(-1)),
            ((1, 3), &[1, 5, 3, 4], &[], Some(-1)),
            ((1, 2), &[5, 1, 5, 1], &[1, 5], Some(3)),
            ((1, 1), &[5, 1, 5, 1], &[1, 5], Some(-1)),
            ((2, 2), &[5, 1, 6, 1], &[1], Some(-1)),
            ((1, 3), &[], &[1], Some(-1)),
            ((0, 3), &[1], &[1], None),
            ((3, 2), &[1], &[1], None),
        ];
        for (sizes, source, current, expected) in cases {
            assert_eq!(run(sizes, source, current), expected, "{current:?} in {source:?}");
        }
    }
}
