//! GroupQueryAttention: causal attention in which several heads of the queries share a head of keys
//! and values, with a cache of both.

mod cache;
mod steps;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Room, filled, n_elements, try_collected, with_room};

use self::cache::Cache;
pub use self::cache::Kept;
use self::steps::Step;
use crate::attend::bias::Biases;
use crate::attend::heads::swap_heads;
use crate::attend::rotation::Rotation;
use crate::attend::{Query, Scoring, Sizes, Stage, attend};
use crate::floats;
use crate::infer::{expect_dims, product_flops};
use crate::ops::layer_normalization::standardize_rows;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "GroupQueryAttention",
    versions: (1, 1),
    types: DType::is_float,
    build: GroupQueryAttention::build,
}];

/// GroupQueryAttention: `y = softmax(cap(scale · q·kᵀ) + bias) · v` of each head.
///
/// Inputs: `q: [B, S, N·H]`, `k` and `v: [B, S, K·H]`, or `q` with both, `[B, S, (N + 2·K)·H]`; the
/// past of `k` and `v` `[B, K, P, H]` or none; the last position of each batch, and the longest
/// length, both int32; cosines and sines; the positions `[B, S]` int64 if they are not consecutive; what is added to
/// the scores `[B or 1, N or 1, S, T]`; the scores of a sink `[N]`; the scales of a cache of quantized values;
/// weights `[H]` of an RMS norm of the heads of `q` and `k`. Outputs: `y: [B, S, N·H]`; the cache `[B, K, max(P, T),
/// H]` in the past's type, zeros after the kept rows; the scores `[B, N, S, T]`, zeros where a key is masked.
///
/// Source: com.microsoft, GroupQueryAttention-1 (ONNX Runtime 1.31; what its CPU provider rejects follows the
/// documentation: the norm, a cache of 8-bit floats, head sizes that are not a multiple of 8).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupQueryAttention {
    /// N, a multiple of K.
    pub num_heads: usize,
    /// K.
    pub kv_num_heads: usize,
    /// The factor of the scores; `1/√H` if it is absent or 0.
    pub scale: Option<f32>,
    /// `softcap · tanh(score / softcap)`; 0 means no cap.
    pub softcap: f32,
    /// Whether a query sees no later key.
    pub is_causal: bool,
    /// How many keys a query sees, itself included, where that is limited.
    pub local_window_size: Option<usize>,
    /// Whether the cache only keeps the window.
    pub slides: bool,
    /// Whether the past's buffer after the kept rows is unchanged, not zeros.
    pub is_buffer: bool,
    /// Whether heads are rotated with their position.
    pub do_rotary: bool,
    /// Whether pairs are adjacent features.
    pub rotary_interleaved: bool,
    /// Whether there is a sink of score 0, unless sinks are given.
    pub smooth_softmax: bool,
    /// Which scores the last output contains.
    pub scores: Option<Stage>,
    /// What is added to the mean of squares in the norms of queries and keys.
    pub norm_epsilons: [f32; 2],
    /// How keys and values are kept.
    pub kept: [Kept; 2],
}

/// The position of the input with the number of queries of each batch without padding.
const QUERY_SEQLENS: usize = 16;

impl GroupQueryAttention {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let wrong = |name, found: i64| OpError::AttributeValue { name, found: found.to_string() };
        let count = |name| {
            let n = spec.int(name)?.ok_or(OpError::MissingAttribute { name })?;
            usize::try_from(n).ok().filter(|&n| n > 0).ok_or(wrong(name, n))
        };
        let (num_heads, kv_num_heads) = (count("num_heads")?, count("kv_num_heads")?);
        if num_heads % kv_num_heads != 0 {
            return Err(OpError::AttributeValue {
                name: "num_heads",
                found: num_heads.to_string(),
            });
        }
        let scores = match spec.int("qk_output")?.unwrap_or(0) {
            0 => None,
            1 => Some(Stage::Biased),
            2 => Some(Stage::Softmax),
            other => return Err(wrong("qk_output", other)),
        };
        let window = spec.int("local_window_size")?.filter(|&n| n > 0);
        let slides = spec.flag("sliding_window_cache", false)?;
        let is_causal = spec.flag("causal", true)?;
        if (slides && window.is_none()) || (!is_causal && window.is_some()) {
            return Err(wrong("local_window_size", window.unwrap_or(-1)));
        }
        if spec.has_input(QUERY_SEQLENS) {
            return Err(OpError::Unsupported { what: "query_seqlens" });
        }
        let of_both = spec.float("qk_norm_epsilon")?.unwrap_or(1e-6);
        let epsilon = |name| Ok::<_, OpError>(spec.float(name)?.unwrap_or(of_both));
        let bits = spec.int("kv_cache_bit_width")?.unwrap_or(0);
        let kept = |name| Kept::of_spec(spec, name, bits);
        Ok(Arc::new(Self {
            num_heads,
            kv_num_heads,
            scale: spec.float("scale")?,
            softcap: spec.float("softcap")?.unwrap_or(0.0),
            is_causal,
            local_window_size: window.map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
            slides,
            is_buffer: false,
            do_rotary: spec.flag("do_rotary", false)?,
            rotary_interleaved: spec.flag("rotary_interleaved", false)?,
            // −1 leaves it to the sinks.
            smooth_softmax: spec.int("smooth_softmax")?.unwrap_or(0) == 1,
            scores,
            norm_epsilons: [epsilon("q_norm_epsilon")?, epsilon("k_norm_epsilon")?],
            kept: [kept("k_quant_type")?, kept("v_quant_type")?],
        }))
    }

    /// How many heads the last dimension of `q` has.
    fn heads_of_q(&self, is_packed: bool) -> usize {
        let others = if is_packed { self.kv_num_heads.saturating_mul(2) } else { 0 };
        self.num_heads.saturating_add(others)
    }

    /// `[B, S, H]` and the length of the past's buffer.
    fn sizes(&self, inputs: Inputs<'_>) -> Result<([usize; 3], usize), OpError> {
        let q = inputs.tensor(0)?.shape();
        let heads = self.heads_of_q(inputs.get(1).is_none());
        let &[batch, len, width] = q else {
            return Err(OpError::InputRank { index: 0, expected: "3", found: q.len() });
        };
        let size = width / heads;
        let kv_width = size.checked_mul(self.kv_num_heads).ok_or(OpError::TooLarge)?;
        for i in [1, 2] {
            let shape = inputs.optional_tensor(i)?.map(|view| view.shape());
            let fits =
                shape.map_or(inputs.get(1).is_none(), |shape| shape == [batch, len, kv_width]);
            if !fits || width % heads != 0 {
                let (left, right) = (q.to_vec(), shape.unwrap_or_default().to_vec());
                return Err(OpError::Shapes { what: "queries, keys and values", left, right });
            }
        }
        let capacity = |i| -> Result<Option<usize>, OpError> {
            Ok(inputs.optional_tensor(i)?.map(|past| past.shape().get(2).copied().unwrap_or(0)))
        };
        match (capacity(3)?, capacity(4)?) {
            (k, v) if k == v => Ok(([batch, len, size], k.unwrap_or(0))),
            _ => {
                Err(OpError::Unsupported { what: "a past of keys and values of different shapes" })
            }
        }
    }

    /// New queries, keys and values, by head, normalized and rotated.
    fn heads(
        &self,
        inputs: Inputs<'_>,
        [batch, len, size]: [usize; 3],
        steps: &[Step],
    ) -> Result<[Vec<f64>; 3], OpError> {
        let (n, k) = (self.num_heads, self.kv_num_heads);
        let split = |x: &[f64], heads| swap_heads(x, [batch, len, heads, size]);
        let q = floats::read(inputs.tensor(0)?)?;
        let [mut q, mut k, v] = if inputs.get(1).is_none() {
            let width = self.heads_of_q(true) * size;
            let part = |from: usize, heads: usize| -> Result<Vec<f64>, OpError> {
                let rows = q.chunks_exact(width.max(1));
                let part = rows.flat_map(|row| &row[from * size..(from + heads) * size]);
                split(&Room::of(part.copied())?, heads)
            };
            [part(0, n)?, part(n, k)?, part(n + k, k)?]
        } else {
            let [keys, values] = [inputs.tensor(1)?, inputs.tensor(2)?];
            [split(&q, n)?, split(&floats::read(keys)?, k)?, split(&floats::read(values)?, k)?]
        };
        let [q_epsilon, k_epsilon] = self.norm_epsilons;
        for (x, index, epsilon) in [(&mut q, 14, q_epsilon), (&mut k, 15, k_epsilon)] {
            if inputs.get(index).is_some() {
                let weights = floats::read_parameter(inputs, index, size)?;
                standardize_rows(x, size, epsilon, false)?;
                floats::with_period(x, &weights, |x, weight| *x *= weight)?;
            }
        }
        if self.do_rotary {
            self.rotate([&mut q, &mut k], inputs, [batch, len, size], steps)?;
        }
        Ok([q, k, v])
    }

    fn rotate(
        &self,
        [q, k]: [&mut [f64]; 2],
        inputs: Inputs<'_>,
        [batch, len, size]: [usize; 3],
        steps: &[Step],
    ) -> Result<(), OpError> {
        let (cos, sin) = (inputs.tensor(7)?, inputs.tensor(8)?);
        let rotation = Rotation::read(cos, sin, self.rotary_interleaved)?;
        if cos.shape().len() != 2 || rotation.n_rotated() > size {
            let (left, right) = (cos.shape().to_vec(), vec![size]);
            return Err(OpError::Shapes { what: "the features that are rotated", left, right });
        }
        let given = inputs.optional_tensor(9)?.map(|ids| ids.as_slice::<i64>()).transpose()?;
        let rows = (0..batch * len).map(|i| {
            let (step, query) = (steps[i / len], i % len);
            let position = match given {
                // A first step counts from its first position.
                Some(&[first, ..]) if step.is_first => {
                    first.saturating_add(i64::try_from(query).unwrap_or(i64::MAX))
                }
                Some(ids) => *ids.get(i).ok_or(OpError::InputValue {
                    index: 9,
                    what: "a position for each query is needed",
                })?,
                // Padding has any position.
                None if step.position(query) >= step.total => 0,
                None => i64::try_from(step.position(query)).map_err(|_| OpError::TooLarge)?,
            };
            rotation.row(position)
        });
        let rows: Vec<_> = try_collected(rows)?;
        rotation.rotate_heads(q, [self.num_heads, len, size], &rows);
        rotation.rotate_heads(k, [self.kv_num_heads, len, size], &rows);
        Ok(())
    }

    fn sinks(&self, inputs: Inputs<'_>) -> Result<Vec<f64>, OpError> {
        match inputs.get(11) {
            Some(_) => floats::read_parameter(inputs, 11, self.num_heads),
            None if self.smooth_softmax => Ok(filled(0.0, self.num_heads)?),
            None => Ok(Vec::new()),
        }
    }

    /// The positions that a query sees.
    fn seen(&self, step: &Step, query: Query) -> std::ops::Range<usize> {
        let position = step.position(query.index);
        let last = step.first + step.rows();
        let end = if self.is_causal { position + 1 } else { step.total }.min(last);
        let start = self.local_window_size.map_or(0, |n| (position + 1).saturating_sub(n));
        start.min(end)..end
    }

    /// Writes the bias of each key's score to `row`; `own` is the bias by position.
    fn hide(&self, step: &Step, query: Query, own: Option<&[f64]>, row: &mut [f64]) {
        let seen = self.seen(step, query);
        for (bias, position) in row.iter_mut().zip(step.first..) {
            let own = own.map_or(Some(0.0), |own| own.get(position).copied());
            let own = own.filter(|_| seen.contains(&position));
            *bias = own.unwrap_or(f64::NEG_INFINITY);
        }
    }

    /// Writes the scores of the visible keys to their positions.
    fn place(&self, step: &Step, query: Query, row: &[f64], to: &mut [f64]) {
        let seen = self.seen(step, query);
        for ((position, to), &score) in to.iter_mut().enumerate().skip(step.first).zip(row) {
            if seen.contains(&position) {
                *to = score;
            }
        }
    }
}

impl Operator for GroupQueryAttention {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        [1, 2, 7, 8, 10, 11, 14, 15].iter().try_for_each(|&i| inputs.expect_dtype(i, dtype))?;
        let others = [(5, DType::I32), (6, DType::I32), (9, DType::I64)];
        let scales = [(12, DType::F32), (13, DType::F32)];
        others.iter().chain(&scales).try_for_each(|&(i, dtype)| inputs.expect_dtype(i, dtype))?;
        let is_packed = inputs.get(1).is_none();
        expect_dims(inputs, 0, &[const { Dim::Unknown }; 3])?;
        let [batch, len, width] = match inputs.fact(0)?.dims() {
            Some([batch, len, width]) => [batch.clone(), len.clone(), width.clone()],
            _ => [const { Dim::Unknown }; 3],
        };
        let heads = self.heads_of_q(is_packed);
        let size = width.map(|width| (width % heads == 0).then_some(width / heads));
        let kv = size.map(|size| size.checked_mul(self.kv_num_heads));
        for i in [1, 2] {
            expect_dims(inputs, i, &[batch.clone(), len.clone(), kv.clone()])?;
        }
        let total = inputs.get(6).and_then(Fact::ints).and_then(|n| n.first().copied());
        let total = total.and_then(|n| usize::try_from(n).ok()).map_or(Dim::Unknown, Dim::Known);
        let q_width = size.map(|size| size.checked_mul(self.num_heads));
        let mut facts = vec![Fact::tensor(dtype, [batch.clone(), len.clone(), q_width])];
        for (i, kept) in [3, 4].into_iter().zip(self.kept) {
            let past = inputs.get(i);
            let dtype = past.and_then(Fact::dtype).unwrap_or(dtype);
            if !kept.is_kept_in(dtype) {
                return Err(OpError::Unsupported { what: "a cache of this type" });
            }
            let held = size.map(|size| Some(kept.n_held(size)));
            let heads = Dim::Known(self.kv_num_heads);
            expect_dims(inputs, i, &[batch.clone(), heads.clone(), Dim::Unknown, held.clone()])?;
            let capacity = past.map_or(Dim::Known(0), |fact| {
                fact.dims().map_or(Dim::Unknown, |dims| dims[2].clone())
            });
            let kept = match past {
                Some(_) if self.slides => capacity,
                _ => total.zip(&capacity, |a, b| Some(a.max(b))),
            };
            facts.push(Fact::tensor(dtype, [batch.clone(), heads, kept, held]));
        }
        facts.push(Fact::tensor(dtype, [batch, Dim::Known(self.num_heads), len, total]));
        Ok(facts)
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let ([batch, len, size], capacity) = self.sizes(inputs)?;
        let (steps, longest) = steps::read(self, inputs, [batch, len, capacity])?;
        let [q, k, v] = self.heads(inputs, [batch, len, size], &steps)?;
        let rows = steps.iter().map(Step::rows).max().unwrap_or(0);
        let kept_len = if self.slides { capacity } else { capacity.max(longest) };
        let shape = [batch, self.kv_num_heads, capacity, size];
        let dtype = inputs.tensor(0)?.dtype();
        let caches = [
            Cache::read(self.kept[0], inputs, [3, 12], shape, dtype)?,
            Cache::read(self.kept[1], inputs, [4, 13], shape, dtype)?,
        ];
        let extended = |i: usize, x: &[f64]| caches[i].extended(x, &steps, [len, rows]);
        let quantized = [extended(0, &k)?, extended(1, &v)?];
        let (q_heads, kv_heads) = (self.num_heads, self.kv_num_heads);
        let sizes =
            Sizes { batch, q_heads, kv_heads, q_len: len, kv_len: rows, size, v_size: size };
        let whole = Sizes { kv_len: longest, ..sizes };
        let biases = inputs.optional_tensor(10)?;
        let biases = biases.map(|view| Biases::new(10, view, whole)).transpose()?;
        let sinks = self.sinks(inputs)?;
        let scoring = Scoring {
            cap: self.softcap.into(),
            sinks: &sinks,
            ..Scoring::scaled(self.scale, size)
        };
        let bias = |query: Query, row: &mut [f64]| {
            let own = biases.as_ref().map(|biases| biases.row(query));
            self.hide(&steps[query.batch], query, own, row);
        };
        let wanted = outputs.get(3).is_some_and(Output::is_wanted);
        let n_scores = n_elements(&[batch, q_heads, len, longest]).ok_or(OpError::TooLarge)?;
        let mut scores = with_room(if wanted { n_scores } else { 0 })?;
        let observe = |stage, query: Query, row: &[f64]| {
            if wanted && Some(stage) == self.scores {
                let start = scores.len();
                // bounded: by the allocation for all rows
                scores.resize(start + longest, 0.0);
                self.place(&steps[query.batch], query, row, &mut scores[start..]);
            }
        };
        let decoded = |i: usize| caches[i].decoded(&quantized[i], rows);
        let (k, v) = (decoded(0)?, decoded(1)?);
        let y = attend(sizes, [&q, &k, &v], scoring, bias, observe)?;
        let y = swap_heads(&y, [batch, q_heads, len, size])?;
        floats::write(outputs, 0, dtype, &[batch, len, q_heads * size], &y)?;
        for (i, cache) in caches.iter().enumerate() {
            let kept =
                cache.kept_quantized(&quantized[i], &steps, [rows, kept_len], self.is_buffer)?;
            cache.write(outputs.get_mut(i + 1), &kept, &steps, kept_len)?;
        }
        match self.scores {
            Some(_) => floats::write(outputs, 3, dtype, &[batch, q_heads, len, longest], &scores),
            None if wanted => Err(OpError::Unsupported { what: "scores of no stage" }),
            None => Ok(()),
        }
    }

    fn flops(&self, inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        // Both products have a term for each key, and each element of the output.
        let present = outputs.get(1).filter(|fact| fact.rank().is_some());
        let keys = present.or(inputs.get(3)).and_then(|fact| fact.dims()?.get(2)?.known());
        product_flops(keys.and_then(|n| n.checked_mul(2)), outputs.first())
    }
}
