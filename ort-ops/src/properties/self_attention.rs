//! Attention of a sequence to itself, whose queries, keys and values are projections of one input.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::attending::{
    Masking, SLACK, Sizes, blended, by_head, by_row, count, int32, joined, overlaid, part, rotated,
    scores, weights,
};
use super::draw::signed;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] =
    &[Property::microsoft("Attention", attention), Property::microsoft("QAttention", quantized)];

/// What both operators share.
struct SelfAttention {
    dtype: DType,
    masking: Masking,
    /// The widths of queries, keys and values of a head.
    size: usize,
    v_size: usize,
    scale: Option<f32>,
    /// How many pairs of a head are rotated.
    pairs: Option<usize>,
    past: Option<Tensor>,
    /// Whether the present shares the past's buffer.
    is_shared: bool,
}

impl SelfAttention {
    fn draw(draw: &mut Draw, dtype: DType, may_vary: bool) -> Self {
        let [batch, len] = [draw.dim(), draw.dim()];
        let heads = draw.pick(&[1, 2, 3]);
        let pairs = draw.pick(&[None, None, Some(1), Some(2)]);
        let size = pairs.map_or(draw.some_dim(), |pairs| 2 * pairs + draw.below(2));
        let has_past = draw.one_in(2);
        let past = if has_past { draw.dim() } else { 0 };
        let is_shared = may_vary && has_past && draw.one_in(2);
        let v_size = if may_vary && !has_past { draw.some_dim() } else { size };
        let capacity = past + if is_shared { len + draw.below(2) } else { 0 };
        let buffer = draw.real(dtype, &[2, batch, heads, capacity, size], 2.0);
        let sizes = Sizes { batch, heads, len, total: past + len, past };
        Self {
            dtype,
            masking: Masking::draw(draw, dtype, sizes),
            size,
            v_size,
            scale: draw.pick(&[None, Some(0.0), Some(0.5)]),
            pairs,
            past: has_past.then_some(buffer),
            is_shared,
        }
    }

    fn width(&self) -> usize {
        self.masking.sizes.heads * (2 * self.size + self.v_size)
    }

    /// The outputs for projected rows `[B, S, N·(2·D + E)]`.
    fn expected(&self, rows: &Array, n_outputs: usize) -> Vec<Expected> {
        let Sizes { batch, heads, len, past, .. } = self.masking.sizes;
        let columns = |from: usize, size: usize| {
            let part = Array::from_fn(&[batch, len, heads * size], |at| {
                rows.at(&[at[0], at[1], from + at[2]]).clone()
            });
            by_head(&part, heads)
        };
        let width = heads * self.size;
        let (mut q, mut k) = (columns(0, self.size), columns(width, self.size));
        if let Some(pairs) = self.pairs {
            for x in [&mut q, &mut k] {
                *x = rotated(x, (pairs, false), |[_, step, pair]| {
                    let [position, pair, pairs] = [past + step, pair, pairs].map(|n| n as f64);
                    let angle = position / 10000_f64.powf(pair / pairs);
                    (angle.cos(), angle.sin())
                });
            }
        }
        let buffer = self.past.as_ref().map(Array::of);
        let buffers = [0, 1].map(|i| buffer.as_ref().map(|buffer| part(buffer, i)));
        let k = joined(buffers[0].as_ref(), past, &k);
        let v = joined(buffers[1].as_ref(), past, &columns(2 * width, self.v_size));
        let scale = self.scale.filter(|&scale| scale != 0.0);
        let scale = scale.map_or(1.0 / (self.size as f64).sqrt(), f64::from);
        let bias = self.masking.bias();
        let scores = scores(&q, &k, |dot, at| scale * dot + bias(at));
        let y = by_row(&blended(&weights(&scores, None), &v));
        let mut expected = vec![Expected::within(self.dtype, y, SLACK)];
        if n_outputs == 2 {
            let kept = [k, v].into_iter().zip(&buffers).map(|(x, buffer)| match buffer {
                Some(buffer) if self.is_shared => overlaid(buffer, &x),
                _ => x,
            });
            let kept: Vec<_> = kept.collect();
            let shape = [&[2], &kept[0].shape[..]].concat();
            let present = Array::from_fn(&shape, |at| kept[at[0]].at(&at[1..]).clone());
            expected.push(Expected::within(self.dtype, present, SLACK));
        }
        expected
    }

    /// The attributes that both operators have; `rows` are the projected rows.
    fn sample(
        self,
        inputs: Vec<Option<Tensor>>,
        n: usize,
        rows: impl Fn() -> Array + 'static,
    ) -> Sample {
        let rotary = self.pairs.map(|pairs| {
            let is_whole = 2 * pairs == self.size;
            if is_whole { 0 } else { 2 * pairs }
        });
        let attrs = [
            ("do_rotary", rotary.map(|_| Attr::Int(1))),
            ("rotary_embedding_dim", rotary.map(count)),
            ("scale", self.scale.map(Attr::Float)),
            ("mask_filter_value", self.masking.filter.map(Attr::Float)),
            ("unidirectional", self.masking.is_causal.then_some(Attr::Int(1))),
            ("past_present_share_buffer", self.is_shared.then_some(Attr::Int(1))),
            ("num_heads", Some(count(self.masking.sizes.heads))),
        ];
        let sample = Sample::of(inputs, move || self.expected(&rows(), n)).outputs(n);
        attrs.into_iter().fold(sample, |sample, (name, attr)| sample.maybe(name, attr))
    }
}

/// `x·w + b`, of numbers `[B, S, I]`, `[I, W]` and `[W]`.
fn projected(x: &Array, w: &Array, bias: Option<&Array>) -> Array {
    Array::from_fn(&[x.shape[0], x.shape[1], w.shape[1]], |at| {
        let term = |i| x.at(&[at[0], at[1], i]).float() * w.at(&[i, at[2]]).float();
        let bias = bias.map_or(0.0, |bias| bias.at(&at[2..]).float());
        Cell::Float(bias + (0..x.shape[2]).map(term).sum::<f64>())
    })
}

fn attention(draw: &mut Draw, dtype: DType) -> Sample {
    let own = SelfAttention::draw(draw, dtype, true);
    let Sizes { batch, heads, len, past, .. } = own.masking.sizes;
    let (depth, width) = (draw.dim(), own.width());
    let x = draw.real(dtype, &[batch, len, depth], 2.0);
    let w = draw.real(dtype, &[depth, width], 2.0);
    let bias = draw.real(dtype, &[width], 2.0);
    let bias = draw.one_in(2).then_some(bias);
    let n_outputs = if own.size == own.v_size { draw.pick(&[1, 2]) } else { 1 };
    let n_outputs = if own.is_shared { 2 } else { n_outputs };
    let widths = [own.size, own.size, own.v_size].map(|size| signed(heads * size));
    let is_written = own.size != own.v_size || draw.one_in(2);
    let inputs = vec![
        Some(x.clone()),
        Some(w.clone()),
        bias.clone(),
        own.masking.mask.clone(),
        own.past.clone(),
        own.masking.biases.clone(),
        own.is_shared.then(|| int32(&[1], [past])),
    ];
    own.sample(inputs, n_outputs, move || {
        projected(&Array::of(&x), &Array::of(&w), bias.as_ref().map(Array::of).as_ref())
    })
    .maybe("qkv_hidden_sizes", is_written.then(|| Attr::Ints(widths.to_vec())))
}

/// Quantized values of 8 bits; weights have one scale and zero point, or one per column.
fn quantized(draw: &mut Draw, dtype: DType) -> Sample {
    let result = draw.pick(&[DType::F32, DType::F16, DType::Bf16, DType::F64]);
    let mut own = SelfAttention::draw(draw, result, false);
    own.masking.biases = None;
    let Sizes { batch, len, .. } = own.masking.sizes;
    let (depth, width) = (draw.dim(), own.width());
    let w_dtype = draw.pick(&[DType::I8, DType::U8]);
    let (x, w) = (draw.any(dtype, &[batch, len, depth]), draw.any(w_dtype, &[depth, width]));
    let bias = draw.real(result, &[width], 2.0);
    let given: [Vec<usize>; 2] = [(); 2].map(|()| draw.pick(&[vec![], vec![1], vec![width]]));
    let zero_points = [draw.any(dtype, &[]), draw.any(w_dtype, &given[0])];
    let zero_points = zero_points.map(|zero_point| Some(zero_point).filter(|_| !draw.one_in(4)));
    // Numbers around 1.
    let scales = [draw.real(result, &[], 1.0 / 64.0), draw.real(result, &given[1], 1.0 / 64.0)];
    let inputs = vec![
        Some(x.clone()),
        Some(w.clone()),
        Some(bias.clone()),
        Some(scales[0].clone()),
        Some(scales[1].clone()),
        own.masking.mask.clone(),
        zero_points[0].clone(),
        zero_points[1].clone(),
        own.past.clone(),
    ];
    let n_outputs = draw.pick(&[1, 2]);
    own.sample(inputs, n_outputs, move || {
        let numbers = |quantized: &Tensor, i: usize| {
            let (scale, zero_point) =
                (Array::of(&scales[i]), zero_points[i].as_ref().map(Array::of));
            let quantized = Array::of(quantized);
            Array::from_fn(&quantized.shape, |at| {
                let zero_point = zero_point.as_ref().map_or(0.0, |it| it.at_broadcast(at).float());
                Cell::Float(
                    scale.at_broadcast(at).float() * (quantized.at(at).float() - zero_point),
                )
            })
        };
        projected(&numbers(&x, 0), &numbers(&w, 1), Some(&Array::of(&bias)))
    })
}
