//! Attention, key by key.

use ort_graph::Attr;
use ort_tensor::DType;

use super::draw::signed;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[Property::onnx("Attention", &[23, 24, 25], attention)];

/// The error of sums of a few terms up to 50 in double precision.
const DISTANCE: f64 = 4096.0 * f64::EPSILON;

/// Which keys a query sees, by position.
struct Sight {
    is_causal: bool,
    /// How many keys before and after its own position, where that is limited.
    window: [Option<i64>; 2],
    /// The number of keys, and the position of the first query, for each batch.
    lens: Vec<i64>,
    offsets: Vec<i64>,
    /// Whether the lengths are an operand.
    has_lens: bool,
    /// What is added to scores; −∞ where a key is masked out.
    mask: Option<Array>,
}

impl Sight {
    /// What is added to a score at `[B, H, S, T]`.
    fn bias(&self, at: &[usize]) -> f64 {
        let key = signed(at[3]);
        let ahead = key - (self.offsets[at[0]] + signed(at[2]));
        let is_hidden = key >= self.lens[at[0]]
            || (self.is_causal && ahead > 0)
            || self.window[0].is_some_and(|n| -ahead > n)
            || self.window[1].is_some_and(|n| ahead > n);
        let bias = self.mask.as_ref().map_or(0.0, |mask| match mask.at_broadcast(at) {
            Cell::Bool(true) => 0.0,
            Cell::Bool(false) => f64::NEG_INFINITY,
            bias => bias.float(),
        });
        if is_hidden { f64::NEG_INFINITY } else { bias }
    }
}

/// How scores are computed, of `q: [B, Hq, S, D]` and `k: [B, Hkv, T, D]`.
struct Scoring<'a> {
    q: Array,
    k: Array,
    sight: &'a Sight,
    scale: f64,
    cap: Option<f64>,
}

impl Scoring<'_> {
    /// `scale · q·k` at `[B, H, S, T]`.
    fn raw(&self, at: &[usize]) -> f64 {
        let head = at[1] * self.k.shape[1] / self.q.shape[1];
        let term = |i: usize| {
            let key = self.k.at(&[at[0], head, at[3], i]).float();
            self.q.at(&[at[0], at[1], at[2], i]).float() * key
        };
        (0..self.q.shape[3]).map(term).sum::<f64>() * self.scale
    }

    fn capped(&self, at: &[usize]) -> f64 {
        let raw = self.raw(at);
        self.cap.map_or(raw, |cap| cap * (raw / cap).tanh())
    }

    fn biased(&self, at: &[usize]) -> f64 {
        self.capped(at) + self.sight.bias(at)
    }

    /// The weight of each key for a query.
    fn weights(&self, at: &[usize], keys: usize) -> Vec<f64> {
        let score = |key| self.biased(&[at[0], at[1], at[2], key]);
        softmax(&(0..keys).map(score).collect::<Vec<_>>())
    }

    /// A score at the stage of the last output.
    fn stage(&self, mode: Option<i64>, at: &[usize]) -> Cell {
        Cell::Float(match mode.unwrap_or(0) {
            0 => self.raw(at),
            1 => self.capped(at),
            2 => self.biased(at),
            _ => self.weights(at, self.k.shape[2])[at[3]],
        })
    }
}

/// `weight / Σ weights`, or zeros if no key is visible.
fn softmax(scores: &[f64]) -> Vec<f64> {
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY {
        return vec![0.0; scores.len()];
    }
    let sum: f64 = scores.iter().map(|score| (score - most).exp()).sum();
    scores.iter().map(|score| (score - most).exp() / sum).collect()
}

/// The array after its past, along the steps.
fn appended(past: Option<&Array>, new: &Array) -> Array {
    let Some(past) = past else { return new.clone() };
    let n = past.shape[2];
    let shape = [&new.shape[..2], &[n + new.shape[2]], &new.shape[3..]].concat();
    Array::from_fn(&shape, |at| match at[2] < n {
        true => past.at(at).clone(),
        false => new.at(&[at[0], at[1], at[2] - n, at[3]]).clone(),
    })
}

/// `[B, H, S, D]` as `[B, S, H·D]`.
fn packed(x: &Array) -> Array {
    let x = x.transposed(&[0, 2, 1, 3]);
    x.reshaped(&[x.shape[0], x.shape[1], x.shape[2] * x.shape[3]])
}

/// Which keys are visible, with the corresponding attributes and operands.
fn sight(
    draw: &mut Draw,
    dtype: DType,
    scores: &[usize; 4],
    past: Option<usize>,
) -> (Sight, Vec<(&'static str, Attr)>) {
    let &[batch, _, queries, keys] = scores;
    let (is_causal, written) = draw.flag(false);
    let mut attrs: Vec<_> = written.map(|attr| ("is_causal", attr)).into_iter().collect();
    let window = ["left_window_size", "right_window_size"].map(|name| {
        let limit = (draw.version >= 25 && draw.one_in(3)).then(|| draw.int(0, 2));
        attrs.extend(limit.map(|limit| (name, Attr::Int(limit))));
        limit
    });
    let has_lens = draw.version >= 24 && past.is_none() && draw.one_in(3);
    let lens: Vec<_> = (0..batch)
        .map(|_| if has_lens { draw.int(0, signed(keys)) } else { signed(keys) })
        .collect();
    let offset =
        |len: &i64| if has_lens { len - signed(queries) } else { signed(past.unwrap_or(0)) };
    let offsets = lens.iter().map(offset).collect();
    let skipped = draw.below(3);
    let mut shape = scores[skipped..].to_vec();
    let last = shape.len() - 1;
    shape[..last].iter_mut().for_each(|n| *n = if draw.one_in(4) { 1 } else { *n });
    let mask = match draw.below(3) {
        0 => None,
        1 => Some(draw.any(DType::Bool, &shape)),
        _ => Some(draw.small(dtype, &shape)),
    };
    let mask = mask.as_ref().map(Array::of);
    (Sight { is_causal, window, lens, offsets, has_lens, mask }, attrs)
}

fn attention(draw: &mut Draw, dtype: DType) -> Sample {
    let [batch, kv_heads, repeats] = [draw.dim().min(2), 1 + draw.below(2), 1 + draw.below(2)];
    let [queries, new_keys] = [draw.some_dim(), draw.some_dim()];
    let [size, v_size] = [draw.some_dim(), draw.some_dim()];
    let heads = kv_heads * repeats;
    let past = draw.one_in(3).then(|| draw.dim());
    let keys = new_keys + past.unwrap_or(0);
    let [q, k, v] =
        [[heads, queries, size], [kv_heads, new_keys, size], [kv_heads, new_keys, v_size]]
            .map(|shape| draw.small(dtype, &[&[batch], &shape[..]].concat()));
    let pasts = [size, v_size]
        .map(|size| past.map(|past| draw.small(dtype, &[batch, kv_heads, past, size])));
    let scores = [batch, heads, queries, keys];
    let (sight, attrs) = sight(draw, dtype, &scores, past);
    let scale = draw.pick(&[None, Some(0.5)]);
    let cap = draw.pick(&[None, Some(2.0)]);
    let mode = draw.pick(&[None, Some(0), Some(1), Some(2), Some(3)]);
    let is_split = draw.one_in(2);
    let n_outputs = 1 + draw.below(4);
    let form = |x: Array| if is_split { x } else { packed(&x) };
    let stored = [&q, &k, &v].map(|x| form(Array::of(x)).to_tensor(dtype));
    let mask = sight.mask.as_ref().map(|mask| {
        let is_bool = matches!(mask.cells.first(), Some(Cell::Bool(_)));
        mask.to_tensor(if is_bool { DType::Bool } else { dtype })
    });
    let lens = sight.has_lens.then(|| super::draw::ints(&sight.lens));
    let mut sample = Sample::new(&stored.each_ref(), {
        let pasts = pasts.clone();
        move || {
            let [past_k, past_v] = [0, 1].map(|i| pasts[i].as_ref().map(Array::of));
            let k = appended(past_k.as_ref(), &Array::of(&k));
            let v = appended(past_v.as_ref(), &Array::of(&v));
            let scale = scale.map_or(1.0 / (size as f64).sqrt(), f64::from);
            let scoring =
                Scoring { q: Array::of(&q), k, sight: &sight, scale, cap: cap.map(f64::from) };
            let y = Array::from_fn(&[batch, heads, queries, v_size], |at| {
                let value = |j| v.at(&[at[0], at[1] / repeats, j, at[3]]).float();
                let weights = scoring.weights(at, keys).into_iter().enumerate();
                Cell::Float(weights.map(|(j, weight)| weight * value(j)).sum())
            });
            let scores = Array::from_fn(&scores, |at| scoring.stage(mode, at));
            let y = if is_split { y } else { packed(&y) };
            let all = [y, scoring.k, v, scores].into_iter().take(n_outputs);
            all.map(|array| Expected::close(dtype, array, DISTANCE)).collect()
        }
    });
    let [past_k, past_v] = pasts;
    for (i, x) in [mask, past_k, past_v, lens].into_iter().enumerate() {
        sample = if x.is_some() { sample.input(3 + i, x) } else { sample };
    }
    let sample = attrs.into_iter().fold(sample, |sample, (name, attr)| sample.attr(name, attr));
    let count = |n: usize| (!is_split).then(|| Attr::Int(signed(n)));
    sample
        .maybe("q_num_heads", count(heads))
        .maybe("kv_num_heads", count(kv_heads))
        .maybe("scale", scale.map(Attr::Float))
        .maybe("softcap", cap.map(Attr::Float))
        .maybe("qk_matmul_output_mode", mode.map(Attr::Int))
        .outputs(n_outputs)
}
