//! Attention of queries to given keys and values, in one of many layouts.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::attending::{
    Masking, SLACK, Sizes, blended, by_row, count, int32, joined, overlaid, scores, weights,
};
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::microsoft("DecoderMaskedMultiHeadAttention", |draw, dtype| sample(draw, dtype, true)),
    Property::microsoft("MultiHeadAttention", |draw, dtype| sample(draw, dtype, false)),
];

/// The layout of queries, keys and values.
#[derive(Clone, Copy, PartialEq)]
enum Layout {
    /// A tensor of rows each.
    Rows,
    /// Keys and values by head; all of them, and the bias applies only to queries.
    Heads,
    /// Keys with values, by head.
    PackedKeys,
    /// All in one, by head.
    PackedHeads,
    /// All in one, as rows.
    PackedRows,
}

/// The operands of attention, and their layout.
struct MultiHead {
    dtype: DType,
    layout: Layout,
    /// New queries, keys and values `[B, N, S, H]`.
    new: [Array; 3],
    bias: Option<Array>,
    scale: Option<f32>,
    /// Keys and values of earlier steps.
    past: Option<[Array; 2]>,
    is_shared: bool,
    /// For each step of the past of each row, its beam `[B / width, width, M]`.
    beams: Option<Array>,
}

impl MultiHead {
    fn draw(draw: &mut Draw, dtype: DType, is_decoder: bool) -> (Self, Sizes) {
        use Layout::{Heads, PackedHeads, PackedKeys, PackedRows, Rows};
        let layouts = [Rows, Rows, Heads, PackedKeys, PackedHeads, PackedRows];
        let layout = draw.pick(if is_decoder { &layouts } else { &layouts[..5] });
        let [batch, len, kv_len] = [draw.dim(), draw.dim(), draw.dim()];
        let heads = draw.pick(&[1, 2, 3]);
        let (size, v_size) = (draw.some_dim(), draw.some_dim());
        let v_size = if matches!(layout, Rows | Heads) { v_size } else { size };
        let kv_len = if matches!(layout, PackedHeads | PackedRows) { len } else { kv_len };
        let has_past = layout != Heads && draw.one_in(2);
        let past = if has_past { draw.dim() } else { 0 };
        let is_shared = has_past && draw.one_in(2);
        let capacity = past + if is_shared { kv_len + draw.below(2) } else { 0 };
        let mut real = |shape: &[usize]| Array::of(&draw.real(dtype, shape, 2.0));
        let new = [(len, size), (kv_len, size), (kv_len, v_size)]
            .map(|(len, size)| real(&[batch, heads, len, size]));
        let buffers = [size, v_size].map(|size| real(&[batch, heads, capacity, size]));
        let bias = real(&[heads * (2 * size + v_size)]);
        let width = if batch == 0 { 1 } else { draw.pick(&[1, batch]) };
        let steps = [batch / width, width, past + kv_len];
        let beams = draw.positions(&steps, width, false);
        let own = Self {
            dtype,
            layout,
            new,
            bias: draw.one_in(2).then_some(bias),
            scale: draw.pick(&[None, Some(0.0), Some(0.5)]),
            past: has_past.then_some(buffers),
            is_shared,
            beams: (has_past && draw.one_in(2)).then_some(beams),
        };
        (own, Sizes { batch, heads, len, total: past + kv_len, past })
    }

    /// The operands with queries, keys and values.
    fn packed(&self) -> [Option<Tensor>; 3] {
        let [q, k, v] = &self.new;
        let &[batch, heads, len, size] = &k.shape[..] else { panic!("{:?}", k.shape) };
        let tensor = |array: &Array| Some(array.to_tensor(self.dtype));
        match self.layout {
            Layout::Rows => [q, k, v].map(|x| tensor(&by_row(x))),
            Layout::Heads => [tensor(&by_row(q)), tensor(k), tensor(v)],
            Layout::PackedKeys => {
                let packed = Array::from_fn(&[batch, len, heads, 2, size], |at| {
                    self.new[1 + at[3]].at(&[at[0], at[2], at[1], at[4]]).clone()
                });
                [tensor(&by_row(q)), tensor(&packed), None]
            }
            Layout::PackedHeads => {
                let packed = Array::from_fn(&[batch, len, heads, 3, size], |at| {
                    self.new[at[3]].at(&[at[0], at[2], at[1], at[4]]).clone()
                });
                [tensor(&packed), None, None]
            }
            Layout::PackedRows => {
                let rows = [q, k, v].map(by_row);
                let width = heads * size;
                let packed = Array::from_fn(&[batch, len, 3 * width], |at| {
                    rows[at[2] / width].at(&[at[0], at[1], at[2] % width]).clone()
                });
                [tensor(&packed), None, None]
            }
        }
    }

    /// New rows, with their part of the bias.
    fn biased(&self, i: usize) -> Array {
        let x = &self.new[i];
        let Some(bias) = self.bias.as_ref().filter(|_| i == 0 || self.layout != Layout::Heads)
        else {
            return x.clone();
        };
        let width = |i: usize| self.new[i].shape[1] * self.new[i].shape[3];
        let start: usize = (0..i).map(width).sum();
        Array::from_fn(&x.shape, |at| {
            let own = bias.at(&[start + at[1] * x.shape[3] + at[3]]).float();
            Cell::Float(x.at(at).float() + own)
        })
    }

    /// Steps whose past is taken from other rows.
    fn followed(&self, x: &Array, used: usize) -> Array {
        let Some(beams) = &self.beams else { return x.clone() };
        let width = beams.shape[1];
        Array::from_fn(&x.shape, |at| {
            let mut from = at.to_vec();
            if at[2] < used {
                let (first, beam) = (at[0] / width * width, [at[0] / width, at[0] % width, at[2]]);
                from[0] = first + beams.index_at(&beam, width);
            }
            x.at(&from).clone()
        })
    }

    fn expected(&self, masking: &Masking) -> Vec<Expected> {
        let past = masking.sizes.past;
        let buffer = |i: usize| self.past.as_ref().map(|buffers| &buffers[i]);
        let [k, v] = [0, 1].map(|i| joined(buffer(i), past, &self.biased(1 + i)));
        let scale = self.scale.filter(|&scale| scale != 0.0).map(f64::from);
        let q = self.biased(0);
        let scale = scale.unwrap_or(1.0 / (q.shape[3] as f64).sqrt());
        let bias = masking.bias();
        let scores = scores(&q, &self.followed(&k, past), |dot, at| scale * dot + bias(at));
        let y = by_row(&blended(&weights(&scores, None), &self.followed(&v, past)));
        let [k, v] = [(0, k), (1, v)].map(|(i, x)| match buffer(i) {
            Some(buffer) if self.is_shared => overlaid(buffer, &x),
            _ => x,
        });
        // A masked key has the lowest finite score.
        let scores = scores.map(|score| Cell::Float(score.float().max(f32::MIN.into())));
        [y, k, v, scores].into_iter().map(|x| Expected::within(self.dtype, x, SLACK)).collect()
    }
}

fn sample(draw: &mut Draw, dtype: DType, is_decoder: bool) -> Sample {
    let (own, sizes) = MultiHead::draw(draw, dtype, is_decoder);
    let mut masking = Masking::draw(draw, dtype, sizes);
    masking.is_causal &= !is_decoder;
    let tensor = |array: &Array| array.to_tensor(dtype);
    let packed = own.packed().to_vec();
    let bias = vec![own.bias.as_ref().map(tensor)];
    let seen = vec![masking.mask.clone(), masking.biases.clone()];
    let past = [0, 1].map(|i| own.past.as_ref().map(|past| tensor(&past[i]))).to_vec();
    let used = vec![own.is_shared.then(|| int32(&[1], [sizes.past]))];
    let beams = vec![own.beams.as_ref().map(|beams| beams.to_tensor(DType::I32))];
    let inputs = if is_decoder {
        let width = own.beams.as_ref().map(|beams| int32(&[1], [beams.shape[1]]));
        [packed, seen, past, used, vec![width], beams, bias].concat()
    } else {
        [packed, bias, seen, past, used, beams].concat()
    };
    let n = draw.pick(&[1, 3, 4]);
    let attrs = [
        ("num_heads", Some(count(sizes.heads))),
        ("scale", own.scale.map(Attr::Float)),
        ("mask_filter_value", masking.filter.map(Attr::Float)),
        ("unidirectional", masking.is_causal.then_some(Attr::Int(1))),
        ("past_present_share_buffer", (is_decoder && own.is_shared).then_some(Attr::Int(1))),
        ("output_qk", (is_decoder && n == 4).then_some(Attr::Int(1))),
    ];
    let sample = Sample::of(inputs, move || {
        let mut expected = own.expected(&masking);
        expected.truncate(n);
        expected
    });
    let sample = sample.outputs(n);
    attrs.into_iter().fold(sample, |sample, (name, attr)| sample.maybe(name, attr))
}
