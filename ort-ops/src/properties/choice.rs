//! Operators that choose: Where one of two elements, Clip an element or a bound.

use std::cmp::Ordering;

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::{Array, Cell, Draw, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::onnx("Clip", &[1, 6, 11, 13], clip),
    Property::onnx("Where", &[9, 16], |draw, dtype| {
        let (shapes, _) = draw.broadcast(3);
        let condition = draw.any(DType::Bool, &shapes[0]);
        let operands = [condition, draw.any(dtype, &shapes[1]), draw.any(dtype, &shapes[2])];
        Sample::combined(&operands, dtype, |cells| {
            if *cells[0] == Cell::Bool(true) { cells[1].clone() } else { cells[2].clone() }
        })
    }),
];

/// Bounds are attributes before version 11, inputs from there on, each absent or given. In version 6 absent ones are
/// the largest finite floats, otherwise infinite. If the lower is larger, every result is the upper.
fn clip(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(0);
    let x = draw.wild(dtype, &shape);
    let given = [0, 1].map(|_| {
        (dtype.is_number() && draw.one_in(2)).then(|| u8::try_from(draw.below(5)).unwrap())
    });
    let cell = |bound: u8| match dtype.is_float() {
        true => Cell::Float(bound.into()),
        false => Cell::Int(bound.into()),
    };
    let has_defaults = draw.version == 6 && dtype.is_float();
    let bound = |given: Option<u8>, default: f32| {
        given.map(cell).or_else(|| has_defaults.then(|| Cell::Float(default.into())))
    };
    let sample = clipped(&x, [bound(given[0], f32::MIN), bound(given[1], f32::MAX)]);
    let named = ["min", "max"].into_iter().zip(1..).zip(given);
    named.fold(sample, |sample, ((name, index), given)| match given {
        Some(given) if draw.version < 11 => sample.attr(name, Attr::Float(given.into())),
        Some(given) => sample.input(index, Array::from_fn(&[], |_| cell(given)).to_tensor(dtype)),
        None => sample,
    })
}

fn clipped(x: &Tensor, [min, max]: [Option<Cell>; 2]) -> Sample {
    let beyond = |bound: &Option<Cell>, x: &Cell, side: Ordering| {
        bound.clone().filter(|bound| x.order(bound) == Some(side))
    };
    Sample::mapped(x, 0.0, move |x| {
        let x = beyond(&min, x, Ordering::Less).unwrap_or_else(|| x.clone());
        beyond(&max, &x, Ordering::Greater).unwrap_or(x)
    })
}
