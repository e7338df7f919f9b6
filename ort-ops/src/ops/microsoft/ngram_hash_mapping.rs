//! NGramHashMapping: hashes of the n-grams that end at each token; what it shares with the
//! operator for packed sequences.

// collects are bounded: into checked allocations

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Room, n_elements, with_room};

use crate::infer::{expect_dims, int_values, read_scalar};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "NGramHashMapping",
    versions: (1, 1),
    types: DType::is_index,
    build: |spec| Ok(Arc::new(NGramHashMapping(NGramHash::of_node(spec)?))),
}];

/// NGramHashMapping: `y[b, t, (n−2)·H + h] = offset + (⊕ₖ token[t−k] · multiplier[k], k < n) mod
/// vocabulary`, for each `n` from 2 to N and each of H heads; products wrap, the remainder is not
/// negative, and offset and vocabulary are those of the head.
///
/// Inputs, of one type int32 or int64: `ids: [B, T]`, `multipliers: [≥ N]`, `vocabularies:
/// [(N−1)·H]`, and optionally `past: [B, N−1]`, `offsets: [(N−1)·H]`, the token `eos` (one
/// element), and `segments: [B, T]` (int32). Before the past, and across a segment or an end of sequence, a token is
/// `eos`, or `pad_id` if absent. Output 1 is the past for the next tokens.
///
/// Source: com.microsoft, NGramHashMapping-1 (ONNX Runtime 1.31), which rejects offsets that are negative or too
/// large; here they wrap, as for packed sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NGramHashMapping(pub NGramHash);

/// How n-grams are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NGramHash {
    /// `N`, at least 2.
    pub max_ngram_size: usize,
    /// `H`, at least 1.
    pub n_heads: usize,
    /// The token before the first one.
    pub pad_id: i64,
    /// Whether tokens before an end of sequence are ignored.
    pub resets_on_eos: bool,
}

/// The inputs that are the same for every sequence.
pub(crate) struct Parameters {
    pub(crate) dtype: DType,
    multipliers: Vec<i64>,
    vocabularies: Vec<i64>,
    offsets: Option<Vec<i64>>,
    eos: Option<i64>,
}

impl NGramHash {
    pub(crate) fn of_node(spec: &NodeSpec<'_>) -> Result<Self, OpError> {
        let required = |name| spec.int(name)?.ok_or(OpError::MissingAttribute { name });
        let at_least = |name, least| {
            let n = required(name)?;
            let size = usize::try_from(n).ok().filter(|&size| size >= least);
            size.ok_or_else(|| OpError::AttributeValue { name, found: n.to_string() })
        };
        Ok(Self {
            max_ngram_size: at_least("max_ngram_size", 2)?,
            n_heads: at_least("n_head_per_ngram", 1)?,
            pad_id: required("pad_id")?,
            resets_on_eos: spec.int("reset_on_eos")?.unwrap_or(0) != 0,
        })
    }

    /// How many preceding tokens a hash includes.
    pub(crate) const fn n_past(self) -> usize {
        self.max_ngram_size - 1
    }

    /// How many hashes a token has.
    pub(crate) fn n_hashes(self) -> Result<usize, OpError> {
        self.n_past().checked_mul(self.n_heads).ok_or(OpError::TooLarge)
    }

    /// Checks inputs 0 to 2 and the offsets and `eos` at the positions given.
    pub(crate) fn check(
        self,
        inputs: &Facts<'_>,
        offsets: usize,
        eos: usize,
    ) -> Result<DType, OpError> {
        let dtype = inputs.dtype(0, DType::is_index)?;
        for index in [1, 2] {
            inputs.fact(index)?;
        }
        for index in [1, 2, offsets, eos] {
            inputs.expect_dtype(index, dtype)?;
        }
        let n_hashes = Dim::Known(self.n_hashes()?);
        for index in [2, offsets] {
            expect_dims(inputs, index, std::slice::from_ref(&n_hashes))?;
        }
        expect_dims(inputs, 1, &[Dim::Unknown])?;
        Ok(dtype)
    }

    /// Reads inputs 1 and 2 and those at the positions given.
    pub(crate) fn parameters(
        self,
        inputs: Inputs<'_>,
        offsets: usize,
        eos: usize,
    ) -> Result<Parameters, OpError> {
        let dtype = inputs.tensor(0)?.dtype();
        let multipliers = int_values(inputs.tensor(1)?)?;
        let vocabularies = int_values(inputs.tensor(2)?)?;
        let offsets = inputs.optional_tensor(offsets)?.map(int_values).transpose()?;
        let n_hashes = self.n_hashes()?;
        let lengths = [vocabularies.len(), offsets.as_ref().map_or(n_hashes, Vec::len)];
        if multipliers.len() < self.max_ngram_size || lengths != [n_hashes; 2] {
            let (left, right) = (vec![multipliers.len()], lengths.to_vec());
            return Err(OpError::Shapes { what: "multipliers and vocabularies", left, right });
        }
        if vocabularies.iter().any(|&n| n <= 0) {
            return Err(OpError::InputValue { index: 2, what: "vocabularies are not empty" });
        }
        if wrapped(self.pad_id, dtype) != self.pad_id {
            let found = self.pad_id.to_string();
            return Err(OpError::AttributeValue { name: "pad_id", found });
        }
        let eos = read_scalar(inputs, eos)?;
        Ok(Parameters { dtype, multipliers, vocabularies, offsets, eos })
    }

    /// The replacement of missing tokens.
    pub(crate) fn nothing(self, parameters: &Parameters) -> i64 {
        parameters.eos.unwrap_or(self.pad_id)
    }

    /// Appends the hashes of the tokens of a sequence, which begins with its past. Tokens of a known different
    /// segment are ignored.
    pub(crate) fn hash(
        self,
        parameters: &Parameters,
        (ids, segments): (&[i64], &[Option<i64>]),
        hashes: &mut Vec<i64>,
    ) {
        let eos = parameters.eos.filter(|_| self.resets_on_eos);
        for at in self.n_past()..ids.len() {
            let mut mix =
                wrapped(ids[at].wrapping_mul(parameters.multipliers[0]), parameters.dtype);
            let mut is_cut = false;
            for shift in 1..self.max_ngram_size {
                let from = at - shift;
                let borders = segments[from].zip(segments[from + 1]).is_some_and(|(a, b)| a != b);
                is_cut = is_cut || borders || eos == Some(ids[from]);
                let token = if is_cut { self.nothing(parameters) } else { ids[from] };
                let product = token.wrapping_mul(parameters.multipliers[shift]);
                mix ^= wrapped(product, parameters.dtype);
                for head in (shift - 1) * self.n_heads..shift * self.n_heads {
                    let hash = mix.rem_euclid(parameters.vocabularies[head]);
                    let offset = parameters.offsets.as_ref().map_or(0, |offsets| offsets[head]);
                    hashes.push(wrapped(hash.wrapping_add(offset), parameters.dtype));
                }
            }
        }
    }
}

/// The low bits of `x` that an element of `dtype` has.
fn wrapped(x: i64, dtype: DType) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "wrapping is intended")]
    let low = x as i32;
    if dtype == DType::I32 { low.into() } else { x }
}

/// Writes integers to the output at `index`, if it is present and used.
///
/// # Errors
/// If something else was planned, or one is too large.
pub(crate) fn write_ints(
    outputs: &mut [Output<'_>],
    index: usize,
    dtype: DType,
    shape: &[usize],
    values: &[i64],
) -> Result<(), OpError> {
    let Some(output) = outputs.get_mut(index).filter(|output| output.is_wanted()) else {
        return Ok(());
    };
    let y = output.tensor(dtype, shape)?;
    if dtype != DType::I32 {
        y.into_slice::<i64>()?.copy_from_slice(values);
        return Ok(());
    }
    for (y, &value) in y.into_slice::<i32>()?.iter_mut().zip(values) {
        *y = value.try_into().map_err(|_| OpError::TooLarge)?;
    }
    Ok(())
}

impl Operator for NGramHashMapping {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let Self(hash) = *self;
        let dtype = hash.check(inputs, 4, 5)?;
        inputs.expect_dtype(3, dtype)?;
        inputs.expect_dtype(6, DType::I32)?;
        let [batch, length] = match inputs.fact(0)?.dims() {
            None => [Dim::Unknown, Dim::Unknown],
            Some([batch, length]) => [batch.clone(), length.clone()],
            Some(dims) => return Err(wrong_rank(dims.len())),
        };
        let present = [batch.clone(), Dim::Known(hash.n_past())];
        expect_dims(inputs, 3, &present)?;
        expect_dims(inputs, 6, &[batch.clone(), length.clone()])?;
        let hashes = [batch, length, Dim::Known(hash.n_hashes()?)];
        Ok(vec![Fact::tensor(dtype, hashes), Fact::tensor(dtype, present)])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let Self(hash) = *self;
        let ids = inputs.tensor(0)?;
        let &[batch, length] = ids.shape() else { return Err(wrong_rank(ids.shape().len())) };
        let parameters = hash.parameters(inputs, 4, 5)?;
        let (n_past, ids) = (hash.n_past(), int_values(ids)?);
        let past = inputs.optional_tensor(3)?.map(int_values).transpose()?;
        let segments = inputs.optional_tensor(6)?.map(int_values).transpose()?;
        let n_pasts = batch.checked_mul(n_past).ok_or(OpError::TooLarge)?;
        let fits = past.as_ref().is_none_or(|past| past.len() == n_pasts)
            && segments.as_ref().is_none_or(|segments| segments.len() == ids.len());
        if !fits {
            let (left, right) = (vec![batch, length], vec![n_past]);
            return Err(OpError::Shapes { what: "past and segments", left, right });
        }
        let shape = [batch, length, hash.n_hashes()?];
        let n_hashes = n_elements(&shape).ok_or(OpError::TooLarge)?;
        let (mut hashes, mut present) = (with_room(n_hashes)?, with_room(n_pasts)?);
        for row in 0..batch {
            let mut tokens = match &past {
                Some(past) => Room::of(past[row * n_past..][..n_past].iter().copied())?,
                None => Room::filled(hash.nothing(&parameters), n_past)?,
            };
            tokens.extend(ids[row * length..][..length].iter().copied())?;
            let mut borders = Room::filled(None, tokens.len())?;
            if let Some(segments) = &segments {
                let own = segments[row * length..][..length].iter().copied().map(Some);
                borders[n_past..].iter_mut().zip(own).for_each(|(to, from)| *to = from);
            }
            hash.hash(&parameters, (&tokens, &borders), &mut hashes);
            present.extend(&tokens[length..]);
        }
        write_ints(outputs, 0, parameters.dtype, &shape, &hashes)?;
        write_ints(outputs, 1, parameters.dtype, &[batch, n_past], &present)
    }
}

const fn wrong_rank(found: usize) -> OpError {
    OpError::InputRank { index: 0, expected: "2", found }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, Value};

    use crate::case::{Case, tensor};

    fn case() -> Case {
        Case::new("NGramHashMapping", 1)
            .domain("com.microsoft")
            .attr("max_ngram_size", Attr::Int(3))
            .attr("n_head_per_ngram", Attr::Int(1))
            .attr("pad_id", Attr::Int(7))
            .outputs(2)
    }

    /// Four tokens, and the optional inputs: past, offsets, end of sequence, segments.
    fn run(case: &Case, optional: [Option<Tensor>; 4]) -> Result<[Vec<i64>; 2], String> {
        let vocabularies = tensor(&[2], &[1_i64 << 40; 2]);
        let inputs =
            [tensor(&[1, 4], &[1_i64, 2, 3, 4]), tensor(&[3], &[1_i64, 100, 10_000]), vocabularies];
        let inputs: Vec<_> = inputs.into_iter().map(Some).chain(optional).collect();
        let values = case.run_optional(&inputs)?;
        let ints = |value: &Value| value.as_tensor().unwrap().as_slice::<i64>().unwrap().to_vec();
        Ok([ints(&values[0]), ints(&values[1])])
    }

    fn past() -> Option<Tensor> {
        Some(tensor(&[1, 2], &[21_i64, 22]))
    }

    fn eos(token: i64) -> Option<Tensor> {
        Some(Tensor::scalar(token))
    }

    #[test]
    fn tokens_are_mixed_with_those_before() {
        let cases: [([Option<Tensor>; 4], [i64; 8]); 5] = [
            ([None, None, None, None], [701, 70605, 102, 69910, 203, 10203, 296, 20232]),
            ([past(), None, None, None], [2201, 212_169, 102, 219_910, 203, 10203, 296, 20232]),
            ([None, None, eos(9), None], [901, 89109, 102, 90102, 203, 10203, 296, 20232]),
            (
                [past(), None, None, Some(tensor(&[1, 4], &[1, 1, 2, 2]))],
                [2201, 212_169, 102, 219_910, 703, 70607, 296, 69720],
            ),
            (
                [None, Some(tensor(&[2], &[5_i64, -9])), None, None],
                [706, 70596, 107, 69901, 208, 10194, 301, 20223],
            ),
        ];
        for (optional, hashes) in cases {
            let found = run(&case(), optional.clone());
            assert_eq!(found, Ok([hashes.to_vec(), vec![3, 4]]), "{optional:?}");
        }
    }

    #[test]
    fn nothing_before_an_end_of_sequence_counts() {
        let case = case().attr("reset_on_eos", Attr::Int(1));
        let cases = [
            (2, [2201, 212_169, 102, 219_910, 203, 20203, 296, 20232]),
            (22, [2201, 218_105, 102, 219_910, 203, 10203, 296, 20232]),
        ];
        for (token, hashes) in cases {
            let found = run(&case, [past(), None, eos(token), None]);
            assert_eq!(found.map(|[found, _]| found), Ok(hashes.to_vec()), "{token}");
        }
    }

    #[test]
    fn int32_wraps_and_the_past_may_be_longer_than_the_tokens() {
        let inputs = [
            tensor(&[1, 1], &[i32::MAX]),
            tensor(&[3], &[2, 1, 1]),
            tensor(&[2], &[1000; 2]),
            tensor(&[1, 2], &[5, 6]),
        ];
        let values = case().run(&inputs).unwrap();
        // 2·(2³¹ − 1) wraps to −2.
        let hashes = [(-2_i32 ^ 6).rem_euclid(1000), (-2_i32 ^ 6 ^ 5).rem_euclid(1000)];
        assert_eq!(values[0], tensor(&[1, 1, 2], &hashes).into());
        assert_eq!(values[1], tensor(&[1, 2], &[6, i32::MAX]).into());
    }

    #[test]
    fn inputs_that_do_not_fit_are_refused() {
        let wrong = [
            [Some(tensor(&[1, 1], &[1_i64])), None, None, None],
            [None, Some(tensor(&[1], &[1_i64])), None, None],
            [None, None, Some(tensor(&[2], &[1_i64; 2])), None],
            [None, None, None, Some(tensor(&[1, 3], &[1; 3]))],
        ];
        for optional in wrong {
            assert!(run(&case(), optional.clone()).is_err(), "{optional:?}");
        }
        for name in ["max_ngram_size", "n_head_per_ngram"] {
            for n in [0, -1, i64::MAX] {
                let case = case().attr(name, Attr::Int(n));
                assert!(run(&case, [None, None, None, None]).is_err(), "{name} {n}");
            }
        }
    }
}
