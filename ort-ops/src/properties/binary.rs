//! Operators of two operands that broadcast.

use ort_tensor::DType;

use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    arithmetic("Add", &[7, 13, 14], |draw, dtype| {
        broadcast(draw, dtype, |a, b| match a {
            Cell::Int(a) => Cell::Int(a + b.int()),
            _ => Cell::Float(a.float() + b.float()),
        })
    }),
    arithmetic("Mul", &[7, 13, 14], |draw, dtype| {
        broadcast(draw, dtype, |a, b| match a {
            Cell::Int(a) => Cell::Int(a * b.int()),
            _ => Cell::Float(a.float() * b.float()),
        })
    }),
];

const fn arithmetic(
    name: &'static str,
    versions: &'static [i32],
    draw: fn(&mut Draw, DType) -> Sample,
) -> Property {
    Property { domain: "", name, versions, draw }
}

/// Two operands of one type and a result of the same, of small whole numbers.
fn broadcast(draw: &mut Draw, dtype: DType, f: fn(&Cell, &Cell) -> Cell) -> Sample {
    let (shapes, shape) = draw.broadcast(2);
    let (a, b) = (draw.small(dtype, &shapes[0]), draw.small(dtype, &shapes[1]));
    Sample::new(&[&a.clone(), &b.clone()], move || {
        let (a, b) = (Array::of(&a), Array::of(&b));
        let y = Array::from_fn(&shape, |i| f(a.at_broadcast(i), b.at_broadcast(i)));
        Expected::exact(dtype, y)
    })
}
