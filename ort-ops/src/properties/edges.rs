//! Operators that move elements by their position in a block, and fill the rest.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::draw::{counts, ints, signed};
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property { domain: "", name: "Pad", versions: &[1, 2, 11, 13, 18, 19, 25], draw: pad },
    Property { domain: "com.microsoft", name: "Pad", versions: &[1], draw: pad_microsoft },
    Property { domain: "", name: "Trilu", versions: &[14], draw: trilu },
    Property { domain: "com.microsoft", name: "Trilu", versions: &[1], draw: trilu },
    Property { domain: "", name: "DepthToSpace", versions: &[1, 11, 13, 28], draw: to_space },
    Property { domain: "", name: "SpaceToDepth", versions: &[1, 13, 28], draw: to_depth },
    Property { domain: "", name: "ReverseSequence", versions: &[10, 28], draw: reverse_sequence },
];

fn pad(draw: &mut Draw, dtype: DType) -> Sample {
    let modes: &[_] = match draw.version {
        ..19 => &["constant", "reflect", "edge"],
        _ => &["constant", "reflect", "edge", "wrap"],
    };
    let mode = draw.pick(modes);
    let shape = draw.shape(usize::from(draw.version < 11));
    let pads = pads(draw, mode, &shape);
    let x = draw.any(dtype, &shape);
    if draw.version >= 11 {
        let has_axes = draw.version >= 18 && draw.one_in(2);
        return pad_by_inputs(draw, (mode, &x), pads, has_axes);
    }
    // The value was a float attribute, meaningless for other types.
    let value = (dtype.is_float() && draw.one_in(2)).then_some(1.5_f32);
    let fill = value.map_or(Cell::zero(dtype), |value| Cell::Float(value.into()));
    let name = if draw.version == 1 { "paddings" } else { "pads" };
    let sample = padding(mode, &x, pads.clone(), fill).attr(name, Attr::Ints(written(&pads)));
    value.into_iter().fold(sample, |sample, value| sample.attr("value", Attr::Float(value)))
}

fn pad_microsoft(draw: &mut Draw, dtype: DType) -> Sample {
    let mode = draw.pick(&["constant", "reflect", "edge", "wrap"]);
    let shape = draw.shape(0);
    let pads = pads(draw, mode, &shape);
    let x = draw.any(dtype, &shape);
    let is_matrix = draw.one_in(2);
    let has_axes = !is_matrix && draw.one_in(2);
    let sample = pad_by_inputs(draw, (mode, &x), pads.clone(), has_axes);
    if !is_matrix {
        return sample;
    }
    let row = Tensor::from_slice(&[1, 2 * pads.len()], &written(&pads)).unwrap();
    sample.input(1, row)
}

/// The pads of an axis, before and after.
type Pads = Vec<(i64, i64)>;

/// Pads of some axes; negative ones remove entries.
fn pads(draw: &mut Draw, mode: &str, shape: &[usize]) -> Pads {
    let pads = shape.iter().map(|&n| {
        if !draw.one_in(3) {
            return (0, 0);
        }
        let n = signed(n);
        let front = draw.int((-n).max(-2), 2);
        let back = draw.int((-n - front.min(0)).max(-2), 3);
        // An empty axis has nothing to repeat.
        let is_gone = n + front.min(0) + back.min(0) == 0;
        if is_gone && mode != "constant" { (front.min(0), back.min(0)) } else { (front, back) }
    });
    pads.collect()
}

fn written(pads: &[(i64, i64)]) -> Vec<i64> {
    pads.iter().map(|pad| pad.0).chain(pads.iter().map(|pad| pad.1)).collect()
}

/// A node whose pads, value and axes are operands.
fn pad_by_inputs(
    draw: &mut Draw,
    (mode, x): (&'static str, &Tensor),
    mut pads: Pads,
    has_axes: bool,
) -> Sample {
    let rank = pads.len();
    let axes = has_axes.then(|| draw.axes(rank));
    let mut given = pads.clone();
    if let Some(axes) = &axes {
        given = axes.iter().map(|&axis| pads[axis]).collect();
        (0..rank).filter(|axis| !axes.contains(axis)).for_each(|axis| pads[axis] = (0, 0));
    }
    let value = draw.one_in(2).then(|| draw.any(x.dtype(), &[]));
    let fill = match &value {
        Some(value) => Array::of(value).cells.remove(0),
        None => Cell::zero(x.dtype()),
    };
    let mut sample = padding(mode, x, pads, fill).input(1, ints(&written(&given)));
    if let Some(value) = value {
        sample = sample.input(2, value);
    }
    if let Some(axes) = axes {
        let axes: Vec<_> = axes.iter().map(|&axis| draw.written(axis, rank)).collect();
        sample = sample.input(3, draw.indices(&[axes.len()], &axes));
    }
    sample
}

fn padding(mode: &'static str, x: &Tensor, pads: Pads, fill: Cell) -> Sample {
    let x_cells = Array::of(x);
    let dtype = x.dtype();
    let oracle = move || {
        let dims = x_cells.shape.iter().zip(&pads);
        let dims =
            dims.map(|(&n, (front, back))| usize::try_from(signed(n) + front + back).unwrap());
        let y = Array::from_fn(&dims.collect::<Vec<_>>(), |index| {
            let axes = index.iter().zip(&x_cells.shape).zip(&pads);
            let from: Option<Vec<_>> =
                axes.map(|((&i, &n), &pads)| source(mode, i, n, pads)).collect();
            from.map_or_else(|| fill.clone(), |from| x_cells.at(&from).clone())
        });
        Expected::exact(dtype, y)
    };
    Sample::new(&[x], oracle).attr("mode", Attr::String(mode.into()))
}

/// The entry of an axis of `n` that is at `i` of the padded axis; `None` for the value.
fn source(mode: &str, i: usize, n: usize, (front, back): (i64, i64)) -> Option<usize> {
    // The remaining axis, and the position in it, or next to it.
    let (start, end) = (-front.min(0), signed(n) + back.min(0));
    let n = end - start;
    let mut i = signed(i) - front.max(0);
    let is_inside = |i: i64| (0..n).contains(&i);
    while !is_inside(i) {
        i = match mode {
            "edge" => i.clamp(0, n - 1),
            "wrap" => i + if i < 0 { n } else { -n },
            // Reflected at both ends.
            "reflect" if n == 1 => 0,
            "reflect" => {
                if i < 0 {
                    -i
                } else {
                    2 * (n - 1) - i
                }
            }
            _ => return None,
        };
    }
    usize::try_from(start + i).ok()
}

fn trilu(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(2);
    let (is_upper, near) = (draw.one_in(2), draw.int(-5, 5));
    let k = draw.pick(&[None, Some(near), Some(near), Some(i64::MIN), Some(i64::MAX)]);
    let x = draw.any(dtype, &shape);
    let sample = Sample::new(&[&x.clone()], move || {
        let x = Array::of(&x);
        let y = Array::from_fn(&shape, |index| {
            let place = |axis: usize| i128::try_from(index[axis]).unwrap();
            let (row, column) = (place(index.len() - 2), place(index.len() - 1));
            let diagonal = row + i128::from(k.unwrap_or(0));
            let is_kept = if is_upper { column >= diagonal } else { column <= diagonal };
            if is_kept { x.at(index).clone() } else { Cell::zero(dtype) }
        });
        Expected::exact(dtype, y)
    });
    let sample = sample.input(1, k.map(Tensor::scalar));
    if is_upper && draw.one_in(2) {
        sample
    } else {
        sample.attr("upper", Attr::Int(is_upper.into()))
    }
}

/// A block size, a shape with such blocks, and whether a channel of the deep tensor is indexed by (channel, row,
/// column) instead of (row, column, channel).
fn blocks(draw: &mut Draw, has_mode: bool) -> (usize, [usize; 4], Option<bool>) {
    let shape = [draw.dim(), draw.dim(), draw.dim(), draw.dim()];
    (
        1 + draw.below(3),
        shape,
        draw.pick(&[None, has_mode.then_some(true), has_mode.then_some(false)]),
    )
}

fn block_attrs(sample: Sample, b: usize, mode: Option<bool>) -> Sample {
    let sample = sample.attr("blocksize", Attr::Int(signed(b)));
    mode.into_iter().fold(sample, |sample, is_crd| {
        sample.attr("mode", Attr::String(if is_crd { "CRD" } else { "DCR" }.into()))
    })
}

/// The channel of the deep tensor with the pixel (i, j) of the blocks of channel `c` of `n`.
fn deep_channel(
    mode: Option<bool>,
    (c, n): (usize, usize),
    (i, j): (usize, usize),
    b: usize,
) -> usize {
    if mode == Some(true) { (c * b + i) * b + j } else { (i * b + j) * n + c }
}

fn to_space(draw: &mut Draw, dtype: DType) -> Sample {
    let (b, [n, c, h, w], mode) = blocks(draw, draw.version >= 11);
    let x = draw.any(dtype, &[n, c * b * b, h, w]);
    let sample = Sample::moving(&x, vec![n, c, h * b, w * b], move |y| {
        let channel = deep_channel(mode, (y[1], c), (y[2] % b, y[3] % b), b);
        vec![y[0], channel, y[2] / b, y[3] / b]
    });
    block_attrs(sample, b, mode)
}

fn to_depth(draw: &mut Draw, dtype: DType) -> Sample {
    let (b, [n, c, h, w], mode) = blocks(draw, draw.version >= 28);
    let x = draw.any(dtype, &[n, c, h * b, w * b]);
    let sample = Sample::moving(&x, vec![n, c * b * b, h, w], move |y| {
        let places = (0..c * b * b).map(|at| (at / (b * b), at / b % b, at % b));
        let mut places =
            places.filter(|&(c_at, i, j)| deep_channel(mode, (c_at, c), (i, j), b) == y[1]);
        let (c, i, j) = places.next().unwrap();
        vec![y[0], c, y[2] * b + i, y[3] * b + j]
    });
    block_attrs(sample, b, mode)
}

fn reverse_sequence(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(2);
    let time = draw.below(2);
    let batch = 1 - time;
    let lens: Vec<_> = (0..shape[batch]).map(|_| draw.below(shape[time] + 1)).collect();
    let lens_tensor = counts(&lens);
    let sample = Sample::moving(&draw.any(dtype, &shape), shape, move |index| {
        let mut from = index.to_vec();
        let len = lens[index[batch]];
        from[time] = if index[time] < len { len - 1 - index[time] } else { index[time] };
        from
    });
    let sample = sample.input(1, lens_tensor);
    if time == 0 && draw.one_in(2) {
        return sample;
    }
    let axis = |axis: usize| Attr::Int(signed(axis));
    sample.attr("time_axis", axis(time)).attr("batch_axis", axis(batch))
}
