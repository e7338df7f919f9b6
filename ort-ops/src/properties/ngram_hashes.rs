//! Hashes of the n-grams that end at each token.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::draw::{ints, signed};
use super::tokens::tokens;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::microsoft("NGramHashMapping", mapping),
    Property::microsoft("VarlenNGramHashMapping", varlen_mapping),
];

/// The parameters of all sequences.
#[derive(Clone)]
struct Hashing {
    dtype: DType,
    n_max: usize,
    n_heads: usize,
    pad: i64,
    resets: bool,
    eos: Option<Tensor>,
    multipliers: Tensor,
    vocabularies: Tensor,
    offsets: Option<Tensor>,
}

impl Hashing {
    fn draw(draw: &mut Draw, dtype: DType) -> Self {
        let (n_max, n_heads) = (2 + draw.below(3), 1 + draw.below(2));
        let n_hashes = (n_max - 1) * n_heads;
        let n_multipliers = n_max + draw.below(2);
        // For an unsupported type, any values.
        let vocabularies = match dtype.is_integer() {
            true => {
                Array::from_fn(&[n_hashes], |_| Cell::Int(draw.int(1, 100).into())).to_tensor(dtype)
            }
            false => draw.any(dtype, &[n_hashes]),
        };
        Self {
            dtype,
            n_max,
            n_heads,
            pad: draw.int(0, 3),
            resets: draw.one_in(2),
            eos: draw.one_in(2).then(|| tokens(draw, dtype, &[1], 3)),
            multipliers: draw.any(dtype, &[n_multipliers]),
            vocabularies,
            offsets: draw.one_in(2).then(|| draw.any(dtype, &[n_hashes])),
        }
    }

    fn n_past(&self) -> usize {
        self.n_max - 1
    }

    fn eos(&self) -> Option<i128> {
        self.eos.as_ref().map(|eos| Array::of(eos).cells[0].int())
    }

    /// The replacement of missing tokens.
    fn nothing(&self) -> i128 {
        self.eos().unwrap_or(self.pad.into())
    }

    /// The value of the low bits of `x`.
    fn low(&self, x: i128) -> i128 {
        Cell::Int(x).rounded(self.dtype).int()
    }

    /// The hashes of the token at `at`, head by head, of n-grams of each length.
    fn hashes(&self, ids: &[i128], segments: &[Option<i128>], at: usize) -> Vec<Cell> {
        let multipliers = Array::of(&self.multipliers).cells;
        let vocabularies = Array::of(&self.vocabularies).cells;
        let offsets = self.offsets.as_ref().map(|offsets| Array::of(offsets).cells);
        let eos = self.eos().filter(|_| self.resets);
        // The token `back` before, unless a border or an end is between.
        let token = |back: usize| {
            let is_cut = (1..=back).any(|step| {
                let (id, pair) = (ids[at - step], (segments[at - step], segments[at - step + 1]));
                Some(id) == eos || matches!(pair, (Some(a), Some(b)) if a != b)
            });
            if is_cut { self.nothing() } else { ids[at - back] }
        };
        let product = |back: usize| self.low(token(back) * multipliers[back].int());
        let hash = |head: usize| {
            let n = 2 + head / self.n_heads;
            let mix = (0..n).map(product).fold(0, |mix, product| mix ^ product);
            let hash = mix.rem_euclid(vocabularies[head].int());
            let offset = offsets.as_ref().map_or(0, |offsets| offsets[head].int());
            Cell::Int(self.low(hash + offset))
        };
        (0..vocabularies.len()).map(hash).collect()
    }

    fn written(&self, sample: Sample) -> Sample {
        let resets = if self.resets { Some(Attr::Int(1)) } else { None };
        sample
            .attr("max_ngram_size", Attr::Int(signed(self.n_max)))
            .attr("n_head_per_ngram", Attr::Int(signed(self.n_heads)))
            .attr("pad_id", Attr::Int(self.pad))
            .maybe("reset_on_eos", resets)
    }
}

/// One sequence: its past, and then its own tokens, with the segments of both.
struct Sequence {
    ids: Vec<i128>,
    segments: Vec<Option<i128>>,
}

/// The integers of a row, or of a part of all.
fn row(tensor: &Tensor, range: std::ops::Range<usize>) -> Vec<i128> {
    Array::of(tensor).cells[range].iter().map(Cell::int).collect()
}

/// The outputs that both operators have, of sequences.
fn hashes_and_past(hashing: &Hashing, sequences: &[Sequence]) -> (Vec<Cell>, Vec<Cell>) {
    let n_past = hashing.n_past();
    let of = |it: &Sequence| -> Vec<Cell> {
        let own = n_past..it.ids.len();
        own.flat_map(|at| hashing.hashes(&it.ids, &it.segments, at)).collect()
    };
    let last = |it: &Sequence| -> Vec<Cell> {
        it.ids[it.ids.len() - n_past..].iter().copied().map(Cell::Int).collect()
    };
    (sequences.iter().flat_map(of).collect(), sequences.iter().flat_map(last).collect())
}

fn mapping(draw: &mut Draw, dtype: DType) -> Sample {
    let hashing = Hashing::draw(draw, dtype);
    let (batch, length, n_past) = (draw.dim(), draw.dim(), hashing.n_past());
    let ids = tokens(draw, dtype, &[batch, length], 4);
    let past = draw.one_in(2).then(|| tokens(draw, dtype, &[batch, n_past], 4));
    let segments = draw.one_in(2).then(|| tokens(draw, DType::I32, &[batch, length], 2));
    let n_hashes = n_past * hashing.n_heads;
    let (multipliers, vocabularies) = (&hashing.multipliers, &hashing.vocabularies);
    let sample = Sample::new(&[&ids.clone(), multipliers, vocabularies], {
        let (hashing, past, segments) = (hashing.clone(), past.clone(), segments.clone());
        move || {
            let sequence = |i: usize| {
                let before = past.as_ref().map(|past| row(past, i * n_past..(i + 1) * n_past));
                let before = before.unwrap_or_else(|| vec![hashing.nothing(); n_past]);
                let own = i * length..(i + 1) * length;
                let of_own: Vec<_> = match &segments {
                    Some(all) => row(all, own.clone()).into_iter().map(Some).collect(),
                    None => vec![None; length],
                };
                Sequence {
                    ids: [before, row(&ids, own)].concat(),
                    segments: [vec![None; n_past], of_own].concat(),
                }
            };
            let sequences: Vec<_> = (0..batch).map(sequence).collect();
            let (hashes, last) = hashes_and_past(&hashing, &sequences);
            outputs(
                dtype,
                vec![(vec![batch, length, n_hashes], hashes), (vec![batch, n_past], last)],
            )
        }
    });
    let sample = hashing.written(sample).outputs(2);
    let (offsets, eos) = (hashing.offsets.clone(), hashing.eos.clone());
    sample.input(3, past).input(4, offsets).input(5, eos).input(6, segments)
}

fn outputs(dtype: DType, arrays: Vec<(Vec<usize>, Vec<Cell>)>) -> Vec<Expected> {
    let exact = |(shape, cells)| Expected::exact(dtype, Array { shape, cells });
    arrays.into_iter().flat_map(exact).collect()
}

/// Packed sequences.
#[derive(Clone)]
struct Packed {
    ids: Tensor,
    ends: Vec<usize>,
    past: Option<Tensor>,
    segments: Option<Tensor>,
    past_segments: Option<Tensor>,
    /// The number of requested states of each.
    counts: Option<Vec<i64>>,
    capacity: usize,
}

impl Packed {
    fn draw(draw: &mut Draw, dtype: DType, n_past: usize) -> Self {
        let batch = draw.dim();
        let mut ends = vec![0];
        for i in 0..batch {
            ends.push(ends[i] + draw.some_dim());
        }
        let n = ends[batch];
        let capacity = draw.pick(&[0, 1, 3]);
        let segments = draw.one_in(2).then(|| tokens(draw, DType::I32, &[n], 2));
        let has_past_segments = segments.is_some() && draw.one_in(2);
        let past_segments =
            has_past_segments.then(|| tokens(draw, DType::I32, &[batch, n_past], 2));
        Self {
            ids: tokens(draw, dtype, &[n], 4),
            past: draw.one_in(2).then(|| tokens(draw, dtype, &[batch, n_past], 4)),
            segments,
            past_segments,
            counts: (capacity > 0).then(|| (0..batch).map(|_| draw.int(0, 4)).collect()),
            capacity,
            ends,
        }
    }

    fn sequence(&self, i: usize, hashing: &Hashing) -> Sequence {
        let n_past = hashing.n_past();
        let (before, own) = (i * n_past..(i + 1) * n_past, self.ends[i]..self.ends[i + 1]);
        let past = match &self.past {
            Some(past) => row(past, before.clone()),
            None => vec![hashing.nothing(); n_past],
        };
        let of_own = match &self.segments {
            Some(segments) => row(segments, own.clone()),
            None => vec![0; own.len()],
        };
        // A past without segments has the segment that follows.
        let of_past = match &self.past_segments {
            Some(segments) => row(segments, before),
            None => vec![of_own[0]; n_past],
        };
        Sequence {
            ids: [past, row(&self.ids, own)].concat(),
            segments: [of_past, of_own].concat().into_iter().map(Some).collect(),
        }
    }

    /// The past after each of the first tokens; after the others padding.
    fn states(&self, i: usize, sequence: &Sequence, hashing: &Hashing) -> Vec<Cell> {
        let n_past = hashing.n_past();
        let n = self.ends[i + 1] - self.ends[i];
        let count = self.counts.as_ref().map_or(0, |counts| counts[i]);
        let state = |after: usize| match signed(after) <= count && after <= n {
            true => sequence.ids[after..after + n_past].to_vec(),
            false => vec![hashing.pad.into(); n_past],
        };
        (1..=self.capacity).flat_map(state).map(Cell::Int).collect()
    }
}

fn varlen_mapping(draw: &mut Draw, dtype: DType) -> Sample {
    let hashing = Hashing::draw(draw, dtype);
    let (n_past, n_outputs) = (hashing.n_past(), 1 + draw.below(4));
    let packed = Packed::draw(draw, dtype, n_past);
    let batch = packed.ends.len() - 1;
    let int32 = |values: &[i64]| Array::of(&ints(values)).to_tensor(DType::I32);
    let ends: Vec<_> = packed.ends.iter().copied().map(signed).collect();
    let (multipliers, vocabularies) = (&hashing.multipliers, &hashing.vocabularies);
    let inputs = [&packed.ids, multipliers, vocabularies, &int32(&ends)];
    let sample = Sample::new(&inputs, {
        let (hashing, packed) = (hashing.clone(), packed.clone());
        move || {
            let sequences: Vec<_> = (0..batch).map(|i| packed.sequence(i, &hashing)).collect();
            let (hashes, last) = hashes_and_past(&hashing, &sequences);
            let segments = sequences.iter().flat_map(|it| {
                let last = &it.segments[it.segments.len() - n_past..];
                last.iter().map(|segment| Cell::Int(segment.unwrap()))
            });
            let states = sequences.iter().enumerate();
            let states = states.flat_map(|(i, it)| packed.states(i, it, &hashing)).collect();
            let n_hashes = n_past * hashing.n_heads;
            let mut all = outputs(
                dtype,
                vec![(vec![packed.ids.len(), n_hashes], hashes), (vec![batch, n_past], last)],
            );
            all.extend(outputs(DType::I32, vec![(vec![batch, n_past], segments.collect())]));
            all.extend(outputs(dtype, vec![(vec![batch, packed.capacity, n_past], states)]));
            all.truncate(n_outputs);
            all
        }
    });
    let sample = hashing.written(sample).outputs(n_outputs);
    let sample = match packed.capacity {
        0 => sample,
        n => sample.attr("state_update_capacity", Attr::Int(signed(n))),
    };
    let Packed { past, segments, past_segments, counts, .. } = packed;
    let sample = sample.input(4, past).input(5, hashing.offsets).input(6, hashing.eos);
    let sample = sample.input(7, segments).input(8, past_segments);
    match counts {
        Some(counts) => sample.input(9, int32(&counts)),
        None => sample,
    }
}
