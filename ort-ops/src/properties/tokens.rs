//! Operators on tokens: n-grams, hashes, and split texts.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::draw::signed;
use super::linear::eighths;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::microsoft("BifurcationDetector", bifurcation),
    Property::microsoft("MurmurHash3", murmur_hash),
    Property::microsoft("NGramRepeatBlock", repeat_block),
    Property::onnx("TfIdfVectorizer", &[9], tf_idf),
];

/// Tokens below `n`, or any values if the type has no integers.
pub(super) fn tokens(draw: &mut Draw, dtype: DType, shape: &[usize], n: usize) -> Tensor {
    match dtype.is_integer() {
        true => draw.positions(shape, n, false).to_tensor(dtype),
        false => draw.any(dtype, shape),
    }
}

fn bifurcation(draw: &mut Draw, dtype: DType) -> Sample {
    let [n_source, n_current] = [draw.below(9), draw.below(5)];
    let source = tokens(draw, dtype, &[n_source], 2);
    let current = tokens(draw, dtype, &[n_current], 2);
    let start = draw.below(n_source + 1);
    let shape: &[usize] = if draw.one_in(2) { &[] } else { &[1] };
    let place = Array { shape: shape.to_vec(), cells: vec![Cell::Int(signed(start).into())] };
    let predicted = draw.one_in(2).then(|| tokens(draw, DType::I64, &[n_source + 1 - start], 2));
    let least = draw.pick(&[None, Some(1), Some(2)]);
    let most = draw.pick(&[None, Some(3), Some(5)]);
    let sample = Sample::new(&[&source.clone(), &current.clone(), &place.to_tensor(DType::I64)], {
        let predicted = predicted.clone();
        move || {
            let (source, mut tokens) = (Array::of(&source).cells, Array::of(&current).cells);
            if let Some(predicted) = &predicted {
                // Those that agree with the source, and the first that differs.
                let predicted = Array::of(predicted).cells;
                let equal = predicted.iter().zip(&source[start..]).take_while(|(a, b)| a == b);
                tokens.extend_from_slice(&predicted[..=equal.count()]);
            }
            let lengths = least.unwrap_or(1)..=most.unwrap_or(3);
            let end = place.map(|_| Cell::Int(only_end(&source, &tokens, lengths.clone())));
            let tokens = Array { shape: vec![tokens.len()], cells: tokens };
            let outputs = [Expected::exact(DType::I64, tokens), Expected::exact(DType::I64, end)];
            outputs.into_iter().flatten().collect()
        }
    });
    sample
        .outputs(2)
        .input(3, predicted)
        .maybe("min_ngram_size", least.map(|n| Attr::Int(signed(n))))
        .maybe("max_ngram_size", most.map(|n| Attr::Int(signed(n))))
}

/// The end of the only n-gram of `source` that is the end of `tokens`, for the first length with at most one; −1 if
/// there is none.
fn only_end(source: &[Cell], tokens: &[Cell], lengths: std::ops::RangeInclusive<usize>) -> i128 {
    for n in lengths.take_while(|&n| n <= tokens.len()) {
        let ends: Vec<_> =
            (n..=source.len()).filter(|&end| tokens.ends_with(&source[end - n..end])).collect();
        match ends[..] {
            [] => return -1,
            [end] => return signed(end).into(),
            _ => {}
        }
    }
    -1
}

fn murmur_hash(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(0);
    let x = match dtype {
        DType::String => {
            let mut text = || (0..draw.below(12)).map(|_| draw.pick(&['a', 'é', '0'])).collect();
            Array::from_fn(&shape, |_| Cell::Text(text())).to_tensor(dtype)
        }
        _ => draw.any(dtype, &shape),
    };
    let seed = draw.pick(&[None, Some(0_i64), Some(42), Some(-7)]);
    let positive = draw.pick(&[None, Some(0), Some(1)]);
    let hash_type = if positive == Some(0) { DType::I32 } else { DType::U32 };
    let sample = Sample::new(&[&x.clone()], move || {
        let seed = seed.unwrap_or(0).rem_euclid(1 << 32).unsigned_abs();
        let view = x.view();
        let hashes: Vec<u64> = match view.as_bytes() {
            Some(bytes) if !bytes.is_empty() => {
                bytes.chunks(bytes.len() / x.len()).map(|bytes| murmur3(bytes, seed)).collect()
            }
            Some(_) => Vec::new(),
            None => {
                let texts = view.as_strings().unwrap();
                texts.iter().map(|text| murmur3(text.as_bytes(), seed)).collect()
            }
        };
        let cells = hashes.into_iter().map(|hash| Cell::Int(hash.into())).collect();
        Expected::exact(hash_type, Array { shape: shape.clone(), cells })
    });
    sample.maybe("seed", seed.map(Attr::Int)).maybe("positive", positive.map(Attr::Int))
}

/// MurmurHash3_x86_32, on numbers modulo 2³² in words of twice the size.
fn murmur3(bytes: &[u8], seed: u64) -> u64 {
    const MODULUS: u64 = 1 << 32;
    let times = |a: u64, b: u64| a * b % MODULUS;
    let rotated = |x: u64, n: u32| (x << n) % MODULUS + (x >> (32 - n));
    let mut hash = seed;
    for block in bytes.chunks(4) {
        let word = block.iter().rev().fold(0, |word, &byte| word * 256 + u64::from(byte));
        hash ^= times(rotated(times(word, 0xcc9e_2d51), 15), 0x1b87_3593);
        if block.len() == 4 {
            hash = (times(rotated(hash, 13), 5) + 0xe654_6b64) % MODULUS;
        }
    }
    hash ^= u64::try_from(bytes.len()).unwrap();
    hash = times(hash ^ (hash >> 16), 0x85eb_ca6b);
    hash = times(hash ^ (hash >> 13), 0xc2b2_ae35);
    hash ^ (hash >> 16)
}

fn repeat_block(draw: &mut Draw, dtype: DType) -> Sample {
    let [n_batches, length, vocabulary] = [draw.dim(), draw.below(9), draw.some_dim()];
    let n = 1 + draw.below(4);
    let ids = tokens(draw, DType::I64, &[n_batches, length], vocabulary);
    let scores = draw.any(dtype, &[n_batches, vocabulary]);
    let sample = Sample::new(&[&ids.clone(), &scores.clone()], move || {
        let (ids, scores) = (Array::of(&ids), Array::of(&scores));
        let y = Array::from_fn(&scores.shape, |index| {
            let ids: Vec<_> = (0..length).map(|at| ids.at(&[index[0], at]).int()).collect();
            // The n-gram that this token would form.
            let mut ngram = ids[(length + 1).saturating_sub(n)..].to_vec();
            ngram.push(signed(index[1]).into());
            match ids.windows(n).any(|seen| seen == ngram) {
                true => Cell::Float(f64::NEG_INFINITY),
                false => scores.at(index).clone(),
            }
        });
        Expected::exact(dtype, y)
    });
    sample.attr("ngram_size", Attr::Int(signed(n)))
}

/// The n-grams, and the weighting of their counts.
#[derive(Clone)]
struct Pool {
    /// By length, each once.
    ngrams: Vec<Vec<Cell>>,
    indexes: Vec<usize>,
    weights: Option<Vec<f32>>,
    mode: &'static str,
    lengths: (usize, usize),
    max_skip: usize,
}

impl Pool {
    fn draw(draw: &mut Draw, alphabet: &[Cell]) -> Self {
        let n_lengths = 1 + draw.below(3);
        let mut ngrams: Vec<Vec<Cell>> = Vec::new();
        for length in 1..=n_lengths {
            // At least one in all.
            for _ in 0..draw.below(4) + usize::from(length == n_lengths) {
                let ngram: Vec<_> = (0..length).map(|_| draw.pick(alphabet)).collect();
                if !ngrams.contains(&ngram) {
                    ngrams.push(ngram);
                }
            }
        }
        let most = 1 + draw.below(n_lengths);
        let least = 1 + draw.below(most);
        Self {
            indexes: ngrams.iter().map(|_| draw.below(ngrams.len() + 1)).collect(),
            weights: draw.one_in(2).then(|| eighths(draw, ngrams.len(), -32)),
            ngrams,
            mode: draw.pick(&["TF", "IDF", "TFIDF"]),
            lengths: (least, most),
            max_skip: draw.below(4),
        }
    }

    /// How often an n-gram occurs among tokens at one distance from each other; a single token at no distance.
    fn count(&self, ngram: &[Cell], tokens: &[Cell]) -> f64 {
        let (n, (least, most)) = (ngram.len(), self.lengths);
        let distances = if n == 1 { 1 } else { self.max_skip + 1 };
        let occurs = |start: usize, distance: usize| {
            let token = |(k, wanted)| tokens.get(start + k * distance) == Some(wanted);
            (least..=most).contains(&n) && ngram.iter().enumerate().all(token)
        };
        let places = (1..=distances).flat_map(|d| (0..tokens.len()).map(move |start| (start, d)));
        places.filter(|&(start, distance)| occurs(start, distance)).map(|_| 1.0).sum()
    }

    fn row(&self, tokens: &[Cell]) -> Vec<f64> {
        let mut row = vec![0.0; self.indexes.iter().max().unwrap() + 1];
        for (i, ngram) in self.ngrams.iter().enumerate() {
            let weight = self.weights.as_ref().map_or(1.0, |weights| f64::from(weights[i]));
            let (count, y) = (self.count(ngram, tokens), &mut row[self.indexes[i]]);
            match self.mode {
                "TF" => *y += count,
                "TFIDF" => *y += count * weight,
                _ if count > 0.0 => *y = weight,
                _ => {}
            }
        }
        row
    }

    fn written(&self, sample: Sample, dtype: DType) -> Sample {
        let starts = (1..=self.ngrams.iter().map(Vec::len).max().unwrap()).map(|length| {
            let shorter = self.ngrams.iter().filter(|ngram| ngram.len() < length);
            signed(shorter.map(Vec::len).sum())
        });
        let cells = self.ngrams.concat();
        let tensor = Array { shape: vec![cells.len()], cells }.to_tensor(dtype);
        let (name, pool) = match tensor.view().as_strings() {
            Ok(texts) => ("pool_strings", Attr::Strings(texts.to_vec())),
            Err(_) => ("pool_int64s", Attr::Ints(tensor.as_slice().unwrap().to_vec())),
        };
        let indexes = self.indexes.iter().copied().map(signed).collect();
        sample
            .attr(name, pool)
            .attr("ngram_counts", Attr::Ints(starts.collect()))
            .attr("ngram_indexes", Attr::Ints(indexes))
            .maybe("weights", self.weights.clone().map(Attr::Floats))
            .attr("mode", Attr::String(self.mode.to_owned()))
            .attr("min_gram_length", Attr::Int(signed(self.lengths.0)))
            .attr("max_gram_length", Attr::Int(signed(self.lengths.1)))
            .attr("max_skip_count", Attr::Int(signed(self.max_skip)))
    }
}

fn tf_idf(draw: &mut Draw, dtype: DType) -> Sample {
    // The last of these is in no n-gram.
    let alphabet = ["a", "é", ""].map(|text| Cell::Text(text.to_owned()));
    let numbers = [0, -3, 7].map(Cell::Int);
    let (alphabet, pool_type) = match dtype {
        DType::String => (alphabet, DType::String),
        _ => (numbers, DType::I64),
    };
    let pool = Pool::draw(draw, &alphabet[..2]);
    let (is_row, length) = (draw.one_in(3), draw.below(8));
    let shape = if is_row { vec![length] } else { vec![draw.dim(), length] };
    let x = match dtype {
        DType::String | DType::I32 | DType::I64 => {
            Array::from_fn(&shape, |_| draw.pick(&alphabet)).to_tensor(dtype)
        }
        _ => draw.any(dtype, &shape),
    };
    let sample = Sample::new(&[&x.clone()], {
        let pool = pool.clone();
        move || {
            let x = Array::of(&x);
            let rows = if is_row { &[][..] } else { &shape[..1] };
            let width = pool.row(&[]).len();
            let y = Array::from_fn(&[rows, &[width]].concat(), |index| {
                let row = if is_row { 0 } else { index[0] };
                let tokens = &x.cells[row * length..][..length];
                Cell::Float(pool.row(tokens)[*index.last().unwrap()])
            });
            Expected::exact(DType::F32, y)
        }
    });
    pool.written(sample, pool_type)
}
