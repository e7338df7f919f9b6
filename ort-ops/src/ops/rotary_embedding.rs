//! RotaryEmbedding: rotates each pair of features by an angle that depends on its position.

// collects are bounded: as long as the file's lists

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output};

use crate::attend::rotation::Rotation;
use crate::floats;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "RotaryEmbedding",
        versions: (23, 23),
        types: DType::is_float,
        build: |spec| RotaryEmbedding::build(spec, OWN, None),
    },
    OpDef {
        domain: "com.microsoft",
        name: "RotaryEmbedding",
        versions: (1, 1),
        types: DType::is_float,
        build: |spec| RotaryEmbedding::build(spec, OTHER, None),
    },
    OpDef {
        domain: "com.microsoft",
        name: "MRotaryEmbedding",
        versions: (1, 1),
        types: DType::is_float,
        build: |spec| RotaryEmbedding::build(spec, OTHER, Some(Sections::build(spec)?)),
    },
];

/// The operands of ai.onnx.
const OWN: Operands = Operands { positions: 3, cos: 1, sin: 2 };

/// The operands of com.microsoft.
const OTHER: Operands = Operands { positions: 1, cos: 2, sin: 3 };

/// RotaryEmbedding of `x: [B, H, S, D]` or `[B, S, H·D]`: of the first R features of a head,
/// `(a, b) → (a·cos − b·sin, a·sin + b·cos)` for the pairs `(i, i + R/2)`, or, interleaved,
/// `(2i, 2i + 1)`. Cosines and sines are `[positions, R/2]` with position ids `[B, S]` (or `[1]`, the
/// position of the first, in com.microsoft), or `[B, S, R/2]` without. Floats, computed in f64 and
/// rounded once.
///
/// MRotaryEmbedding has three positions for each step, ids `[3, B, S]`, and rotates some pairs by each.
///
/// Source: ONNX operator set, RotaryEmbedding-23; com.microsoft, RotaryEmbedding-1 and
/// MRotaryEmbedding-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotaryEmbedding {
    /// The positions of cosines, sines and position ids.
    pub operands: Operands,
    /// H, where the heads are inside the last dimension; 0 if it follows from the cosines.
    pub num_heads: usize,
    /// R; 0 is D.
    pub rotary_dim: usize,
    /// Whether pairs are adjacent features.
    pub is_interleaved: bool,
    /// Which pairs are rotated by which of three positions; `None` if there is only one.
    pub sections: Option<Sections>,
}

/// The pairs that are rotated by the first, the second and the third of three positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sections {
    /// The number of pairs of each.
    pub lens: [usize; 3],
    /// Whether they alternate instead of following each other; the rest belongs to the first.
    pub is_interleaved: bool,
}

impl Sections {
    fn build(spec: &NodeSpec<'_>) -> Result<Self, OpError> {
        let name = "mrope_section";
        let given = spec.ints(name)?.ok_or(OpError::MissingAttribute { name })?;
        let lens = given.iter().map(|&n| usize::try_from(n).ok()).collect::<Option<Vec<_>>>();
        let lens = lens.and_then(|lens| <[usize; 3]>::try_from(lens).ok());
        let wrong = || OpError::AttributeValue { name, found: format!("{given:?}") };
        let is_interleaved = spec.flag("mrope_layout", false)?;
        Ok(Self { lens: lens.ok_or_else(wrong)?, is_interleaved })
    }

    fn n_pairs(&self) -> Option<usize> {
        self.lens.iter().try_fold(0_usize, |sum, &n| sum.checked_add(n))
    }

    /// The position that a pair is rotated by.
    fn position_of(&self, pair: usize) -> usize {
        let [first, second, _] = self.lens;
        match pair % 3 {
            _ if !self.is_interleaved => {
                usize::from(pair >= first) + usize::from(pair >= first + second)
            }
            rotation if pair / 3 < self.lens[rotation] => rotation,
            _ => 0,
        }
    }
}

/// The positions of the operands after `x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the operands")]
pub struct Operands {
    pub positions: usize,
    pub cos: usize,
    pub sin: usize,
}

/// The dimensions of `x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// B.
    pub batch: usize,
    /// S.
    pub len: usize,
    /// H.
    pub heads: usize,
    /// D.
    pub size: usize,
    /// Whether `x` is `[B, H, S, D]`, not `[B, S, H·D]`.
    pub is_split: bool,
    /// How many pairs of a head are rotated: R/2.
    pub pairs: usize,
}

impl Sizes {
    /// The step `b·S + s` of the `i`-th head in the order of `x`.
    pub const fn step_of(&self, i: usize) -> usize {
        match self.is_split {
            true => i / self.len / self.heads * self.len + i % self.len,
            false => i / self.heads,
        }
    }
}

/// The row of the cosines of each step; all are rows of the table.
#[derive(Clone, Copy, Debug)]
pub enum Rows<'a> {
    /// Its own: there is a row for each step.
    Own,
    /// That of the first step of its batch, and those that follow it; S.
    From(usize, usize),
    /// Those of these positions; three for each step if there are sections, all first ones before all
    /// second ones.
    At(&'a [i64]),
}

impl Rows<'_> {
    /// The row of step `b·S + s`.
    pub fn of(&self, step: usize) -> usize {
        match *self {
            Self::Own => step,
            Self::From(first, len) => first + step % len.max(1),
            Self::At(ids) => usize::try_from(ids[step]).unwrap_or(0),
        }
    }
}

impl RotaryEmbedding {
    fn build(
        spec: &NodeSpec<'_>,
        operands: Operands,
        sections: Option<Sections>,
    ) -> Result<Arc<dyn Operator>, OpError> {
        let size = |name| {
            let n = spec.int(name)?.unwrap_or(0);
            let wrong = |_| OpError::AttributeValue { name, found: n.to_string() };
            usize::try_from(n).map_err(wrong)
        };
        if operands == OTHER {
            // Packed sequences have positions like any other; the attribute only skips a check of the length that is
            // not made here. The scale is unused.
            spec.ignore("is_packed_batching");
            spec.ignore("scale");
        }
        Ok(Arc::new(Self {
            operands,
            num_heads: size("num_heads")?,
            rotary_dim: size("rotary_embedding_dim")?,
            is_interleaved: spec.flag("interleaved", false)?,
            sections,
        }))
    }

    /// The sizes of `x` and cosines of these shapes.
    ///
    /// # Errors
    /// If they do not fit each other.
    pub fn sizes(&self, x: &[usize], cos: &[usize]) -> Result<Sizes, OpError> {
        let pairs = cos.last().copied().unwrap_or(0);
        let (batch, len, heads, size, is_split) = match *x {
            [batch, heads, len, size] => (batch, len, heads, size, true),
            [batch, len, hidden] => {
                let size = match (self.num_heads, self.rotary_dim) {
                    (0, 0) => pairs.saturating_mul(2),
                    (0, _) => return Err(OpError::MissingAttribute { name: "num_heads" }),
                    (n, _) => hidden / n,
                };
                (batch, len, hidden.checked_div(size).unwrap_or(0), size, false)
            }
            _ => return Err(OpError::InputRank { index: 0, expected: "3 or 4", found: x.len() }),
        };
        let rotated = if self.rotary_dim == 0 { size } else { self.rotary_dim };
        let fits = self.sections.is_none_or(|sections| sections.n_pairs() == Some(pairs));
        let is_whole = fits && (is_split || heads.checked_mul(size) == Some(x[2]));
        if !is_whole || rotated > size || pairs.checked_mul(2) != Some(rotated) {
            let (left, right) = (x.to_vec(), cos.to_vec());
            return Err(OpError::Shapes { what: "the pairs of a head", left, right });
        }
        Ok(Sizes { batch, len, heads, size, is_split, pairs })
    }

    /// The row of the cosines for each batch and step.
    ///
    /// # Errors
    /// If there are not as many, or one is not of the table.
    pub fn rows<'a>(&self, inputs: Inputs<'a>, sizes: Sizes) -> Result<Rows<'a>, OpError> {
        let cos = inputs.tensor(self.operands.cos)?.shape();
        let n = sizes.batch.checked_mul(sizes.len).ok_or(OpError::TooLarge)?;
        let misfit = |what, left: &[usize], right: &[usize]| {
            Err(OpError::Shapes { what, left: left.to_vec(), right: right.to_vec() })
        };
        let Some(view) = inputs.optional_tensor(self.operands.positions)? else {
            let expected = [sizes.batch, sizes.len, sizes.pairs];
            return match cos == expected {
                true => Ok(Rows::Own),
                false => misfit("cosines without positions", cos, &expected),
            };
        };
        let &[len, _] = cos else {
            let index = self.operands.cos;
            return Err(OpError::InputRank { index, expected: "2", found: cos.len() });
        };
        let row = |index: i64| {
            let row = usize::try_from(index).ok().filter(|&row| row < len);
            row.ok_or(OpError::Index { what: "the cosines", index, len })
        };
        let ids = view.as_slice::<i64>()?;
        let expected = [3, sizes.batch, sizes.len];
        if self.sections.is_some() && view.shape() != expected {
            return misfit("positions", view.shape(), &expected);
        }
        match ids {
            &[first] if view.shape().len() == 1 && self.sections.is_none() => {
                let last = i64::try_from(sizes.len).unwrap_or(i64::MAX).saturating_sub(1);
                row(first.saturating_add(last.max(0)))?;
                Ok(Rows::From(row(first)?, sizes.len))
            }
            _ if ids.len() == n || self.sections.is_some() => {
                ids.iter().try_for_each(|&id| row(id).map(|_| ()))?;
                Ok(Rows::At(ids))
            }
            _ => misfit("positions", view.shape(), &expected[1..]),
        }
    }
}

impl Operator for RotaryEmbedding {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        inputs.expect_dtype(self.operands.cos, dtype)?;
        inputs.expect_dtype(self.operands.sin, dtype)?;
        inputs.expect_dtype(self.operands.positions, DType::I64)?;
        let fact = inputs.fact(0)?;
        if let Some(found) = fact.rank().filter(|rank| ![3, 4].contains(rank)) {
            return Err(OpError::InputRank { index: 0, expected: "3 or 4", found });
        }
        Ok(vec![fact.ty.clone().into()])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (x, cos) = (inputs.tensor(0)?, inputs.tensor(self.operands.cos)?);
        let sin = inputs.tensor(self.operands.sin)?;
        let rotation = Rotation::read(cos, sin, self.is_interleaved)?;
        let sizes = self.sizes(x.shape(), cos.shape())?;
        let rows = self.rows(inputs, sizes)?;
        let n = sizes.batch.checked_mul(sizes.len).ok_or(OpError::TooLarge)?;
        let (rotation, rows) = match self.sections {
            None => (rotation, rows),
            Some(sections) => {
                let row = |step, pair| rows.of(sections.position_of(pair) * n + step);
                (rotation.gathered(n, row)?, Rows::Own)
            }
        };
        let mut y = floats::read(x)?;
        for (i, head) in y.chunks_exact_mut(sizes.size.max(1)).enumerate() {
            rotation.rotate(head, rows.of(sizes.step_of(i)));
        }
        floats::write(outputs, 0, x.dtype(), x.shape(), &y)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{DType, Tensor};

    use crate::case::{Case, tensor};

    /// Position 0 does not rotate, position 1 rotates every pair by a right angle.
    fn caches() -> [Tensor; 2] {
        [tensor(&[2, 2], &[1_f32, 1.0, 0.0, 0.0]), tensor(&[2, 2], &[0_f32, 0.0, 1.0, 1.0])]
    }

    fn run(x: Tensor, positions: Tensor, interleaved: i64) -> Result<Tensor, String> {
        let [cos, sin] = caches();
        let attr = Attr::Int(interleaved);
        let case = Case::new("RotaryEmbedding", 23).attr("num_heads", Attr::Int(1));
        let own = case.attr("interleaved", attr.clone());
        let own = own.tensor(&[x.clone(), cos.clone(), sin.clone(), positions.clone()]);
        let case = Case::new("RotaryEmbedding", 1).domain("com.microsoft");
        let other = case.attr("interleaved", attr).tensor(&[x, positions, cos, sin]);
        assert_eq!(own, other);
        own
    }

    #[test]
    fn pairs_are_halves_or_neighbours() {
        let x = [1_f32, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0];
        let positions = tensor(&[1, 2], &[0_i64, 1]);
        for (interleaved, rotated) in [(0, [-3_f32, -4.0, 1.0, 2.0]), (1, [-2.0, 1.0, -4.0, 3.0])] {
            let expected = [&x[..4], &rotated[..]].concat();
            for shape in [&[1, 2, 4][..], &[1, 1, 2, 4]] {
                let y = run(tensor(shape, &x), positions.clone(), interleaved);
                assert_eq!(y, Ok(tensor(shape, &expected)));
            }
        }
    }

    #[test]
    fn all_heads_are_rotated_alike_and_the_rest_is_kept() {
        let case = || Case::new("RotaryEmbedding", 23).attr("rotary_embedding_dim", Attr::Int(2));
        let cache = |x: f32| tensor(&[1, 1, 1], &[x]);
        let x = tensor(&[1, 2, 1, 3], &[1_f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let y = tensor(&[1, 2, 1, 3], &[-2_f32, 1.0, 3.0, -5.0, 4.0, 6.0]);
        assert_eq!(case().tensor(&[x.clone(), cache(0.0), cache(1.0)]), Ok(y.clone()));
        let packed = |t: &Tensor| t.reshaped(&[1, 1, 6]).unwrap();
        let heads = case().attr("num_heads", Attr::Int(2));
        assert_eq!(heads.tensor(&[packed(&x), cache(0.0), cache(1.0)]), Ok(packed(&y)));
    }

    #[test]
    fn one_position_is_that_of_the_first_step() {
        let x = Tensor::zeros(DType::F32, &[2, 2, 4]).unwrap();
        assert_eq!(run(x.clone(), tensor(&[1], &[0_i64]), 0), Ok(x.clone()));
        for position in [1, -1, i64::MAX] {
            assert!(run(x.clone(), tensor(&[1], &[position]), 0).is_err(), "{position}");
        }
        assert!(run(x, tensor(&[1, 3], &[0_i64; 3]), 0).is_err());
        let odd = Tensor::zeros(DType::F32, &[1, 1, 5]).unwrap();
        assert!(run(odd, tensor(&[1, 1], &[0_i64]), 0).is_err());
        let empty = Tensor::zeros(DType::F32, &[1, 0, 4]).unwrap();
        assert!(run(empty, tensor::<i64>(&[1, 0], &[]), 0).is_ok());
    }

    #[test]
    fn each_section_is_rotated_by_its_own_position() {
        // Row 1 of the cosines rotates by a right angle, row 0 does not; (1, 2) rotates to (−2, 1).
        let cos = tensor(&[2, 3], &[1_f32, 1.0, 1.0, 0.0, 0.0, 0.0]);
        let sin = tensor(&[2, 3], &[0_f32, 0.0, 0.0, 1.0, 1.0, 1.0]);
        let x = tensor(&[1, 1, 1, 6], &[1_f32, 2.0, 1.0, 2.0, 1.0, 2.0]);
        let run = |lens: [i64; 3], layout, rotated: [i64; 3]| {
            let case = Case::new("MRotaryEmbedding", 1).domain("com.microsoft");
            let case =
                case.attr("interleaved", Attr::Int(1)).attr("mrope_layout", Attr::Int(layout));
            let case = case.attr("mrope_section", Attr::Ints(lens.to_vec()));
            let positions = tensor(&[3, 1, 1], &rotated);
            let y = case.tensor(&[x.clone(), positions, cos.clone(), sin.clone()]).ok()?;
            Some([0, 2, 4].map(|i| y.as_slice::<f32>().unwrap()[i] < 0.0))
        };
        assert_eq!(run([1, 2, 0], 0, [1, 0, 0]), Some([true, false, false]));
        assert_eq!(run([1, 1, 1], 0, [0, 0, 1]), Some([false, false, true]));
        assert_eq!(run([1, 1, 1], 1, [0, 1, 0]), Some([false, true, false]));
        assert_eq!(run([2, 1, 0], 1, [1, 0, 0]), Some([true, false, true]));
        assert_eq!(run([1, 1, 0], 0, [0, 0, 0]), None);
    }
}
