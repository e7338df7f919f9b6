//! Pairs of features that are rotated: sums of products of small whole numbers, which are exact.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::draw::signed;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::onnx("RotaryEmbedding", &[23], |draw, dtype| rotary(draw, dtype, [3, 1, 2])),
    Property::microsoft("RotaryEmbedding", |draw, dtype| rotary(draw, dtype, [1, 2, 3])),
];

/// `places` are the positions of position ids, cosines and sines.
fn rotary(draw: &mut Draw, dtype: DType, places: [usize; 3]) -> Sample {
    let is_microsoft = places[0] == 1;
    let [batch, heads, steps] = [draw.dim(), draw.some_dim().min(3), draw.some_dim().min(3)];
    let pairs = 1 + draw.below(2);
    let rest = if draw.one_in(2) { 1 + draw.below(2) } else { 0 };
    let size = 2 * pairs + rest;
    let (is_interleaved, interleaved) = draw.flag(false);
    let is_split = draw.one_in(2);
    let x = draw.small(dtype, &[batch, heads, steps, size]);
    // Rows of a cache selected by positions, or a row for each step.
    let has_positions = is_microsoft || draw.one_in(2);
    let n_rows = steps + draw.below(3);
    let first = draw.below(n_rows - steps + 1);
    let is_first = is_microsoft && draw.one_in(2);
    let positions = Array::from_fn(&[batch, steps], |at| match is_first {
        true => Cell::Int(signed(first + at[1]).into()),
        false => Cell::Int(draw.int(0, signed(n_rows) - 1).into()),
    });
    let cache = if has_positions { vec![n_rows, pairs] } else { vec![batch, steps, pairs] };
    let [cos, sin] = [0, 1].map(|_| draw.small(dtype, &cache));
    let stored = match is_split {
        true => x.clone(),
        false => packed(&Array::of(&x)).to_tensor(dtype),
    };
    let written = match is_first {
        true => Tensor::from_slice(&[1], &[signed(first)]).unwrap(),
        false => positions.to_tensor(DType::I64),
    };
    let sample = Sample::new(&[&stored], {
        let (cos, sin) = (cos.clone(), sin.clone());
        move || {
            let [x, cos, sin] = [&x, &cos, &sin].map(Array::of);
            let place = |at: &[usize], pair: usize| match has_positions {
                true => {
                    let row = positions.at(&[at[0], at[2]]).int();
                    vec![usize::try_from(row).unwrap(), pair]
                }
                false => vec![at[0], at[2], pair],
            };
            let y = rotated(&x, pairs, is_interleaved, |at, pair| {
                let place = place(at, pair);
                [&cos, &sin].map(|x| x.at(&place).float())
            });
            Expected::exact(dtype, if is_split { y } else { packed(&y) })
        }
    });
    let sample = match has_positions {
        true if is_microsoft => sample.input(places[0], written.clone()).input(places[1], cos),
        _ => sample.input(places[1], cos),
    };
    let sample = sample.input(places[2], sin);
    let sample =
        if has_positions && !is_microsoft { sample.input(places[0], written) } else { sample };
    let has_heads = !is_split || rest > 0 || draw.one_in(2);
    let has_size = rest > 0 || draw.one_in(4);
    sample
        .maybe("interleaved", interleaved)
        .maybe("num_heads", has_heads.then(|| Attr::Int(signed(heads))))
        .maybe("rotary_embedding_dim", has_size.then(|| Attr::Int(signed(2 * pairs))))
}

/// Pairs of features rotated by their cosines and sines; the rest is unchanged.
fn rotated(
    x: &Array,
    pairs: usize,
    is_interleaved: bool,
    angle: impl Fn(&[usize], usize) -> [f64; 2],
) -> Array {
    Array::from_fn(&x.shape, |at| {
        let i = at[3];
        if i >= 2 * pairs {
            return x.at(at).clone();
        }
        let (pair, is_second) = match is_interleaved {
            true => (i / 2, i % 2 == 1),
            false => (i % pairs, i >= pairs),
        };
        let both = if is_interleaved { [2 * pair, 2 * pair + 1] } else { [pair, pair + pairs] };
        let [a, b] = both.map(|i| x.at(&[&at[..3], &[i]].concat()).float());
        let [cos, sin] = angle(at, pair);
        Cell::Float(if is_second { a * sin + b * cos } else { a * cos - b * sin })
    })
}

/// `[B, H, S, D]` as `[B, S, H·D]`.
fn packed(x: &Array) -> Array {
    let x = x.transposed(&[0, 2, 1, 3]);
    x.reshaped(&[x.shape[0], x.shape[1], x.shape[2] * x.shape[3]])
}
