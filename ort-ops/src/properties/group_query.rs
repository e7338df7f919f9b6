//! Attention of groups of heads to cached keys and values.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::attending::{
    SLACK, Sizes, biases, blended, by_head, by_row, count, int32, rotated, scores, weights,
};
use super::kept::{Cache, Form, Kind};
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] =
    &[Property::microsoft("GroupQueryAttention", group_query)];

/// The steps of a batch.
#[derive(Clone, Copy)]
pub(super) struct Steps {
    /// The length of the past.
    pub(super) past: usize,
    /// The length including new ones, without padding.
    pub(super) total: usize,
}

/// What it shares with SparseAttention.
pub(super) struct GroupQuery {
    pub(super) dtype: DType,
    pub(super) heads: usize,
    pub(super) shared: usize,
    pub(super) size: usize,
    /// How many queries there are of each batch.
    pub(super) len: usize,
    /// The longest total.
    pub(super) longest: usize,
    pub(super) steps: Vec<Steps>,
    /// Queries, keys and values as rows.
    pub(super) rows: [Array; 3],
    pub(super) is_packed: bool,
    pub(super) scale: Option<f32>,
    /// Cosines and sines of positions, and whether pairs are adjacent.
    pub(super) rotation: Option<([Array; 2], bool)>,
}

impl GroupQuery {
    /// With at most `most` past steps, and at most `room` in all, which is not 0.
    pub(super) fn draw(draw: &mut Draw, dtype: DType, most: usize, room: usize) -> Self {
        let (heads, shared) = (draw.pick(&[1, 2]), draw.pick(&[1, 2]));
        let (batch, size) = (draw.dim(), draw.pick(&[1, 2, 3, 5]));
        let len = (1 + draw.below(3)).min(room);
        let most = most.min(room - len);
        let before = if most == 0 || draw.one_in(3) { 0 } else { 1 + draw.below(most) };
        let longest = before + len;
        let steps = (0..batch).map(|_| match before {
            0 => Steps { past: 0, total: draw.below(len + 1) },
            _ => {
                let past = draw.below(before + 1);
                Steps { past, total: past + len }
            }
        });
        let steps = steps.collect();
        let widths = [heads * shared, heads, heads].map(|n| n * size);
        let rows = widths.map(|width| Array::of(&draw.real(dtype, &[batch, len, width], 2.0)));
        let (pairs, is_interleaved) = (draw.below(size / 2 + 1), draw.one_in(2));
        let shape = [longest + draw.below(2), pairs];
        let table = [(); 2].map(|()| Array::of(&draw.real(dtype, &shape, 1.0)));
        Self {
            dtype,
            heads,
            shared,
            size,
            len,
            longest,
            steps,
            rows,
            is_packed: draw.one_in(3),
            scale: draw.pick(&[None, Some(0.0), Some(0.5)]),
            rotation: (pairs > 0 && draw.one_in(2)).then_some((table, is_interleaved)),
        }
    }

    pub(super) fn sizes(&self) -> Sizes {
        let (batch, heads) = (self.steps.len(), self.heads * self.shared);
        Sizes { batch, heads, len: self.len, total: self.longest, past: 0 }
    }

    /// The first three operands.
    pub(super) fn operands(&self) -> [Option<Tensor>; 3] {
        let rows = &self.rows;
        let tensor = |x: &Array| Some(x.to_tensor(self.dtype));
        if !self.is_packed {
            return [tensor(&rows[0]), tensor(&rows[1]), tensor(&rows[2])];
        }
        let ends = [rows[0].shape[2], rows[0].shape[2] + rows[1].shape[2]];
        let shape = [self.steps.len(), self.len, ends[1] + rows[2].shape[2]];
        let packed = Array::from_fn(&shape, |at| {
            let (i, start) = match at[2] {
                column if column < ends[0] => (0, 0),
                column if column < ends[1] => (1, ends[0]),
                _ => (2, ends[1]),
            };
            rows[i].at(&[at[0], at[1], at[2] - start]).clone()
        });
        [tensor(&packed), None, None]
    }

    pub(super) fn tables(&self) -> [Option<Tensor>; 2] {
        [0, 1].map(|i| self.rotation.as_ref().map(|(table, _)| table[i].to_tensor(self.dtype)))
    }

    pub(super) fn totals(&self) -> Vec<usize> {
        self.steps.iter().map(|steps| steps.total).collect()
    }

    /// New heads rotated by the angle of the position of a batch and step; padding by any angle.
    pub(super) fn rotated(&self, x: Array, position: impl Fn(usize, usize) -> usize) -> Array {
        let Some(([cos, sin], is_interleaved)) = &self.rotation else { return x };
        rotated(&x, (cos.shape[1], *is_interleaved), |[b, step, pair]| {
            let at = [position(b, step), pair];
            (cos.at(&at).float(), sin.at(&at).float())
        })
    }

    /// The position of a step, 0 of padding.
    pub(super) fn position(&self, batch: usize, step: usize) -> usize {
        let Steps { past, total } = self.steps[batch];
        if past + step < total { past + step } else { 0 }
    }

    /// Numbers by position `[B, K, T, H]`: of the past, from `of_past`, then new ones.
    pub(super) fn by_position(&self, new: &Array, of_past: impl Fn(&[usize]) -> Cell) -> Array {
        let shape = [self.steps.len(), self.heads, self.longest, self.size];
        Array::from_fn(&shape, |at| match at[2].checked_sub(self.steps[at[0]].past) {
            None => of_past(at),
            Some(step) if step < self.len => new.at(&[at[0], at[1], step, at[3]]).clone(),
            _ => Cell::Float(0.0),
        })
    }

    pub(super) fn scale(&self) -> f64 {
        let given = self.scale.filter(|&scale| scale != 0.0).map(f64::from);
        given.unwrap_or(1.0 / (self.size as f64).sqrt())
    }

    pub(super) fn attributes(&self, sample: Sample) -> Sample {
        let is_interleaved = self.rotation.as_ref().is_some_and(|rotation| rotation.1);
        sample
            .attr("num_heads", count(self.heads * self.shared))
            .attr("kv_num_heads", count(self.heads))
            .maybe("scale", self.scale.map(Attr::Float))
            .maybe("do_rotary", self.rotation.as_ref().map(|_| Attr::Int(1)))
            .maybe("rotary_interleaved", is_interleaved.then_some(Attr::Int(1)))
    }
}

/// Options that only GroupQueryAttention has.
struct Options {
    /// The position of each step; in a first step only the first counts.
    positions: Option<Array>,
    biases: Option<Tensor>,
    sinks: Option<Array>,
    is_smooth: bool,
    cap: Option<f32>,
    is_causal: bool,
    window: Option<usize>,
    /// The weights of the norms of queries and keys.
    norms: [Option<Array>; 2],
    epsilon: Option<f32>,
    /// Separate ones for queries and keys.
    own_epsilons: [Option<f32>; 2],
    /// 1 for scores before the softmax, 2 after it.
    observed: usize,
}

impl Options {
    fn draw(draw: &mut Draw, own: &GroupQuery) -> Self {
        let (dtype, batch) = (own.dtype, own.steps.len());
        let rows = own.rotation.as_ref().map_or(0, |(table, _)| table[0].shape[0]);
        let is_given = own.rotation.is_some() && draw.one_in(2);
        let is_first = own.longest == own.len;
        let positions = is_given.then(|| match is_first {
            true => {
                let first = draw.positions(&[batch, own.len], rows - own.len + 1, false);
                first.reshaped(&[batch, own.len])
            }
            false => draw.positions(&[batch, own.len], rows, false),
        });
        let mut parameter = |n: usize, times: usize| {
            let x = Array::of(&draw.real(dtype, &[n], 2.0));
            draw.one_in(times).then_some(x)
        };
        let norms = [(); 2].map(|()| parameter(own.size, 3));
        let sinks = parameter(own.heads * own.shared, 3);
        let is_causal = !draw.one_in(4);
        Self {
            positions,
            biases: biases(draw, dtype, own.sizes()),
            sinks,
            is_smooth: draw.one_in(3),
            cap: draw.pick(&[None, None, Some(0.0), Some(1.5)]),
            is_causal,
            window: (is_causal && draw.one_in(3)).then(|| draw.some_dim()),
            norms,
            epsilon: draw.pick(&[None, Some(0.5)]),
            own_epsilons: [(); 2].map(|()| draw.pick(&[None, Some(0.25)])),
            observed: draw.below(3),
        }
    }

    fn normed(&self, x: Array, i: usize) -> Array {
        let Some(weights) = &self.norms[i] else { return x };
        let epsilon = self.own_epsilons[i].or(self.epsilon);
        let epsilon = f64::from(epsilon.unwrap_or(1e-6));
        let size = x.shape[3];
        Array::from_fn(&x.shape, |at| {
            let square = |d| x.at(&[at[0], at[1], at[2], d]).float().powi(2);
            let mean = (0..size).map(square).sum::<f64>() / size as f64;
            let normed = x.at(at).float() / (mean + epsilon).sqrt();
            Cell::Float(normed * weights.at(&at[3..]).float())
        })
    }

    fn position(&self, own: &GroupQuery, batch: usize, step: usize) -> usize {
        match &self.positions {
            None => own.position(batch, step),
            Some(given) if own.len == own.longest => given.index_at(&[0, 0], 1) + step,
            Some(given) => given.index_at(&[batch, step], 1),
        }
    }

    /// Whether a query sees the key at a position.
    fn is_seen(&self, own: &GroupQuery, at: &[usize]) -> bool {
        let Steps { past, total } = own.steps[at[0]];
        let (query, key) = (past + at[2], at[3]);
        let in_window = self.window.is_none_or(|window| key + window > query);
        in_window && if self.is_causal { key <= query } else { key < total }
    }

    fn expected(&self, own: &GroupQuery, caches: &[Cache; 2]) -> Vec<Expected> {
        let [q, k, v] = [own.shared, 1, 1].map(|n| n * own.heads);
        let [q, k, v] = [(0, q), (1, k), (2, v)].map(|(i, n)| by_head(&own.rows[i], n));
        let position = |batch, step| self.position(own, batch, step);
        let q = own.rotated(self.normed(q, 0), position);
        let k = own.rotated(self.normed(k, 1), position);
        let steps: Vec<_> = own.steps.iter().map(|steps| steps.past).collect();
        let quantized = [(0, &k), (1, &v)].map(|(i, new)| {
            let first = |batch: usize| caches[i].first(steps[batch]);
            own.by_position(&caches[i].encoded(new), |at| {
                let past = [at[0], at[1], at[2].wrapping_sub(first(at[0])), at[3]];
                if at[2] < first(at[0]) { Cell::Float(0.0) } else { caches[i].at(&past) }
            })
        });
        let [k, v] = [0, 1].map(|i| caches[i].decoded(&quantized[i]));
        let biases = self.biases.as_ref().map(Array::of);
        let cap = self.cap.filter(|&cap| cap != 0.0).map(f64::from);
        let scores = scores(&q, &k, |dot, at| {
            let score = own.scale() * dot;
            let score = cap.map_or(score, |cap| cap * (score / cap).tanh());
            let bias = biases.as_ref().map_or(0.0, |biases| biases.at_broadcast(at).float());
            if self.is_seen(own, at) { score + bias } else { f64::NEG_INFINITY }
        });
        let sinks: Option<Vec<_>> = match &self.sinks {
            Some(sinks) => Some(sinks.cells.iter().map(Cell::float).collect()),
            None => self.is_smooth.then(|| vec![0.0; q.shape[1]]),
        };
        let weights = weights(&scores, sinks.as_deref());
        let y = by_row(&blended(&weights, &v));
        let mut expected = vec![Expected::within(own.dtype, y, SLACK)];
        for (cache, quantized) in caches.iter().zip(&quantized) {
            let ends: Vec<_> = steps.iter().map(|past| past + own.len).collect();
            expected.push(cache.kept(quantized, &ends));
        }
        if self.observed > 0 {
            let observed = if self.observed == 1 { scores } else { weights };
            let seen = Array::from_fn(&observed.shape, |at| match self.is_seen(own, at) {
                true => observed.at(at).clone(),
                false => Cell::Float(0.0),
            });
            expected.push(Expected::within(own.dtype, seen, SLACK));
        }
        expected
    }
}

fn group_query(draw: &mut Draw, dtype: DType) -> Sample {
    let capacity = if draw.one_in(2) { Some(draw.dim()) } else { None };
    let most = capacity.unwrap_or(0);
    let window = (most > 0 && draw.one_in(3)).then(|| 1 + draw.below(most));
    let most = if window.is_some() { most + 3 } else { most };
    let own = GroupQuery::draw(draw, dtype, most, usize::MAX);
    let mut options = Options::draw(draw, &own);
    if window.is_some() {
        options.window = window;
        options.is_causal = true;
    }
    let bits = draw.pick(&[Kind::Bits8, Kind::Bits4]);
    let shape = [own.steps.len(), own.heads, own.size];
    let caches = [(); 2].map(|()| {
        let kind = if capacity.is_some() { draw.pick(&[Kind::Plain, bits]) } else { Kind::Plain };
        Cache::draw(draw, Form { dtype, kind, shape, capacity, longest: own.longest, window })
    });
    let [[k_past, k_scale], [v_past, v_scale]] = [0, 1].map(|i| caches[i].operands());
    let last = own.totals().into_iter().map(|total| Cell::Int(i128::try_from(total).unwrap() - 1));
    let last = Array { shape: vec![own.steps.len()], cells: last.collect() }.to_tensor(DType::I32);
    let tensor = |x: &Option<Array>, dtype| x.as_ref().map(|x| x.to_tensor(dtype));
    let lens = [Some(last), Some(int32(&[1], [own.longest]))];
    let added = [
        tensor(&options.positions, DType::I64),
        options.biases.clone(),
        tensor(&options.sinks, dtype),
        k_scale,
        v_scale,
        tensor(&options.norms[0], dtype),
        tensor(&options.norms[1], dtype),
    ];
    let operands = own.operands().into_iter().chain([k_past, v_past]).chain(lens);
    let operands: Vec<_> = operands.chain(own.tables()).chain(added).collect();
    let n = if options.observed > 0 { draw.pick(&[1, 3, 4]) } else { draw.pick(&[1, 3]) };
    let flag = |is_set: bool| is_set.then_some(Attr::Int(1));
    let attrs = [
        ("softcap", options.cap.map(Attr::Float)),
        ("causal", (!options.is_causal).then_some(Attr::Int(0))),
        ("local_window_size", options.window.map(count)),
        ("sliding_window_cache", flag(window.is_some())),
        ("smooth_softmax", flag(options.is_smooth)),
        ("qk_norm_epsilon", options.epsilon.map(Attr::Float)),
        ("q_norm_epsilon", options.own_epsilons[0].map(Attr::Float)),
        ("k_norm_epsilon", options.own_epsilons[1].map(Attr::Float)),
        ("qk_output", (options.observed > 0).then(|| count(options.observed))),
        ("kv_cache_bit_width", Some(Attr::Int(if bits == Kind::Bits4 { 4 } else { 8 }))),
        ("k_quant_type", caches[0].quant_type()),
        ("v_quant_type", caches[1].quant_type()),
    ];
    let sample = own.attributes(Sample::of(operands, Vec::new).outputs(n));
    let sample = attrs.into_iter().fold(sample, |sample, (name, attr)| sample.maybe(name, attr));
    let oracle = move || {
        let mut expected = options.expected(&own, &caches);
        expected.truncate(n);
        expected
    };
    Sample { oracle: Box::new(oracle), ..sample }
}
