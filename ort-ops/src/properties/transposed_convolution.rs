//! Transposed convolutions: sums of small whole numbers, which are exact.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::convolution::{optional, term};
use super::draw::signed;
use super::windows::{Windows, ints};
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::onnx("ConvTranspose", &[1, 11, 22], |draw, dtype| transposed(draw, dtype, false)),
    Property::microsoft("ConvTransposeWithDynamicPads", |draw, dtype| {
        transposed(draw, dtype, true)
    }),
];

/// The windows are placed over the output: `windows.input` is the shape of the result.
fn placed(draw: &mut Draw, is_dynamic: bool) -> Windows {
    let mut windows = Windows::unplaced(draw, true);
    let rank = windows.kernel.len();
    windows.output = (0..rank).map(|_| draw.some_dim().min(3)).collect();
    let added: Vec<_> = (0..rank).map(|axis| draw.below(windows.strides[axis])).collect();
    let has_added = draw.one_in(2);
    let full = |windows: &Windows, axis: usize| {
        let added = if has_added { added[axis] } else { 0 };
        (windows.output[axis] - 1) * windows.strides[axis] + windows.span(axis) + added
    };
    let form = if is_dynamic { draw.below(2) } else { draw.below(4) };
    let auto_pad = match form {
        2 => draw.pick(&["SAME_UPPER", "SAME_LOWER"]),
        3 => draw.pick(&["NOTSET", "SAME_UPPER", "SAME_LOWER"]),
        _ => draw.pick(&["NOTSET", "VALID"][..2 - form]),
    };
    for axis in 0..rank {
        let full = full(&windows, axis);
        if form < 2 {
            let begin = if form == 1 { draw.below(full.min(3)) } else { 0 };
            let end = if form == 1 { draw.below((full - begin).min(3)) } else { 0 };
            (windows.begin[axis], windows.end[axis]) = (begin, end);
            windows.input[axis] = full - begin - end;
            continue;
        }
        let same = windows.output[axis] * windows.strides[axis];
        windows.input[axis] =
            if form == 2 { same } else { full.saturating_sub(draw.below(3)).max(1) };
        let padding = full.saturating_sub(windows.input[axis]);
        let (less, more) = (padding / 2, padding.div_ceil(2));
        let is_upper = auto_pad == "SAME_UPPER";
        (windows.begin[axis], windows.end[axis]) =
            if is_upper { (less, more) } else { (more, less) };
    }
    if auto_pad != "NOTSET" || draw.one_in(2) {
        windows.attrs.push(("auto_pad", Attr::String(auto_pad.into())));
    }
    if has_added {
        windows.attrs.push(("output_padding", ints(&added)));
    }
    if form == 3 {
        windows.attrs.push(("output_shape", ints(&windows.input)));
    }
    if form == 1 && !is_dynamic {
        windows.attrs.push(("pads", ints(&[&windows.begin[..], &windows.end].concat())));
    }
    windows
}

/// `y[n, m, p·stride + k·dilation − pad] += w[c, m, k] · x[n, c, p]`.
fn spread(windows: &Windows, group: usize, x: &Array, w: &Array) -> Array {
    let (inputs, outputs) = (x.shape[1] / group, w.shape[1]);
    let shape = [&[x.shape[0], group * outputs], &windows.input[..]].concat();
    let taps = windows.taps();
    Array::from_fn(&shape, |at| {
        let part = at[1] / outputs;
        let from = |tap: &[usize]| -> Option<Vec<usize>> {
            let along = |axis: usize| {
                let ahead = at[2 + axis] + windows.begin[axis];
                let start = ahead.checked_sub(tap[axis] * windows.dilations[axis])?;
                let is_start = start.is_multiple_of(windows.strides[axis]);
                let place = start / windows.strides[axis];
                (is_start && place < windows.output[axis]).then_some(place)
            };
            (0..tap.len()).map(along).collect()
        };
        let mut sum = 0.0;
        for (tap, place) in taps.iter().filter_map(|tap| Some((tap, from(tap)?))) {
            for c in part * inputs..(part + 1) * inputs {
                let x = x.at(&[&[at[0], c], &place[..]].concat()).float();
                sum += x * w.at(&[&[c, at[1] % outputs], &tap[..]].concat()).float();
            }
        }
        Cell::Float(sum)
    })
}

fn transposed(draw: &mut Draw, dtype: DType, is_dynamic: bool) -> Sample {
    let windows = placed(draw, is_dynamic);
    let group = draw.pick(&[1, 1, 2, 3]);
    let (c, m) = (group * (1 + draw.below(2)), 1 + draw.below(2));
    let x = [&[draw.dim().min(2), c], &windows.output[..]].concat();
    let x = draw.small(dtype, &x);
    let w = draw.small(dtype, &[&[c, m], &windows.kernel[..]].concat());
    let b = optional(draw, dtype, &[group * m]);
    let sample = Sample::new(&[&x.clone(), &w.clone()], {
        let (windows, b) = (windows.clone(), b.clone());
        move || {
            let y = spread(&windows, group, &Array::of(&x), &Array::of(&w));
            let b = b.as_ref().map(Array::of);
            let y = Array::from_fn(&y.shape, |at| {
                Cell::Float(y.at(at).float() + term(b.as_ref(), &at[1..2]))
            });
            Expected::exact(dtype, y)
        }
    });
    let pads: Vec<_> = windows.begin.iter().chain(&windows.end).map(|&n| signed(n)).collect();
    let is_padded = pads.iter().any(|&pad| pad > 0) || draw.one_in(2);
    let pads = (is_dynamic && is_padded).then(|| super::draw::ints(&pads));
    let sample = with_input(sample, 2, pads);
    let sample = with_input(sample, if is_dynamic { 3 } else { 2 }, b);
    let has_group = group > 1 || draw.one_in(2);
    let has_kernel = draw.one_in(2);
    windows
        .written(sample)
        .maybe("group", has_group.then(|| Attr::Int(signed(group))))
        .maybe("kernel_shape", has_kernel.then(|| ints(&windows.kernel)))
}

/// The node with another operand, if present.
fn with_input(sample: Sample, index: usize, x: Option<Tensor>) -> Sample {
    if x.is_some() { sample.input(index, x) } else { sample }
}
