//! Predicates and comparisons of elements.

use std::cmp::Ordering;

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::onnx("Equal", &[7, 11, 13, 19], |draw, dtype| {
        comparison(draw, dtype, |order| order == Some(Ordering::Equal))
    }),
    Property::onnx("Greater", &[7, 13], |draw, dtype| {
        comparison(draw, dtype, |order| order == Some(Ordering::Greater))
    }),
    Property::onnx("GreaterOrEqual", &[12, 16], |draw, dtype| {
        comparison(draw, dtype, |order| order.is_some_and(Ordering::is_ge))
    }),
    Property::onnx("Less", &[7, 13], |draw, dtype| {
        comparison(draw, dtype, |order| order == Some(Ordering::Less))
    }),
    Property::onnx("LessOrEqual", &[12, 16], |draw, dtype| {
        comparison(draw, dtype, |order| order.is_some_and(Ordering::is_le))
    }),
    Property::onnx("IsInf", &[10, 20], is_inf),
    Property::onnx("IsNaN", &[9, 13, 20], |draw, dtype| {
        let x = special(draw, dtype);
        class(&x, f64::is_nan)
    }),
];

/// NaN has no order.
fn comparison(draw: &mut Draw, dtype: DType, f: fn(Option<Ordering>) -> bool) -> Sample {
    let (shapes, _) = draw.broadcast(2);
    // Small numbers are equal often enough.
    let is_small = draw.one_in(2);
    let mut operand = |shape: &[usize]| match is_small {
        true => draw.small(dtype, shape),
        false => draw.wild(dtype, shape),
    };
    let operands = [operand(&shapes[0]), operand(&shapes[1])];
    Sample::combined(&operands, DType::Bool, move |cells| Cell::Bool(f(cells[0].order(cells[1]))))
}

/// A tensor of any numbers, including NaN and infinities.
fn special(draw: &mut Draw, dtype: DType) -> Tensor {
    let shape = draw.shape(0);
    let is_8_bit = dtype.bits() == 8 && !dtype.is_integer() && !dtype.is_bool();
    if !dtype.is_float() && !is_8_bit || draw.one_in(2) {
        return draw.any(dtype, &shape);
    }
    let values = [0.0, 1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    let values = if dtype == DType::F8E8M0 { &values[1..3] } else { &values };
    Array::from_fn(&shape, |_| Cell::Float(draw.pick(values))).to_tensor(dtype)
}

fn class(x: &Tensor, f: impl Fn(f64) -> bool + 'static) -> Sample {
    let operand = x.clone();
    Sample::new(&[x], move || {
        Expected::exact(DType::Bool, Array::of(&operand).map(|x| Cell::Bool(f(x.float()))))
    })
}

fn is_inf(draw: &mut Draw, dtype: DType) -> Sample {
    let flags = [None, Some(0), Some(1)];
    let (negative, positive) = (draw.pick(&flags), draw.pick(&flags));
    let counts = move |x: f64| {
        let is_asked = if x < 0.0 { negative } else { positive } != Some(0);
        x.is_infinite() && is_asked
    };
    let mut sample = class(&special(draw, dtype), counts);
    for (name, flag) in [("detect_negative", negative), ("detect_positive", positive)] {
        if let Some(flag) = flag {
            sample = sample.attr(name, Attr::Int(flag));
        }
    }
    sample
}
