//! VarlenNGramHashMapping: hashes of n-grams of packed sequences.

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Room, n_elements, try_collected, with_room};

use super::ngram_hash_mapping::{NGramHash, Parameters, write_ints};
use crate::infer::{expect_dims, int_values, vector_len};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "VarlenNGramHashMapping",
    versions: (1, 1),
    types: DType::is_index,
    build: VarlenNGramHashMapping::build,
}];

/// VarlenNGramHashMapping: [`NGramHashMapping`](super::ngram_hash_mapping::NGramHashMapping) for sequences of any
/// length: sequence `i` is `ids[ends[i]..ends[i + 1]]`.
///
/// Inputs: `ids: [T]`, `multipliers`, `vocabularies`, `ends: [B + 1]` (int32), and optionally `past:
/// [B, N−1]`, `offsets`, `eos`, `segments: [T]` and `past_segments: [B, N−1]` (int32), and `counts:
/// [B]` (int32), which is present if `capacity` is not 0. Outputs: the hashes `[T, (N−1)·H]`, past and past segments
/// for the next tokens, and `[B, capacity, N−1]`, the past after each of the first `counts` tokens; after the others
/// `pad_id`. A past without segments has the segment that follows it; without segments, all are 0.
///
/// Source: com.microsoft, VarlenNGramHashMapping-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VarlenNGramHashMapping {
    /// How n-grams are hashed.
    pub hash: NGramHash,
    /// The number of tokens for which output 3 has the past.
    pub capacity: usize,
}

/// ONNX Runtime's limit of the capacity.
const MAX_CAPACITY: usize = 8;

impl VarlenNGramHashMapping {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let name = "state_update_capacity";
        let n = spec.int(name)?.unwrap_or(0);
        let capacity = usize::try_from(n).ok().filter(|&n| n <= MAX_CAPACITY);
        let wrong = OpError::AttributeValue { name, found: n.to_string() };
        let capacity = capacity.ok_or(wrong)?;
        if (capacity > 0) != spec.has_input(9) {
            let expected = "10, the last if `state_update_capacity` is not 0,";
            return Err(OpError::InputCount { expected, found: spec.inputs.len() });
        }
        if spec.has_input(8) && !spec.has_input(7) {
            let expected = "segments with past segments: 8 or 9";
            return Err(OpError::InputCount { expected, found: spec.inputs.len() });
        }
        Ok(Arc::new(Self { hash: NGramHash::of_node(spec)?, capacity }))
    }
}

/// The inputs that are split into sequences.
struct Packed {
    ids: Vec<i64>,
    ends: Vec<usize>,
    past: Option<Vec<i64>>,
    segments: Option<Vec<i64>>,
    past_segments: Option<Vec<i64>>,
    counts: Option<Vec<i64>>,
}

impl Packed {
    fn read(inputs: Inputs<'_>, n_past: usize) -> Result<Self, OpError> {
        let ints = |index| inputs.optional_tensor(index)?.map(int_values).transpose();
        let ids = int_values(inputs.tensor(0)?)?;
        let ends = int_values(inputs.tensor(3)?)?.into_iter();
        let ends: Vec<usize> =
            try_collected(ends.map(|end| end.try_into().map_err(|_| wrong_ends())))?;
        let is_rising = ends.windows(2).all(|pair| pair[0] < pair[1]);
        if ends.first() != Some(&0) || ends.last() != Some(&ids.len()) || !is_rising {
            return Err(wrong_ends());
        }
        let batch = ends.len() - 1;
        let packed = Self {
            past: ints(4)?,
            segments: ints(7)?,
            past_segments: ints(8)?,
            counts: ints(9)?,
            ends,
            ids,
        };
        let n_pasts = batch.checked_mul(n_past).ok_or(OpError::TooLarge)?;
        let lengths = [
            (&packed.past, n_pasts),
            (&packed.segments, packed.ids.len()),
            (&packed.past_segments, n_pasts),
            (&packed.counts, batch),
        ];
        for (values, len) in lengths {
            if let Some(values) = values.as_ref().filter(|values| values.len() != len) {
                let (left, right) = (vec![values.len()], vec![len]);
                return Err(OpError::Shapes { what: "an input for each sequence", left, right });
            }
        }
        Ok(packed)
    }

    /// The tokens of a sequence and their segments, both with their past.
    fn sequence(
        &self,
        row: usize,
        n_past: usize,
        nothing: i64,
    ) -> Result<(Room<i64>, Room<Option<i64>>), OpError> {
        let own = self.ends[row]..self.ends[row + 1];
        let before = row * n_past..(row + 1) * n_past;
        let mut ids = match &self.past {
            Some(past) => Room::of(past[before.clone()].iter().copied())?,
            None => Room::filled(nothing, n_past)?,
        };
        ids.extend(self.ids[own.clone()].iter().copied())?;
        let n = own.len();
        let own_segments = self.segments.as_ref().map(|all| &all[own]);
        let first = own_segments.and_then(|own| own.first()).copied().unwrap_or(0);
        let mut segments = match &self.past_segments {
            Some(past) => Room::of(past[before].iter().copied().map(Some))?,
            None => Room::filled(Some(first), n_past)?,
        };
        match own_segments {
            Some(own) => segments.extend(own.iter().copied().map(Some))?,
            None => segments.resize(n_past + n, Some(0))?,
        }
        Ok((ids, segments))
    }
}

const fn wrong_ends() -> OpError {
    OpError::InputValue { index: 3, what: "should rise from 0 to the number of tokens" }
}

impl Operator for VarlenNGramHashMapping {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = self.hash.check(inputs, 5, 6)?;
        inputs.expect_dtype(4, dtype)?;
        inputs.fact(3)?;
        [3, 7, 8, 9].iter().try_for_each(|&index| inputs.expect_dtype(index, DType::I32))?;
        let n_tokens = match inputs.fact(0)?.dims() {
            None => Dim::Unknown,
            Some([n]) => n.clone(),
            Some(dims) => {
                return Err(OpError::InputRank { index: 0, expected: "1", found: dims.len() });
            }
        };
        let batch = vector_len(inputs, 3)?.map(|n| n.checked_sub(1).ok_or_else(wrong_ends));
        let batch = batch.transpose()?.map_or(Dim::Unknown, Dim::Known);
        let n_past = Dim::Known(self.hash.n_past());
        let present = [batch.clone(), n_past.clone()];
        [4, 8].iter().try_for_each(|&index| expect_dims(inputs, index, &present))?;
        expect_dims(inputs, 7, std::slice::from_ref(&n_tokens))?;
        expect_dims(inputs, 9, std::slice::from_ref(&batch))?;
        Ok(vec![
            Fact::tensor(dtype, [n_tokens, Dim::Known(self.hash.n_hashes()?)]),
            Fact::tensor(dtype, present.clone()),
            Fact::tensor(DType::I32, present),
            Fact::tensor(dtype, [batch, Dim::Known(self.capacity), n_past]),
        ])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let n_past = self.hash.n_past();
        let parameters = self.hash.parameters(inputs, 5, 6)?;
        let packed = Packed::read(inputs, n_past)?;
        let batch = packed.ends.len() - 1;
        let shape = [packed.ids.len(), self.hash.n_hashes()?];
        let mut results = Results {
            hashes: with_room(n_elements(&shape).ok_or(OpError::TooLarge)?)?,
            ..Results::default()
        };
        for row in 0..batch {
            self.eval_row(&parameters, &packed, row, &mut results)?;
        }
        write_ints(outputs, 0, parameters.dtype, &shape, &results.hashes)?;
        write_ints(outputs, 1, parameters.dtype, &[batch, n_past], &results.present)?;
        write_ints(outputs, 2, DType::I32, &[batch, n_past], &results.segments)?;
        let shape = [batch, self.capacity, n_past];
        write_ints(outputs, 3, parameters.dtype, &shape, &results.states)
    }
}

/// The outputs.
#[derive(Default)]
struct Results {
    hashes: Vec<i64>,
    present: Room<i64>,
    segments: Room<i64>,
    states: Room<i64>,
}

impl VarlenNGramHashMapping {
    fn eval_row(
        &self,
        parameters: &Parameters,
        packed: &Packed,
        row: usize,
        to: &mut Results,
    ) -> Result<(), OpError> {
        let n_past = self.hash.n_past();
        let (ids, segments) = packed.sequence(row, n_past, self.hash.nothing(parameters))?;
        self.hash.hash(parameters, (&ids, &segments), &mut to.hashes);
        let length = ids.len() - n_past;
        to.present.extend(ids[length..].iter().copied())?;
        to.segments.extend(segments[length..].iter().copied().flatten())?;
        let count = packed.counts.as_ref().map_or(0, |counts| counts[row]);
        let count = usize::try_from(count).unwrap_or(0).min(length);
        for token in 1..=self.capacity {
            match ids.get(token..token + n_past).filter(|_| token <= count) {
                Some(state) => to.states.extend(state.iter().copied())?,
                None => to.states.resize(to.states.len() + n_past, self.hash.pad_id)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, Value};

    use crate::case::{Case, tensor};

    fn case(capacity: i64) -> Case {
        Case::new("VarlenNGramHashMapping", 1)
            .domain("com.microsoft")
            .attr("max_ngram_size", Attr::Int(3))
            .attr("n_head_per_ngram", Attr::Int(1))
            .attr("pad_id", Attr::Int(7))
            .attr("state_update_capacity", Attr::Int(capacity))
            .outputs(4)
    }

    /// Five tokens, and the inputs after `ends`.
    fn run(
        case: &Case,
        ends: &[i32],
        optional: [Option<Tensor>; 6],
    ) -> Result<[Tensor; 4], String> {
        let inputs = [
            tensor(&[5], &[1_i64, 2, 3, 4, 5]),
            tensor(&[3], &[1_i64, 100, 10_000]),
            tensor(&[2], &[1_i64 << 40; 2]),
            tensor(&[ends.len()], ends),
        ];
        let inputs: Vec<_> = inputs.into_iter().map(Some).chain(optional).collect();
        let values = case.run_optional(&inputs)?;
        let of = |value: &Value| value.as_tensor().unwrap().clone();
        Ok([of(&values[0]), of(&values[1]), of(&values[2]), of(&values[3])])
    }

    fn past() -> Option<Tensor> {
        Some(tensor(&[2, 2], &[21_i64, 22, 23, 24]))
    }

    fn segments() -> Option<Tensor> {
        Some(tensor(&[5], &[1, 1, 2, 2, 3]))
    }

    #[test]
    fn each_sequence_has_a_past_of_its_own() {
        let hashes = |hashes: [i64; 10]| tensor(&[5, 2], &hashes);
        let none = || [None, None, None, None, None, None];
        let [found, present, ..] = run(&case(0), &[0, 3, 5], none()).unwrap();
        let y = [701, 70605, 102, 69910, 203, 10203, 696, 70600, 405, 69861];
        assert_eq!((found, present), (hashes(y), tensor(&[2, 2], &[2_i64, 3, 4, 5])));
        let [found, ..] =
            run(&case(0), &[0, 3, 5], [past(), None, None, None, None, None]).unwrap();
        let y = [2201, 212_169, 102, 219_910, 203, 10203, 2404, 232_212, 405, 239_637];
        assert_eq!(found, hashes(y));
    }

    #[test]
    fn nothing_of_another_segment_counts() {
        let optional = [past(), None, None, segments(), Some(tensor(&[2, 2], &[1, 1, 2, 1])), None];
        let [found, _, present, _] = run(&case(0), &[0, 3, 5], optional).unwrap();
        let y = [2201_i64, 212_169, 102, 219_910, 703, 70607, 696, 70600, 697, 70601];
        assert_eq!(found, tensor(&[5, 2], &y));
        assert_eq!(present, tensor(&[2, 2], &[1, 2, 2, 3]));
        let [_, _, present, _] =
            run(&case(0), &[0, 1, 5], [past(), None, None, segments(), None, None]).unwrap();
        assert_eq!(present, tensor(&[2, 2], &[1, 1, 2, 3]));
    }

    #[test]
    fn the_past_after_the_first_tokens_is_kept() {
        let optional = [past(), None, None, None, None, Some(tensor(&[2], &[9, -1]))];
        let [.., states] = run(&case(4), &[0, 3, 5], optional).unwrap();
        let y = [22_i64, 1, 1, 2, 2, 3, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7];
        assert_eq!(states, tensor(&[2, 4, 2], &y));
    }

    #[test]
    fn inputs_that_do_not_fit_are_refused() {
        let none = || [None, None, None, None, None, None];
        for ends in [&[0, 3][..], &[0, 3, 3, 5], &[1, 5], &[0, 6], &[0, -1, 5], &[0], &[]] {
            assert!(run(&case(0), ends, none()).is_err(), "{ends:?}");
        }
        assert!(run(&case(1), &[0, 5], none()).is_err());
        assert!(run(&case(9), &[0, 5], none()).is_err());
        let only_past = [None, None, None, None, Some(tensor(&[1, 2], &[1, 1])), None];
        assert!(run(&case(0), &[0, 5], only_past).is_err());
        assert!(run(&case(0), &[0, 5], [past(), None, None, None, None, None]).is_err());
    }
}
