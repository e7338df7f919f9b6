//! Operators that keep the elements in place, and operators that only read the shape.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor, Value};

use super::draw::{ints, signed};
use super::{Array, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property { domain: "", name: "Reshape", versions: &[1, 5, 14, 25], draw: reshape },
    Property { domain: "", name: "Flatten", versions: &[1, 9, 11, 25], draw: flatten },
    Property { domain: "", name: "Squeeze", versions: &[1, 11, 13, 25], draw: squeeze },
    Property { domain: "", name: "Unsqueeze", versions: &[1, 11, 13, 25], draw: unsqueeze },
    Property { domain: "com.microsoft", name: "ExpandDims", versions: &[1], draw: expand_dims },
    Property { domain: "", name: "Identity", versions: &[1, 14, 16, 25], draw: identity },
    Property { domain: "com.microsoft", name: "SampleOp", versions: &[1], draw: identity },
    Property { domain: "", name: "Shape", versions: &[1, 13, 15, 25], draw: shape },
    Property { domain: "", name: "Size", versions: &[1, 13, 25], draw: size },
];

/// A node that gives the elements of `x` another shape.
fn reshaping(x: &Tensor, shape: Vec<usize>) -> Sample {
    Sample::new(&[x], {
        let x = x.clone();
        move || Expected::exact(x.dtype(), Array::of(&x).reshaped(&shape))
    })
}

fn reshape(draw: &mut Draw, dtype: DType) -> Sample {
    let from = draw.shape(0);
    let x = draw.any(dtype, &from);
    let keeps_zeros = draw.version >= 14 && draw.one_in(2);
    let to = reshaped(draw, &from, keeps_zeros);
    let mut written: Vec<_> = to.iter().copied().map(signed).collect();
    if !keeps_zeros {
        for (i, written) in written.iter_mut().enumerate() {
            let is_copied = from.get(i) == Some(&to[i]) && (to[i] == 0 || draw.one_in(3));
            *written = if is_copied { 0 } else { *written };
        }
    }
    // One dimension can be inferred, unless another is 0.
    let mut rests = (0..to.len()).filter(|&i| to.iter().enumerate().all(|(j, n)| i == j || *n > 0));
    if draw.one_in(2)
        && let Some(rest) = rests.next()
    {
        written[rest] = -1;
    }
    let sample = reshaping(&x, to).ints(draw.version < 5, "shape", &written);
    if keeps_zeros { sample.attr("allowzero", Attr::Int(1)) } else { sample }
}

/// Another shape of as many elements. A 0 is at the position of a 0 in `from` if it must be copied.
fn reshaped(draw: &mut Draw, from: &[usize], keeps_zeros: bool) -> Vec<usize> {
    if let Some(zero) = from.iter().position(|&n| n == 0) {
        let rank = (zero + 1).max(draw.below(7));
        let mut to: Vec<_> = (0..rank).map(|_| draw.some_dim()).collect();
        to[if keeps_zeros { draw.below(rank) } else { zero }] = 0;
        return to;
    }
    let mut rest: usize = from.iter().product();
    let mut to = Vec::new();
    while rest > 1 || draw.one_in(3) {
        let divisors: Vec<_> = (1..=rest).filter(|&d| rest.is_multiple_of(d)).collect();
        let dim = if to.len() < 5 { draw.pick(&divisors) } else { rest };
        rest /= dim;
        to.push(dim);
    }
    to
}

fn flatten(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(0);
    let rank = shape.len();
    let is_default = rank > 0 && draw.one_in(3);
    let axis = if is_default { 1 } else { draw.below(rank + 1) };
    let from_back = draw.version >= 11 && axis < rank && draw.one_in(2);
    let written = signed(axis) - if from_back { signed(rank) } else { 0 };
    let matrix = vec![shape[..axis].iter().product(), shape[axis..].iter().product()];
    let sample = reshaping(&draw.any(dtype, &shape), matrix);
    if is_default { sample } else { sample.attr("axis", Attr::Int(written)) }
}

fn squeeze(draw: &mut Draw, dtype: DType) -> Sample {
    let mut shape = draw.shape(0);
    let rank = shape.len();
    let axes = draw.axes(rank);
    axes.iter().for_each(|&axis| shape[axis] = 1);
    let x = draw.any(dtype, &shape);
    if draw.one_in(4) {
        return reshaping(&x, shape.into_iter().filter(|&n| n != 1).collect());
    }
    let written = written(draw, &axes, rank);
    let kept = (0..rank).filter(|axis| !axes.contains(axis)).map(|axis| shape[axis]).collect();
    reshaping(&x, kept).ints(draw.version < 13, "axes", &written)
}

fn unsqueeze(draw: &mut Draw, dtype: DType) -> Sample {
    let mut shape = draw.shape(0);
    let rank = shape.len();
    let axes = draw.axes(rank);
    axes.iter().for_each(|&axis| shape[axis] = 1);
    let old = (0..rank).filter(|axis| !axes.contains(axis)).map(|axis| shape[axis]);
    let x = draw.any(dtype, &old.collect::<Vec<_>>());
    let written = written(draw, &axes, rank);
    reshaping(&x, shape).ints(draw.version < 13, "axes", &written)
}

/// Axes as a node may write them: from the back only since version 11.
fn written(draw: &mut Draw, axes: &[usize], rank: usize) -> Vec<i64> {
    let may_be_negative = draw.version >= 11;
    let mut written = |&axis: &usize| match may_be_negative {
        true => draw.written(axis, rank),
        false => signed(axis),
    };
    axes.iter().map(&mut written).collect()
}

fn expand_dims(draw: &mut Draw, dtype: DType) -> Sample {
    let mut shape = draw.shape(0);
    let x = draw.any(dtype, &shape);
    let (axis, written) = draw.axis(shape.len() + 1);
    shape.insert(axis, 1);
    reshaping(&x, shape).input(1, Tensor::scalar(i32::try_from(written).unwrap()))
}

fn identity(draw: &mut Draw, dtype: DType) -> Sample {
    let mut tensor = || {
        let shape = draw.shape(0);
        Value::Tensor(draw.any(dtype, &shape))
    };
    let mut values = vec![tensor()];
    let items = vec![tensor(), tensor()];
    if draw.version >= 14 {
        values.push(Value::Sequence(items.clone()));
    }
    if draw.version >= 16 {
        values.extend([Value::Optional(None), Value::Optional(Some(Box::new(items[0].clone())))]);
    }
    let x = draw.pick(&values);
    Sample::of_values(vec![x.clone()], move || vec![Expected::Value(x.clone())])
}

fn shape(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(0);
    let rank = signed(shape.len());
    let mut end = || (draw.version >= 15 && draw.one_in(2)).then(|| draw.int(-8, 8));
    let (start, end) = (end(), end());
    let clamped = move |axis: i64| (if axis < 0 { axis + rank } else { axis }).clamp(0, rank);
    let axes = clamped(start.unwrap_or(0))..clamped(end.unwrap_or(rank));
    let part: Vec<_> = axes.map(|axis| signed(shape[usize::try_from(axis).unwrap()])).collect();
    let sample =
        Sample::new(&[&draw.any(dtype, &shape)], move || vec![Expected::Value(ints(&part).into())]);
    let ends = [("start", start), ("end", end)];
    ends.into_iter().fold(sample, |sample, (name, end)| match end {
        Some(end) => sample.attr(name, Attr::Int(end)),
        None => sample,
    })
}

fn size(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(0);
    let n = signed(shape.iter().product());
    Sample::new(&[&draw.any(dtype, &shape)], move || {
        vec![Expected::Value(Tensor::scalar(n).into())]
    })
}
