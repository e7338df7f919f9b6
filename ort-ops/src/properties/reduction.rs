//! Operators that reduce axes to one element: the Reduce family, ArgMax and ArgMin.

use std::cmp::Ordering;

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::draw::{bounds, ints};
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::onnx("ArgMax", &[1, 13], |draw, dtype| arg(draw, dtype, Ordering::Greater)),
    Property::onnx("ArgMin", &[1, 13], |draw, dtype| arg(draw, dtype, Ordering::Less)),
    Property::onnx("ReduceL1", &[1, 18], |draw, dtype| {
        let x = any_number(draw, dtype);
        reduce(draw, &x, |dtype, x| sum_of(dtype, x, i128::abs, f64::abs))
    }),
    Property::onnx("ReduceL2", &[1, 18], |draw, dtype| {
        let x = any_number(draw, dtype);
        reduce(draw, &x, |dtype, x| rounded(dtype, square_sum(dtype, x).float().sqrt()))
    }),
    Property::onnx("ReduceLogSum", &[1, 28], |draw, dtype| {
        let x = with_logarithm(draw, dtype);
        reduce(draw, &x, |dtype, x| rounded(dtype, Cell::sum(dtype, x).float().ln()))
    }),
    Property::onnx("ReduceLogSumExp", &[1, 28], |draw, dtype| {
        let x = with_logarithm(draw, dtype);
        reduce(draw, &x, |dtype, x| {
            rounded(dtype, x.iter().map(|x| x.float().exp()).sum::<f64>().ln())
        })
    }),
    Property::onnx("ReduceMax", &[1, 20], |draw, dtype| {
        let x = any_number(draw, dtype);
        reduce(draw, &x, |dtype, x| extreme(dtype, x, Ordering::Greater))
    }),
    Property::onnx("ReduceMean", &[1, 18], |draw, dtype| {
        let x = not_empty(draw, dtype);
        reduce(draw, &x, mean)
    }),
    Property::onnx("ReduceMin", &[1, 20], |draw, dtype| {
        let x = any_number(draw, dtype);
        reduce(draw, &x, |dtype, x| extreme(dtype, x, Ordering::Less))
    }),
    Property::onnx("ReduceProd", &[1, 18], |draw, dtype| {
        let x = any_number(draw, dtype);
        reduce(draw, &x, Cell::product)
    }),
    Property::onnx("ReduceSum", &[11, 13], |draw, dtype| {
        let x = any_number(draw, dtype);
        reduce_from(13, draw, &x, Cell::sum)
    }),
    Property::onnx("ReduceSumSquare", &[1, 18], |draw, dtype| {
        let x = any_number(draw, dtype);
        reduce(draw, &x, square_sum)
    }),
];

fn any_number(draw: &mut Draw, dtype: DType) -> Tensor {
    let shape = draw.shape(0);
    draw.small(dtype, &shape)
}

/// Some operators are undefined without elements.
fn not_empty(draw: &mut Draw, dtype: DType) -> Tensor {
    let shape: Vec<_> = draw.shape(0).into_iter().map(|dim| dim.max(1)).collect();
    draw.small(dtype, &shape)
}

/// Any floats, but only positive integers, whose logarithms are defined.
fn with_logarithm(draw: &mut Draw, dtype: DType) -> Tensor {
    if dtype.is_float() {
        return any_number(draw, dtype);
    }
    Draw::map(&not_empty(draw, dtype), |x| match x {
        Cell::Int(x) => Cell::Int(x.abs().max(1)),
        x => x.clone(),
    })
}

/// `f` of the elements along some axes. The axes are an attribute first, an input
/// from version 18 on; an empty list means all, or none if the node has that attribute.
fn reduce(draw: &mut Draw, x: &Tensor, f: fn(DType, &[&Cell]) -> Cell) -> Sample {
    reduce_from(18, draw, x, f)
}

/// The same with an input from another version on.
fn reduce_from(
    first_with_input: i32,
    draw: &mut Draw,
    x: &Tensor,
    f: fn(DType, &[&Cell]) -> Cell,
) -> Sample {
    let (dtype, rank) = (x.dtype(), x.shape().len());
    let has_input = draw.version >= first_with_input;
    let mut axes = draw.axes(rank);
    let written: Vec<_> = axes.iter().map(|&axis| draw.written(axis, rank)).collect();
    let (keeps_dims, keepdims) = draw.flag(true);
    let (is_none, noop) = draw.flag(false);
    if axes.is_empty() && !(is_none && has_input) {
        axes = (0..rank).collect();
    }
    let operand = x.clone();
    let sample = Sample::new(&[x], move || {
        let y = Array::of(&operand).reduced(&axes, |cells| f(dtype, cells));
        // A sum of 4⁶ terms is within as many ULPs.
        Expected::rounded(dtype, if keeps_dims { y } else { y.without(&axes) }, 4096.0)
    });
    let sample = sample.maybe("keepdims", keepdims);
    let is_written = !written.is_empty() || draw.one_in(2);
    if has_input {
        let sample = sample.maybe("noop_with_empty_axes", noop);
        return sample.input(1, is_written.then(|| ints(&written)));
    }
    sample.maybe("axes", is_written.then(|| Attr::Ints(written)))
}

/// The sum of a function of each element.
fn sum_of(
    dtype: DType,
    cells: &[&Cell],
    of_int: fn(i128) -> i128,
    of_float: fn(f64) -> f64,
) -> Cell {
    let mapped: Vec<_> = cells
        .iter()
        .map(|x| match x {
            Cell::Int(x) => Cell::Int(of_int(*x)),
            x => Cell::Float(of_float(x.float())),
        })
        .collect();
    Cell::sum(dtype, &mapped.iter().collect::<Vec<_>>())
}

fn square_sum(dtype: DType, cells: &[&Cell]) -> Cell {
    sum_of(dtype, cells, |x| x * x, |x| x * x)
}

fn mean(dtype: DType, cells: &[&Cell]) -> Cell {
    rounded(dtype, Cell::sum(dtype, cells).float() / cells.len() as f64)
}

/// Integers are rounded toward zero.
fn rounded(dtype: DType, value: f64) -> Cell {
    if dtype.is_float() { Cell::Float(value) } else { Cell::whole(value.trunc()) }
}

/// Without elements, the limit of the type.
fn extreme(dtype: DType, cells: &[&Cell], wanted: Ordering) -> Cell {
    let is_max = wanted == Ordering::Greater;
    let found = Cell::extreme(wanted, cells.iter().copied()).map(|(_, cell)| cell.clone());
    found.unwrap_or_else(|| match dtype {
        DType::Bool => Cell::Bool(!is_max),
        _ if dtype.is_float() => {
            Cell::Float(if is_max { f64::NEG_INFINITY } else { f64::INFINITY })
        }
        _ => {
            let (least, most) = bounds(dtype);
            Cell::Int(if is_max { least } else { most })
        }
    })
}

/// The index of the largest or smallest along an axis.
fn arg(draw: &mut Draw, dtype: DType, wanted: Ordering) -> Sample {
    let mut shape = draw.shape(1);
    let (axis, written) = draw.axis(shape.len());
    shape[axis] = shape[axis].max(1);
    let is_default = axis == 0 && draw.one_in(2);
    let x = if draw.one_in(2) { draw.small(dtype, &shape) } else { draw.wild(dtype, &shape) };
    let (keeps_dims, keepdims) = draw.flag(true);
    let (is_last, select_last) = draw.flag(false);
    let is_last = is_last && draw.version >= 12;
    let operand = x.clone();
    let sample = Sample::new(&[&x], move || {
        let y = Array::of(&operand).reduced(&[axis], |cells| {
            let cells = cells.iter().copied();
            let at = match is_last {
                true => cells.len() - 1 - Cell::extreme(wanted, cells.rev()).unwrap().0,
                false => Cell::extreme(wanted, cells).unwrap().0,
            };
            Cell::Int(at.try_into().unwrap())
        });
        Expected::exact(DType::I64, if keeps_dims { y } else { y.without(&[axis]) })
    });
    let sample = sample.maybe("axis", (!is_default).then(|| Attr::Int(written)));
    let sample = sample.maybe("keepdims", keepdims);
    if draw.version < 12 { sample } else { sample.maybe("select_last_index", select_last) }
}
