//! WordConvEmbedding: words as vectors, by a convolution over their characters.

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Room, filled};

use crate::floats;
use crate::infer::expect_dims;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "WordConvEmbedding",
    versions: (1, 1),
    types: DType::is_float,
    build: WordConvEmbedding::build,
}];

/// WordConvEmbedding: `y[s, m] = max over p of tanh(b[m] + Σ w[m, 0, k, e] · c[x[s, p + k], e])`,
/// computed in double precision, for the windows of `K` characters of a word, at least one. The length of a word is
/// its number of positive characters, or 0 if the first is not positive: the result is then a row of zeros.
///
/// Inputs: `x: [S, L]` int32, `w: [M, 1, K, E]`, `b: [M]` and `c: [C, E]` floats.
///
/// Source: com.microsoft, WordConvEmbedding-1 (ONNX Runtime 1.31), which leaves the rows of
/// empty words unwritten, and reads beyond rows shorter than `K`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordConvEmbedding {
    /// `M`, if present.
    pub embedding_size: Option<usize>,
    /// `K`, if present.
    pub conv_window_size: Option<usize>,
    /// `E`, if present.
    pub char_embedding_size: Option<usize>,
}

impl WordConvEmbedding {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let size = |name| match spec.int(name)? {
            None | Some(-1) => Ok(None),
            Some(n) => {
                let wrong = |_| OpError::AttributeValue { name, found: n.to_string() };
                n.try_into().map(Some).map_err(wrong)
            }
        };
        Ok(Arc::new(Self {
            embedding_size: size("embedding_size")?,
            conv_window_size: size("conv_window_size")?,
            char_embedding_size: size("char_embedding_size")?,
        }))
    }
}

/// The vector of a word of which all characters are used.
struct Filters {
    weights: Vec<f64>,
    bias: Vec<f64>,
    /// The elements that a filter covers: `K · E`.
    n: usize,
}

impl Filters {
    /// `characters`: one embedding after the other, of `step` elements each.
    fn apply(&self, characters: &[f64], step: usize, y: &mut [f64]) {
        let filters = self.weights.chunks_exact(self.n.max(1)).zip(&self.bias);
        for (y, (weights, &bias)) in y.iter_mut().zip(filters) {
            let windows = characters.windows(self.n.max(1)).step_by(step.max(1));
            let sums = windows.map(|window| {
                let products = window.iter().zip(weights).map(|(x, w)| x * w);
                products.fold(bias, |sum, product| sum + product)
            });
            // Where a sum is NaN, so is the result.
            let greatest = sums.fold(f64::NEG_INFINITY, |greatest, sum| {
                if greatest >= sum || greatest.is_nan() { greatest } else { sum }
            });
            *y = greatest.tanh();
        }
    }
}

impl Operator for WordConvEmbedding {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.fact(0)?;
        inputs.expect_dtype(0, DType::I32)?;
        let dtype = inputs.dtype(1, DType::is_float)?;
        for index in [2, 3] {
            inputs.fact(index)?;
            inputs.expect_dtype(index, dtype)?;
        }
        let given = |size: Option<usize>| size.map_or(Dim::Unknown, Dim::Known);
        let (m, k) = (given(self.embedding_size), given(self.conv_window_size));
        let e = given(self.char_embedding_size);
        expect_dims(inputs, 0, &[Dim::Unknown, Dim::Unknown])?;
        expect_dims(inputs, 1, &[m.clone(), Dim::Known(1), k, e.clone()])?;
        let (m, e) = match inputs.fact(1)?.dims() {
            Some([m, _, _, e]) => (m.clone(), e.clone()),
            _ => (m, e),
        };
        expect_dims(inputs, 2, std::slice::from_ref(&m))?;
        expect_dims(inputs, 3, &[Dim::Unknown, e])?;
        let words = inputs.fact(0)?.dims().map_or(Dim::Unknown, |dims| dims[0].clone());
        Ok(vec![Fact::tensor(dtype, [words, m])])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (x, w, table) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(3)?);
        let (&[n_words, length], &[m, 1, k, e], &[n_characters, size]) =
            (x.shape(), w.shape(), table.shape())
        else {
            let (left, right) = (x.shape().to_vec(), w.shape().to_vec());
            return Err(OpError::Shapes { what: "characters and filters", left, right });
        };
        if size != e || k > length || k == 0 || e == 0 {
            let (left, right) = (vec![length, size], vec![k, e]);
            return Err(OpError::Shapes { what: "a word and a filter", left, right });
        }
        let bias = floats::read_parameter(inputs, 2, m)?;
        let filters = Filters { weights: floats::read(w)?, bias, n: k * e };
        let embeddings = floats::read(table)?;
        let mut y = filled(0.0, n_words.checked_mul(m).ok_or(OpError::TooLarge)?)?;
        let mut characters = Room::new();
        for (word, y) in x.as_slice::<i32>()?.chunks_exact(length).zip(y.chunks_exact_mut(m.max(1)))
        {
            let n = word.iter().filter(|&&character| character > 0).count();
            if word[0] <= 0 {
                continue;
            }
            characters.clear();
            for &character in &word[..n.max(k)] {
                let at = usize::try_from(character).ok().filter(|&at| at < n_characters);
                let (index, len) = (character.into(), n_characters);
                let at = at.ok_or(OpError::Index { what: "characters", index, len })?;
                characters.extend(embeddings[at * e..][..e].iter().copied())?;
            }
            filters.apply(&characters, e, y);
        }
        floats::write(outputs, 0, w.dtype(), &[n_words, m], &y)
    }

    fn flops(&self, inputs: &Facts<'_>, _outputs: &[Fact]) -> u64 {
        let size = |index| inputs.get(index).and_then(Fact::shape);
        let n = size(0).zip(size(1)).and_then(|(x, w)| {
            ort_tensor::n_elements(&x)?.checked_mul(ort_tensor::n_elements(&w)?)
        });
        n.map_or(0, |n| (n as u64).saturating_mul(2))
    }
}

#[cfg(test)]
mod tests {
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    /// Two filters of two characters; the character `c` is `[c, 1]`.
    fn run(words: &[usize], x: &[i32]) -> Result<Tensor, String> {
        let case = Case::new("WordConvEmbedding", 1).domain("com.microsoft");
        let w = [1_f64, 0., 0., 0., 0., 0., -1., 0.5];
        let c = [0_f64, 1., 1., 1., 2., 1., 3., 1.];
        case.tensor(&[
            tensor(words, x),
            tensor(&[2, 1, 2, 2], &w),
            tensor(&[2], &[-1.0, 0.0]),
            tensor(&[4, 2], &c),
        ])
    }

    #[test]
    fn the_greatest_window_counts() {
        // The first filter sees the first of two characters, the second half of one minus the other.
        let y = |sums: &[f64]| {
            let y: Vec<f64> = sums.iter().map(|sum| sum.tanh()).collect();
            Ok(tensor(&[sums.len() / 2, 2], &y))
        };
        assert_eq!(run(&[1, 3], &[1, 2, 3]), y(&[1.0, -1.5]));
        assert_eq!(run(&[1, 3], &[3, 2, 0]), y(&[2.0, -1.5]));
        assert_eq!(run(&[1, 3], &[1, 0, 3]), y(&[0.0, 0.5]));
        assert_eq!(run(&[1, 3], &[3, 0, 0]), y(&[2.0, 0.5]));
        assert_eq!(run(&[2, 2], &[0, 1, 1, 1]), y(&[0.0, 0.0, 0.0, -0.5]));
        assert_eq!(run(&[0, 2], &[]), Ok(tensor(&[0, 2], &[0_f64; 0])));
    }

    #[test]
    fn characters_and_words_must_fit() {
        assert!(run(&[1, 2], &[1, 4]).is_err());
        assert!(run(&[1, 2], &[1, -1]).is_err());
        assert!(run(&[1, 1], &[1]).is_err());
        assert!(run(&[2], &[1, 1]).is_err());
    }
}
