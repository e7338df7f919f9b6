//! Operators of any number of operands that broadcast.

use std::cmp::Ordering;

use ort_tensor::DType;

use super::{Cell, Draw, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::onnx("Max", &[1, 6, 8, 13], |draw, dtype| {
        combined(draw, dtype, |cells| extreme(Ordering::Greater, cells))
    }),
    Property::onnx("Min", &[1, 6, 8, 13], |draw, dtype| {
        combined(draw, dtype, |cells| extreme(Ordering::Less, cells))
    }),
    Property::onnx("Mean", &[1, 6, 8, 13], |draw, dtype| {
        combined(draw, dtype, |cells| Cell::Float(sum(cells) / cells.len() as f64))
    }),
    Property::onnx("Sum", &[1, 6, 8, 13], |draw, dtype| {
        combined(draw, dtype, |cells| Cell::Float(sum(cells)))
    }),
];

/// A function of one to four operands; before version 8 of one shape.
fn combined(draw: &mut Draw, dtype: DType, f: fn(&[&Cell]) -> Cell) -> Sample {
    let n = 1 + draw.below(4);
    let (mut shapes, shape) = draw.broadcast(n);
    if draw.version < 8 {
        shapes.fill(shape);
    }
    let is_special = dtype.is_float() && draw.one_in(4);
    let mut operand = |shape: &Vec<usize>| {
        let x = draw.small(dtype, shape);
        if is_special { Draw::map(&x, special) } else { x }
    };
    let operands: Vec<_> = shapes.iter().map(&mut operand).collect();
    Sample::combined(&operands, dtype, f)
}

/// NaN and infinity in place of 3 and 4.
fn special(x: &Cell) -> Cell {
    match x {
        Cell::Float(3.0) => Cell::Float(f64::NAN),
        Cell::Float(4.0) => Cell::Float(f64::INFINITY),
        x => x.clone(),
    }
}

/// NaN if one of them is.
fn extreme(wanted: Ordering, cells: &[&Cell]) -> Cell {
    Cell::extreme(wanted, cells.iter().copied()).unwrap().1.clone()
}

fn sum(cells: &[&Cell]) -> f64 {
    cells.iter().map(|cell| cell.float()).sum()
}
