//! Attention by its definition, head by head: the base of the oracles of all its forms.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::draw::signed;
use super::{Array, Cell, Draw};

/// The error of another order of evaluation, for results below some dozens: all are computed in float64 and rounded
/// once.
pub(super) const SLACK: f64 = 1e-9;

/// The types that operands may have independently of the data.
pub(super) const FLOATS: [DType; 4] = [DType::F16, DType::Bf16, DType::F32, DType::F64];

/// The dimensions of an attention.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) batch: usize,
    pub(super) heads: usize,
    /// Queries.
    pub(super) len: usize,
    /// All keys, including those of the past.
    pub(super) total: usize,
    pub(super) past: usize,
}

/// What masks keys.
pub(super) struct Masking {
    pub(super) sizes: Sizes,
    pub(super) mask: Option<Tensor>,
    pub(super) biases: Option<Tensor>,
    /// What is added to the score of a masked key.
    pub(super) filter: Option<f32>,
    /// Whether a query sees no later key; but the last one sees all keys.
    pub(super) is_causal: bool,
}

impl Masking {
    pub(super) fn draw(draw: &mut Draw, dtype: DType, sizes: Sizes) -> Self {
        Self {
            sizes,
            mask: key_mask(draw, sizes),
            biases: biases(draw, dtype, sizes),
            filter: draw.pick(&[None, Some(-8.0)]),
            is_causal: draw.one_in(2),
        }
    }

    /// What is added to the score of a key.
    pub(super) fn bias(&self) -> impl Fn(&[usize]) -> f64 {
        let [mask, biases] = [&self.mask, &self.biases].map(|it| it.as_ref().map(Array::of));
        move |at| {
            let is_later = at[3] > self.sizes.past + at[2] && at[2] + 1 < self.sizes.len;
            if self.is_causal && is_later {
                return f64::NEG_INFINITY;
            }
            let filter = f64::from(self.filter.unwrap_or(-10000.0));
            let is_shown = mask.as_ref().is_none_or(|mask| is_shown(mask, self.sizes, at));
            let bias = biases.as_ref().map_or(0.0, |biases| biases.at_broadcast(at).float());
            bias + if is_shown { 0.0 } else { filter }
        }
    }
}

pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// A count as an attribute.
pub(super) fn count(n: usize) -> Attr {
    Attr::Int(signed(n))
}

/// An int32 tensor.
pub(super) fn int32(shape: &[usize], values: impl IntoIterator<Item = usize>) -> Tensor {
    let cells = values.into_iter().map(|n| Cell::Int(signed(n).into())).collect();
    Array { shape: shape.to_vec(), cells }.to_tensor(DType::I32)
}

/// `[B, N, S, D]` of rows `[B, S, N·D]`.
pub(super) fn by_head(rows: &Array, heads: usize) -> Array {
    let (batch, len, size) = (rows.shape[0], rows.shape[1], rows.shape[2] / heads);
    Array::from_fn(&[batch, heads, len, size], |at| {
        rows.at(&[at[0], at[2], at[1] * size + at[3]]).clone()
    })
}

/// `[B, S, N·D]` of heads `[B, N, S, D]`.
pub(super) fn by_row(heads: &Array) -> Array {
    let &[batch, n, len, size] = &heads.shape[..] else { panic!("{:?}", heads.shape) };
    Array::from_fn(&[batch, len, n * size], |at| {
        heads.at(&[at[0], at[2] / size, at[1], at[2] % size]).clone()
    })
}

/// `f(q·k)` of each batch, head, query and key; heads of queries share those of keys in order.
pub(super) fn scores(q: &Array, k: &Array, f: impl Fn(f64, &[usize]) -> f64) -> Array {
    let shared = q.shape[1] / k.shape[1];
    Array::from_fn(&[q.shape[0], q.shape[1], q.shape[2], k.shape[2]], |at| {
        let term = |d| {
            let q = q.at(&[at[0], at[1], at[2], d]).float();
            q * k.at(&[at[0], at[1] / shared, at[3], d]).float()
        };
        Cell::Float(f((0..q.shape[3]).map(term).sum(), at))
    })
}

/// The softmax of the scores of each query, including its sink; zeros if no key is visible.
pub(super) fn weights(scores: &Array, sinks: Option<&[f64]>) -> Array {
    let row = |at: &[usize]| -> Vec<f64> {
        (0..scores.shape[3]).map(|j| scores.at(&[at[0], at[1], at[2], j]).float()).collect()
    };
    Array::from_fn(&scores.shape, |at| {
        let row = row(at);
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if largest == f64::NEG_INFINITY {
            return Cell::Float(0.0);
        }
        let largest = sinks.map_or(largest, |sinks| largest.max(sinks[at[1]]));
        let sink = sinks.map_or(0.0, |sinks| (sinks[at[1]] - largest).exp());
        let sum: f64 = row.iter().map(|score| (score - largest).exp()).sum();
        Cell::Float((row[at[3]] - largest).exp() / (sum + sink))
    })
}

/// The sum of the values by their weights, `[B, N, S, E]`.
pub(super) fn blended(weights: &Array, v: &Array) -> Array {
    let &[batch, heads, len, total] = &weights.shape[..] else { panic!("{:?}", weights.shape) };
    let shared = heads / v.shape[1];
    Array::from_fn(&[batch, heads, len, v.shape[3]], |at| {
        let term = |j| {
            let weight = weights.at(&[at[0], at[1], at[2], j]).float();
            weight * v.at(&[at[0], at[1] / shared, j, at[3]]).float()
        };
        Cell::Float((0..total).map(term).sum())
    })
}

/// Heads `[B, N, S, D]` of which the pairs `(i, i + pairs)`, or `(2i, 2i + 1)`, are rotated by the
/// angle whose cosine and sine `rotation` gives for a batch, step and pair.
pub(super) fn rotated(
    x: &Array,
    (pairs, is_interleaved): (usize, bool),
    rotate: impl Fn([usize; 3]) -> (f64, f64),
) -> Array {
    Array::from_fn(&x.shape, |at| {
        let own = x.at(at).float();
        if at[3] >= 2 * pairs {
            return Cell::Float(own);
        }
        let (pair, is_first, step) = match is_interleaved {
            true => (at[3] / 2, at[3] % 2 == 0, 1),
            false => (at[3] % pairs, at[3] < pairs, pairs),
        };
        let other = if is_first { at[3] + step } else { at[3] - step };
        let other = x.at(&[at[0], at[1], at[2], other]).float();
        let (cos, sin) = rotate([at[0], at[2], pair]);
        Cell::Float(own * cos + if is_first { -other * sin } else { other * sin })
    })
}

/// Element `i` of `[n, …]`.
pub(super) fn part(x: &Array, i: usize) -> Array {
    Array::from_fn(&x.shape[1..], |at| x.at(&[&[i], at].concat()).clone())
}

/// The first `used` steps of a past `[B, N, P, D]`, then new ones.
pub(super) fn joined(past: Option<&Array>, used: usize, new: &Array) -> Array {
    let mut shape = new.shape.clone();
    shape[2] += used;
    Array::from_fn(&shape, |at| match at[2].checked_sub(used) {
        None => past.unwrap().at(at).clone(),
        Some(step) => new.at(&[at[0], at[1], step, at[3]]).clone(),
    })
}

/// A buffer with its first steps replaced.
pub(super) fn overlaid(buffer: &Array, steps: &Array) -> Array {
    Array::from_fn(&buffer.shape, |at| {
        let from = if at[2] < steps.shape[2] { steps } else { buffer };
        from.at(at).clone()
    })
}

/// A mask of keys in one of its many forms, if there is one.
pub(super) fn key_mask(draw: &mut Draw, sizes: Sizes) -> Option<Tensor> {
    let Sizes { batch, len, total, past, .. } = sizes;
    let side = total.max(past + len) + draw.below(2);
    let any_batch = draw.pick(&[1, batch]);
    let forms = [
        None,
        Some(vec![batch, total]),
        Some(vec![batch, len, total]),
        Some(vec![batch, 1, side, side]),
        Some(vec![batch]),
        Some(vec![2 * batch]),
        Some(vec![3 * batch + 2]),
        Some(vec![any_batch, 1]),
    ];
    let shape = draw.pick(&forms)?;
    let cells = Array::from_fn(&shape, |_| Cell::Int(draw.int(-1, signed(total) + 1).into()));
    Some(cells.to_tensor(DType::I32))
}

/// Whether the mask leaves a key visible to a query: by a number above 0 for the key, for all queries or for this
/// one; or by the ends of the keys of each batch, optionally with their starts or with the packing of a batch.
pub(super) fn is_shown(mask: &Array, sizes: Sizes, at: &[usize]) -> bool {
    let (batch, query, key) = (at[0], at[2], at[3]);
    match mask.shape[..] {
        [n] => {
            let given = |i: usize| mask.at(&[i]).int();
            let start = if n == 2 * sizes.batch { given(sizes.batch + batch) } else { 0 };
            (start..given(batch)).contains(&i128::from(signed(key)))
        }
        [b, n] if [b, n] == [sizes.batch, sizes.total] => mask.at(&[batch, key]).int() > 0,
        [_, _, _] => mask.at(&[batch, query, key]).int() > 0,
        [_, _, _, _] => mask.at(&[batch, 0, sizes.past + query, key]).int() > 0,
        _ => true,
    }
}

/// What is added to the scores, `[B or 1, N or 1, S, T]`, if any.
pub(super) fn biases(draw: &mut Draw, dtype: DType, sizes: Sizes) -> Option<Tensor> {
    let Sizes { batch, heads, len, total, .. } = sizes;
    let shape = [draw.pick(&[1, batch]), draw.pick(&[1, heads]), len, total];
    draw.one_in(3).then(|| draw.real(dtype, &shape, 2.0))
}
