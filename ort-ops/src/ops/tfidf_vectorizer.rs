//! TfIdfVectorizer: how often n-grams occur.

// collects are bounded: by the rank, and as long as the file's lists

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output, Pace, Shape, TensorError};

use crate::elementwise::unsupported;
use crate::vocabulary::{Vocabulary, read_keys};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "TfIdfVectorizer",
    versions: (9, 9),
    types: is_token,
    build: TfIdfVectorizer::build,
}];

/// TfIdfVectorizer: for each row of `x: [C]` or `[N, C]` (int32, int64 or strings) a row of floats,
/// with the number of times that n-gram `i` of the pool occurs at `ngram_indexes[i]`. An n-gram
/// occurs where its tokens follow each other at one distance of at most `max_skip_count + 1`;
/// single tokens are counted once. Where n-grams share an index, their results are added, but in mode IDF the last
/// prevails.
///
/// Source: ONNX operator set, TfIdfVectorizer-9; shared indices are as in ONNX Runtime.
#[derive(Clone, Debug, PartialEq)]
pub struct TfIdfVectorizer {
    /// The weighting of counts.
    pub mode: Mode,
    /// The lengths of n-grams that count.
    pub lengths: (usize, usize),
    /// How many tokens may be left out between two of an n-gram.
    pub max_skip_count: usize,
    /// How long a row of the output is.
    pub n_outputs: usize,
    tokens: Vocabulary,
    /// Maps the positions of an n-gram's tokens in the pool to the n-gram.
    places: HashMap<Vec<usize>, usize>,
    ngrams: Vec<NGram>,
}

/// The weighting of counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The count.
    Tf,
    /// One, times the weight of the n-gram.
    Idf,
    /// The count, times the weight of the n-gram.
    TfIdf,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct NGram {
    index: usize,
    weight: f32,
}

impl TfIdfVectorizer {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let size = |name, least| {
            let n = spec.int(name)?.ok_or(OpError::MissingAttribute { name })?;
            let size = usize::try_from(n).ok().filter(|&size| size >= least);
            size.ok_or_else(|| OpError::AttributeValue { name, found: n.to_string() })
        };
        let shortest = size("min_gram_length", 1)?;
        let lengths = (shortest, size("max_gram_length", shortest)?);
        let max_skip_count = size("max_skip_count", 0)?;
        let indexes = read_indexes(spec)?;
        let weights = spec.floats("weights")?;
        if let Some(weights) = weights.filter(|weights| weights.len() != indexes.len()) {
            return Err(OpError::AttributeValue { name: "weights", found: format!("{weights:?}") });
        }
        let pool = read_keys(spec, "pool_int64s", "pool_strings")?;
        let tokens = Vocabulary::new(pool.view())?;
        let places: Vec<usize> = tokens.find(pool.view())?.into_iter().flatten().collect();
        let ngrams = indexes.iter().enumerate().map(|(at, &index)| NGram {
            index,
            weight: weights.map_or(1.0, |weights: &[f32]| weights[at]),
        });
        let ngrams: Vec<_> = ngrams.collect();
        let mut by_places = HashMap::new();
        let mut next = 0..ngrams.len();
        for (level, length) in levels(spec, pool.len(), lengths.1)?.into_iter().zip(1..) {
            for ngram in places[level].chunks_exact(length) {
                let name = "ngram_indexes";
                let ngram_id = next.next().ok_or(OpError::MissingAttribute { name })?;
                let is_counted = length >= lengths.0;
                if is_counted && by_places.insert(ngram.to_vec(), ngram_id).is_some() {
                    return Err(OpError::Unsupported { what: "a repeated n-gram" });
                }
            }
        }
        let n_outputs = indexes.iter().max().and_then(|&most| most.checked_add(1));
        let n_outputs = n_outputs.ok_or(OpError::TooLarge)?;
        let mode = read_mode(spec)?;
        Ok(Arc::new(Self {
            mode,
            lengths,
            max_skip_count,
            n_outputs,
            tokens,
            places: by_places,
            ngrams,
        }))
    }

    /// Counts the n-grams among `tokens`, which are positions in the pool.
    fn count(&self, tokens: &[Option<usize>], counts: &mut [u32]) -> Result<(), TensorError> {
        let (mut found, mut pace) = (Vec::new(), Pace::new());
        for length in self.lengths.0..=self.lengths.1 {
            // Single tokens have no distance; n-grams that are too long do not occur.
            let furthest = tokens.len().saturating_sub(1).checked_div(length - 1).unwrap_or(1);
            let furthest = furthest.min(self.max_skip_count.saturating_add(1));
            for distance in 1..=furthest {
                let span = (length - 1) * distance;
                for start in 0..tokens.len().saturating_sub(span) {
                    pace.go(16 * length)?;
                    let ngram = tokens[start..=start + span].iter().step_by(distance);
                    found.clear();
                    found.extend(ngram.flatten());
                    if let Some(&id) = self.places.get(&found).filter(|_| found.len() == length) {
                        counts[id] = counts[id].saturating_add(1);
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes a row, which is zero, from the counts of the n-grams.
    fn write(&self, counts: &[u32], row: &mut [f32]) {
        for (&count, &NGram { index, weight }) in counts.iter().zip(&self.ngrams) {
            match self.mode {
                Mode::Tf => row[index] += f32::from_f64(count.into()),
                Mode::TfIdf => row[index] += f32::from_f64(f64::from(count) * f64::from(weight)),
                Mode::Idf if count > 0 => row[index] = weight,
                Mode::Idf => {}
            }
        }
    }
}

fn read_mode(spec: &NodeSpec<'_>) -> Result<Mode, OpError> {
    let name = "mode";
    match spec.string(name)? {
        Some("TF") => Ok(Mode::Tf),
        Some("IDF") => Ok(Mode::Idf),
        Some("TFIDF") => Ok(Mode::TfIdf),
        Some(other) => Err(OpError::AttributeValue { name, found: other.to_owned() }),
        None => Err(OpError::MissingAttribute { name }),
    }
}

fn read_indexes(spec: &NodeSpec<'_>) -> Result<Vec<usize>, OpError> {
    let name = "ngram_indexes";
    let indexes = spec.ints(name)?.ok_or(OpError::MissingAttribute { name })?;
    let wrong = |_| OpError::AttributeValue { name, found: format!("{indexes:?}") };
    indexes.iter().map(|&index| usize::try_from(index).map_err(wrong)).collect()
}

/// The n-grams of each length in the pool, up to the greatest length that counts.
fn levels(
    spec: &NodeSpec<'_>,
    n_tokens: usize,
    longest: usize,
) -> Result<Vec<Range<usize>>, OpError> {
    let name = "ngram_counts";
    let starts = spec.ints(name)?.ok_or(OpError::MissingAttribute { name })?;
    let wrong = || OpError::AttributeValue { name, found: format!("{starts:?}") };
    let bounds: Option<Vec<usize>> =
        starts.iter().map(|&start| usize::try_from(start).ok()).chain([Some(n_tokens)]).collect();
    let bounds = bounds.filter(|bounds| bounds.is_sorted() && longest < bounds.len());
    let bounds = bounds.ok_or_else(wrong)?;
    let levels: Vec<_> = bounds.windows(2).map(|pair| pair[0]..pair[1]).collect();
    if levels.iter().zip(1..).any(|(level, length)| level.len() % length != 0) {
        return Err(wrong());
    }
    Ok(levels.into_iter().take(longest).collect())
}

const fn is_token(dtype: DType) -> bool {
    matches!(dtype, DType::I32 | DType::I64 | DType::String)
}

const fn wrong_rank(found: usize) -> OpError {
    OpError::InputRank { index: 0, expected: "1 or 2", found }
}

impl Operator for TfIdfVectorizer {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, is_token)?;
        if (dtype == DType::String) != (self.tokens.dtype() == DType::String) {
            return Err(unsupported(0, dtype));
        }
        let row = Dim::Known(self.n_outputs);
        Ok(vec![match inputs.fact(0)?.dims() {
            None => Fact::unranked(DType::F32),
            Some([_]) => Fact::tensor(DType::F32, [row]),
            Some([n, _]) => Fact::tensor(DType::F32, [n.clone(), row]),
            Some(dims) => return Err(wrong_rank(dims.len())),
        }])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let (rows, length): (&[usize], usize) = match x.shape() {
            [length] => (&[], *length),
            [rows @ .., length] if rows.len() == 1 => (rows, *length),
            other => return Err(wrong_rank(other.len())),
        };
        let shape: Shape = rows.iter().copied().chain([self.n_outputs]).collect();
        let y = outputs[0].tensor(DType::F32, &shape)?.into_slice::<f32>()?;
        y.fill(0.0);
        let tokens = self.tokens.find(x)?;
        // bounded: as long as an attribute
        let mut counts = vec![0; self.ngrams.len()];
        for (tokens, y) in
            tokens.chunks_exact(length.max(1)).zip(y.chunks_exact_mut(self.n_outputs))
        {
            counts.fill(0);
            self.count(tokens, &mut counts)?;
            self.write(&counts, y);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    /// The tokens 2 and 3, and the pairs 5 4 and 5 6.
    fn case(mode: &str, lengths: (i64, i64), max_skip_count: i64) -> Case {
        Case::new("TfIdfVectorizer", 9)
            .attr("mode", Attr::String(mode.into()))
            .attr("min_gram_length", Attr::Int(lengths.0))
            .attr("max_gram_length", Attr::Int(lengths.1))
            .attr("max_skip_count", Attr::Int(max_skip_count))
            .attr("ngram_counts", Attr::Ints(vec![0, 2]))
            .attr("ngram_indexes", Attr::Ints(vec![3, 2, 1, 0]))
            .attr("pool_int64s", Attr::Ints(vec![2, 3, 5, 4, 5, 6]))
    }

    fn ints() -> Tensor {
        tensor(&[7], &[2_i64, 3, 5, 4, 5, 6, 6])
    }

    #[test]
    fn tokens_and_pairs_are_counted_at_every_distance() {
        let cases = [
            ((1, 2), 0, [1_f32, 1., 1., 1.]),
            ((1, 2), 1, [2., 1., 1., 1.]),
            ((2, 2), 6, [4., 1., 0., 0.]),
            ((2, 2), i64::MAX, [4., 1., 0., 0.]),
            ((1, 1), 6, [0., 0., 1., 1.]),
        ];
        for (lengths, max_skip_count, y) in cases {
            let found = case("TF", lengths, max_skip_count).tensor(&[ints()]);
            assert_eq!(found, Ok(tensor(&[4], &y)), "{lengths:?}, {max_skip_count}");
        }
    }

    #[test]
    fn weights_belong_to_ngrams() {
        for (mode, y) in
            [("TF", [2_f32, 1., 1., 1.]), ("IDF", [8., 4., 2., 1.]), ("TFIDF", [16., 4., 2., 1.])]
        {
            let case = case(mode, (1, 2), 1).attr("weights", Attr::Floats(vec![1., 2., 4., 8.]));
            assert_eq!(case.tensor(&[ints()]), Ok(tensor(&[4], &y)), "{mode}");
        }
        let y = case("IDF", (1, 2), 1).tensor(&[ints()]);
        assert_eq!(y, Ok(tensor(&[4], &[1_f32; 4])));
    }

    #[test]
    fn rows_are_counted_apart() {
        let y = tensor(&[2, 4], &[0_f32, 0., 1., 1., 1., 0., 0., 0.]);
        let found = case("TF", (1, 2), 0).tensor(&[tensor(&[2, 2], &[2, 3, 5, 6])]);
        assert_eq!(found, Ok(y));
        let none = case("TF", (1, 2), 0).tensor(&[tensor(&[2, 0], &[0; 0])]);
        assert_eq!(none, Ok(tensor(&[2, 4], &[0_f32; 8])));
        let strings = |words: &[&str]| words.iter().map(|&w| w.to_owned()).collect::<Vec<_>>();
        let x = Tensor::from_strings(&[3], strings(&["a", "b", "a"])).unwrap();
        let case = Case::new("TfIdfVectorizer", 9)
            .attr("mode", Attr::String("TF".into()))
            .attr("min_gram_length", Attr::Int(2))
            .attr("max_gram_length", Attr::Int(2))
            .attr("max_skip_count", Attr::Int(0))
            .attr("ngram_counts", Attr::Ints(vec![0, 0]))
            .attr("ngram_indexes", Attr::Ints(vec![0, 2]))
            .attr("pool_strings", Attr::Strings(strings(&["b", "a", "b", "b"])));
        assert_eq!(case.tensor(&[x]), Ok(tensor(&[3], &[1_f32, 0., 0.])));
        assert!(case.tensor(&[ints()]).is_err());
    }

    #[test]
    fn attributes_that_do_not_fit_are_refused() {
        let case = || case("TF", (1, 2), 1);
        let ints_of = |values: &[i64]| Attr::Ints(values.to_vec());
        for (name, attr) in [
            ("ngram_indexes", ints_of(&[0, 1])),
            ("ngram_indexes", ints_of(&[0, 1, 2, -1])),
            ("ngram_counts", ints_of(&[2, 0])),
            ("ngram_counts", ints_of(&[0, 9])),
            ("ngram_counts", ints_of(&[0])),
            ("ngram_counts", ints_of(&[0, 1])),
            ("pool_int64s", ints_of(&[2, 2, 5, 4, 5, 6])),
            ("weights", Attr::Floats(vec![1.0])),
            ("min_gram_length", Attr::Int(0)),
            ("max_gram_length", Attr::Int(0)),
            ("max_skip_count", Attr::Int(-1)),
            ("mode", Attr::String("X".into())),
        ] {
            assert!(case().attr(name, attr).tensor(&[ints()]).is_err(), "{name}");
        }
        for shape in [&[][..], &[1, 1, 1]] {
            assert!(case().tensor(&[tensor(shape, &[1_i64])]).is_err());
        }
        let huge = case().attr("ngram_indexes", ints_of(&[0, 1, 2, i64::MAX]));
        assert!(huge.tensor(&[ints()]).is_err());
    }
}
