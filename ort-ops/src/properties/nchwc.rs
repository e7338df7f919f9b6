//! Operators in NCHWc: the plain operators, with blocked positions.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::array::{Array, Cell};
use super::draw::Draw;
use super::{Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    property("AveragePool", |draw, dtype| pool(draw, dtype, Some([2, 2]), mean)),
    property("Conv", conv),
    property("GlobalAveragePool", |draw, dtype| pool(draw, dtype, None, mean)),
    property("GlobalMaxPool", |draw, dtype| pool(draw, dtype, None, largest)),
    property("MaxPool", |draw, dtype| pool(draw, dtype, Some([2, 2]), largest)),
    property("ReorderInput", reorder_input),
    property("ReorderOutput", reorder_output),
    property("Upsample", upsample),
];

const fn property(name: &'static str, draw: fn(&mut Draw, DType) -> Sample) -> Property {
    Property { domain: "com.microsoft.nchwc", name, versions: &[1], draw }
}

/// `[N, C, H, W]` in memory `[N][C/B][H][W][B]`.
fn in_blocks(x: &Array, block: usize) -> Array {
    let &[n, c, h, w] = x.shape.as_slice() else { panic!("{:?}", x.shape) };
    let memory = Array::from_fn(&[n, c / block, h, w, block], |at| {
        x.at(&[at[0], at[1] * block + at[4], at[2], at[3]]).clone()
    });
    memory.reshaped(&x.shape)
}

/// `[O, I, KH, KW]` in memory `[O/B][I/C][KH][KW][C][B]`, C the block of the inputs.
fn filter_in_blocks(w: &Array, block: usize, inputs: usize) -> Array {
    let &[o, i, kh, kw] = w.shape.as_slice() else { panic!("{:?}", w.shape) };
    let memory = Array::from_fn(&[o / block, i / inputs, kh, kw, inputs, block], |at| {
        w.at(&[at[0] * block + at[5], at[1] * inputs + at[4], at[2], at[3]]).clone()
    });
    memory.reshaped(&w.shape)
}

fn int(n: usize) -> Attr {
    Attr::Int(i64::try_from(n).unwrap())
}

/// A sample whose first operand and result are in NCHWc, with other operands unchanged.
fn sample(
    x: &Array,
    others: &[&Tensor],
    (dtype, block): (DType, usize),
    oracle: impl Fn() -> Array + 'static,
) -> Sample {
    let x = in_blocks(x, block).to_tensor(dtype);
    let operands: Vec<&Tensor> = std::iter::once(&x).chain(others.iter().copied()).collect();
    let oracle = move || Expected::near(dtype, in_blocks(&oracle(), block), 2.0);
    Sample::new(&operands, oracle).attr("block_size", int(block))
}

fn mean(cells: &[f64]) -> f64 {
    cells.iter().sum::<f64>() / f64::from(u32::try_from(cells.len()).unwrap())
}

fn largest(cells: &[f64]) -> f64 {
    cells.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// A pool of windows, or a global pool.
fn pool(
    draw: &mut Draw,
    dtype: DType,
    window: Option<[usize; 2]>,
    of: fn(&[f64]) -> f64,
) -> Sample {
    let block = draw.pick(&[1, 2, 4]);
    let least = window.map_or(0, |[kh, _]| kh - 1);
    let (h, w) = (least + draw.some_dim(), least + draw.some_dim());
    let x = [draw.some_dim(), block * draw.some_dim(), h, w];
    let x = Array::of(&draw.small(dtype, &x));
    let [kh, kw] = window.unwrap_or([h, w]);
    let planes = x.clone();
    let oracle = move || {
        let shape = [planes.shape[0], planes.shape[1], h - kh + 1, w - kw + 1];
        Array::from_fn(&shape, |at| {
            let cell = |i| planes.at(&[at[0], at[1], at[2] + i / kw, at[3] + i % kw]).float();
            Cell::Float(of(&(0..kh * kw).map(cell).collect::<Vec<_>>()))
        })
    };
    let sample = sample(&x, &[], (dtype, block), oracle);
    match window {
        Some(_) => sample.attr("kernel_shape", Attr::Ints(vec![2, 2])),
        None => sample,
    }
}

/// Each form of filters: an input in NCHW, one channel each, groups, all channels.
fn conv(draw: &mut Draw, dtype: DType) -> Sample {
    let block = draw.pick(&[2, 4]);
    let n = draw.some_dim();
    let (group, i, m) = match draw.below(4) {
        0 => (1, 1 + draw.below(block - 1), block * n),
        1 => (block * n, 1, 1),
        2 => (2, block, block * n),
        _ => (1, block * n, block),
    };
    let (o, is_planar) = (group * m, group == 1 && i < block);
    let x = Array::of(&draw.small(dtype, &[n, group * i, 3, 2]));
    let w = Array::of(&draw.small(dtype, &[o, i, 2, 1]));
    let in_nchw = x.to_tensor(dtype);
    let filter = filter_in_blocks(&w, block, if i < block { 1 } else { block });
    let filter = filter.to_tensor(dtype);
    let (planes, filters) = (x.clone(), w);
    let oracle = move || {
        Array::from_fn(&[n, o, 2, 2], |at| {
            let term = |j: usize| {
                let (c, k) = (j / 2, j % 2);
                let x = planes.at(&[at[0], at[1] / m * i + c, at[2] + k, at[3]]).float();
                x * filters.at(&[at[1], c, k, 0]).float()
            };
            Cell::Float((0..2 * i).map(term).sum())
        })
    };
    if is_planar {
        let oracle = move || Expected::exact(dtype, in_blocks(&oracle(), block));
        return Sample::new(&[&in_nchw, &filter], oracle).attr("block_size", int(block));
    }
    sample(&x, &[&filter], (dtype, block), oracle).attr("group", int(group))
}

fn reorder_input(draw: &mut Draw, dtype: DType) -> Sample {
    let block = draw.pick(&[1, 2, 4]);
    let is_last = draw.one_in(2);
    let [n, c, h, w] = [draw.dim(), draw.some_dim(), draw.dim(), draw.dim()];
    let shape = if is_last { [n, h, w, c] } else { [n, c, h, w] };
    let x = draw.small(dtype, &shape);
    let from = Array::of(&x);
    let oracle = move || {
        let padded = Array::from_fn(&[n, c.next_multiple_of(block), h, w], |at| match *at {
            [_, channel, _, _] if channel >= c => Cell::Float(0.0),
            [n, c, h, w] if is_last => from.at(&[n, h, w, c]).clone(),
            _ => from.at(at).clone(),
        });
        Expected::exact(dtype, in_blocks(&padded, block))
    };
    let sample = Sample::new(&[&x], oracle).attr("block_size", int(block));
    sample.attr("channels_last", int(usize::from(is_last)))
}

fn reorder_output(draw: &mut Draw, dtype: DType) -> Sample {
    let block = draw.pick(&[1, 2, 4]);
    let is_last = draw.one_in(2);
    let [n, c, h, w] = [draw.dim(), block * draw.some_dim(), draw.dim(), draw.dim()];
    let channels = 1 + draw.below(c);
    let planes = Array::of(&draw.small(dtype, &[n, c, h, w]));
    let x = in_blocks(&planes, block).to_tensor(dtype);
    let oracle = move || {
        let shape = if is_last { [n, h, w, channels] } else { [n, channels, h, w] };
        let y = Array::from_fn(&shape, |at| match *at {
            [n, h, w, c] if is_last => planes.at(&[n, c, h, w]).clone(),
            _ => planes.at(at).clone(),
        });
        Expected::exact(dtype, y)
    };
    let sample = Sample::new(&[&x], oracle).attr("block_size", int(block));
    sample.attr("channels", int(channels)).attr("channels_last", int(usize::from(is_last)))
}

/// The nearest element below, for which all asymmetric coordinates agree.
fn upsample(draw: &mut Draw, dtype: DType) -> Sample {
    let block = draw.pick(&[1, 2, 4]);
    let shape = [draw.some_dim(), block * draw.some_dim(), draw.some_dim(), draw.some_dim()];
    let (s, t) = (1 + draw.below(3), 1 + draw.below(3));
    let x = Array::of(&draw.small(dtype, &shape));
    let planes = x.clone();
    let oracle = move || {
        let [n, c, h, w] = shape;
        Array::from_fn(&[n, c, h * s, w * t], |at| {
            planes.at(&[at[0], at[1], at[2] / s, at[3] / t]).clone()
        })
    };
    let scales = [1, 1, s, t].map(|n| i64::try_from(n).unwrap());
    sample(&x, &[], (dtype, block), oracle).attr("scales", Attr::Ints(scales.to_vec()))
}
