//! Operators that move elements without reading their values: exact for every type.

use ort_graph::Attr;
use ort_tensor::DType;

use super::draw::{counts, signed};
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property { domain: "", name: "Concat", versions: &[4, 11, 13], draw: concat },
    Property { domain: "", name: "Transpose", versions: &[1, 13, 25], draw: transpose },
    Property { domain: "", name: "Expand", versions: &[8, 13], draw: expand },
    Property { domain: "", name: "Tile", versions: &[1, 6, 13], draw: tile },
    Property { domain: "", name: "DynamicSlice", versions: &[1], draw: dynamic_slice },
    Property { domain: "", name: "Slice", versions: &[1, 10, 11, 13], draw: slice },
    Property { domain: "", name: "Split", versions: &[1, 2, 11, 13, 18], draw: split },
];

fn concat(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(1);
    let (axis, written) = draw.axis(shape.len());
    let parts: Vec<_> = (0..1 + draw.below(3))
        .map(|_| {
            let mut shape = shape.clone();
            shape[axis] = draw.dim();
            draw.any(dtype, &shape)
        })
        .collect();
    let written = if draw.version < 11 { signed(axis) } else { written };
    let inputs: Vec<_> = parts.iter().collect();
    Sample::new(&inputs, {
        let parts = parts.clone();
        move || {
            let parts: Vec<_> = parts.iter().map(Array::of).collect();
            Expected::exact(dtype, joined(&parts, axis))
        }
    })
    .attr("axis", Attr::Int(written))
}

/// The arrays concatenated along an axis.
pub(super) fn joined(parts: &[Array], axis: usize) -> Array {
    let mut whole = parts[0].shape.clone();
    whole[axis] = parts.iter().map(|part| part.shape[axis]).sum();
    Array::from_fn(&whole, |index| {
        let mut index = index.to_vec();
        let mut part = 0;
        while index[axis] >= parts[part].shape[axis] {
            index[axis] -= parts[part].shape[axis];
            part += 1;
        }
        parts[part].at(&index).clone()
    })
}

fn transpose(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(0);
    let is_reversed = draw.one_in(4);
    let perm = match is_reversed {
        true => (0..shape.len()).rev().collect(),
        false => draw.permutation(shape.len()),
    };
    let written = perm.iter().copied().map(signed).collect();
    let permuted = perm.iter().map(|&axis| shape[axis]).collect();
    let sample = Sample::moving(&draw.any(dtype, &shape), permuted, move |index| {
        let mut from = vec![0; index.len()];
        perm.iter().zip(index).for_each(|(&axis, &i)| from[axis] = i);
        from
    });
    if is_reversed { sample } else { sample.attr("perm", Attr::Ints(written)) }
}

fn expand(draw: &mut Draw, dtype: DType) -> Sample {
    let (shapes, shape) = draw.broadcast(2);
    let x = draw.any(dtype, &shapes[0]);
    Sample::new(&[&x.clone(), &counts(&shapes[1])], move || {
        let x = Array::of(&x);
        Expected::exact(dtype, Array::from_fn(&shape, |index| x.at_broadcast(index).clone()))
    })
}

fn tile(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(0);
    if draw.version < 6 {
        return tile_along(draw, dtype);
    }
    let repeats: Vec<_> = shape.iter().map(|_| draw.pick(&[0, 1, 1, 1, 2, 3])).collect();
    let tiled = shape.iter().zip(&repeats).map(|(n, repeats)| n * repeats).collect();
    let repeats = counts(&repeats);
    Sample::moving(&draw.any(dtype, &shape), tiled, move |index| {
        index.iter().zip(&shape).map(|(i, n)| i % n).collect()
    })
    .input(1, repeats)
}

/// Along one axis, in numbers of the type of the operand.
fn tile_along(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(1);
    let (axis, tiles) = (draw.below(shape.len()), draw.below(4));
    let mut tiled = shape.clone();
    tiled[axis] *= tiles;
    let mut number = |n: usize| match dtype.is_float() {
        true => Array::from_fn(&[], |_| Cell::Float(n as f64)).to_tensor(dtype),
        false => draw.any(dtype, &[]),
    };
    let (tiles, axis) = (number(tiles), number(axis));
    Sample::moving(&draw.any(dtype, &shape), tiled, move |index| {
        index.iter().zip(&shape).map(|(i, n)| i % n).collect()
    })
    .input(1, tiles)
    .input(2, axis)
}

fn slice(draw: &mut Draw, dtype: DType) -> Sample {
    let has_inputs = draw.version >= 10;
    let has_steps = has_inputs && draw.one_in(2);
    sliced(draw, dtype, has_inputs, has_steps)
}

/// An early form with inputs.
fn dynamic_slice(draw: &mut Draw, dtype: DType) -> Sample {
    sliced(draw, dtype, true, false)
}

fn sliced(draw: &mut Draw, dtype: DType, has_inputs: bool, has_steps: bool) -> Sample {
    let shape = draw.shape(1);
    let rank = shape.len();
    let index_type = draw.index_type();
    // Without axes, the ranges are those of the first ones.
    let has_axes = draw.one_in(2);
    let axes =
        if has_axes { draw.axes(rank) } else { (0..1 + draw.below(rank)).collect::<Vec<_>>() };
    let bounds = |draw: &mut Draw| axes.iter().map(|_| bound(draw, index_type)).collect();
    let (starts, ends): (Vec<i64>, Vec<i64>) = (bounds(draw), bounds(draw));
    let steps: Vec<i64> = axes
        .iter()
        .map(|_| if has_steps { draw.pick(&[-3, -2, -1, 1, 2, 5]) } else { 1 })
        .collect();

    let mut taken: Vec<Vec<usize>> = shape.iter().map(|&n| (0..n).collect()).collect();
    for (i, &axis) in axes.iter().enumerate() {
        taken[axis] = range(shape[axis], starts[i], ends[i], steps[i]);
    }
    let sliced = taken.iter().map(Vec::len).collect();
    let mut sample = Sample::moving(&draw.any(dtype, &shape), sliced, move |index| {
        index.iter().zip(&taken).map(|(&i, taken)| taken[i]).collect()
    });
    let is_signed = draw.version >= 11;
    let mut written =
        |&axis: &usize| if is_signed { draw.written(axis, rank) } else { signed(axis) };
    let axes = axes.iter().map(&mut written).collect();
    let given = [
        ("starts", Some(starts)),
        ("ends", Some(ends)),
        ("axes", has_axes.then_some(axes)),
        ("steps", has_steps.then_some(steps)),
    ];
    for (i, (name, values)) in given.into_iter().enumerate() {
        let Some(values) = values else { continue };
        sample = match has_inputs {
            true => sample.input(i + 1, Array::ints(&values).to_tensor(index_type)),
            false => sample.attr(name, Attr::Ints(values)),
        };
    }
    sample
}

/// A start or an end: near the axis on either side, or as far away as the type allows.
fn bound(draw: &mut Draw, index_type: DType) -> i64 {
    let far = match index_type {
        DType::I32 => [i64::from(i32::MIN), i64::from(i32::MAX)],
        _ => [i64::MIN, i64::MAX],
    };
    if draw.one_in(4) { draw.pick(&far) } else { draw.int(-6, 6) }
}

/// The indices of an axis of `n` from `start` to before `end`, both clamped to it.
fn range(n: usize, start: i64, end: i64, step: i64) -> Vec<usize> {
    let n = i128::try_from(n).unwrap();
    let from_front = |i: i64| i128::from(i) + if i < 0 { n } else { 0 };
    let (first, last) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let (start, end) =
        (from_front(start).clamp(first.max(0).min(last), last), from_front(end).clamp(first, last));
    let mut i = start;
    let mut taken = Vec::new();
    while if step > 0 { i < end } else { i > end } {
        taken.push(usize::try_from(i).unwrap());
        i += i128::from(step);
    }
    taken
}

fn split(draw: &mut Draw, dtype: DType) -> Sample {
    let mut shape = draw.shape(1);
    let (axis, written) = draw.axis(shape.len());
    let n_outputs = 1 + draw.below(4);
    let is_equal = draw.one_in(2);
    let lengths: Vec<usize> = if !is_equal {
        (0..n_outputs).map(|_| draw.dim()).collect()
    } else if draw.version < 18 {
        vec![draw.dim(); n_outputs]
    } else {
        // As long as the longest, as long as there is something left.
        let n = shape[axis];
        let longest = n.div_ceil(n_outputs);
        (0..n_outputs).map(|i| longest.min(n.saturating_sub(i * longest))).collect()
    };
    shape[axis] = lengths.iter().sum();
    let x = draw.any(dtype, &shape);
    let given: Vec<_> = lengths.iter().copied().map(signed).collect();
    let sample = Sample::new(&[&x.clone()], move || {
        let x = Array::of(&x);
        pieces(&x, axis, &lengths)
            .into_iter()
            .map(|array| Expected::Tensor { dtype, array, ulps: 0.0, distance: 0.0 })
            .collect()
    });
    let written = if draw.version < 11 { signed(axis) } else { written };
    let sample = sample.outputs(n_outputs).attr("axis", Attr::Int(written));
    match is_equal {
        false => sample.ints(draw.version < 13, "split", &given),
        true if draw.version >= 18 => sample.attr("num_outputs", Attr::Int(signed(n_outputs))),
        true => sample,
    }
}

/// Consecutive pieces of these lengths along an axis.
pub(super) fn pieces(x: &Array, axis: usize, lengths: &[usize]) -> Vec<Array> {
    let starts = lengths.iter().scan(0, |start, length| {
        *start += length;
        Some(*start - length)
    });
    let piece = |(start, &length): (usize, &usize)| {
        let mut shape = x.shape.clone();
        shape[axis] = length;
        x.picked(&shape, |index| {
            let mut index = index.to_vec();
            index[axis] += start;
            index
        })
    };
    starts.zip(lengths).map(piece).collect()
}
