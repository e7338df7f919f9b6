//! Operators of two operands that broadcast.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::{Cell, Draw, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::onnx("Add", &[7, 14], |draw, dtype| numbers(draw, dtype, |a, b| a + b, |a, b| a + b)),
    Property::onnx("Sub", &[7, 14], |draw, dtype| numbers(draw, dtype, |a, b| a - b, |a, b| a - b)),
    Property::onnx("Mul", &[7, 14], |draw, dtype| numbers(draw, dtype, wrapping_mul, |a, b| a * b)),
    Property::onnx("Div", &[7, 14], |draw, dtype| {
        let [a, b] = operands(draw, dtype);
        pair([a, without_zeros(&b)], |a, b| a / b, |a, b| a / b)
    }),
    Property::onnx("Mod", &[10, 28], modulo),
    Property::onnx("And", &[7], |draw, dtype| booleans(draw, dtype, |a, b| a && b)),
    Property::onnx("Or", &[7], |draw, dtype| booleans(draw, dtype, |a, b| a || b)),
    Property::onnx("Xor", &[7], |draw, dtype| booleans(draw, dtype, |a, b| a != b)),
    Property::onnx("BitwiseAnd", &[18], |draw, dtype| numbers(draw, dtype, |a, b| a & b, |a, _| a)),
    Property::onnx("BitwiseOr", &[18], |draw, dtype| numbers(draw, dtype, |a, b| a | b, |a, _| a)),
    Property::onnx("BitwiseXor", &[18], |draw, dtype| numbers(draw, dtype, |a, b| a ^ b, |a, _| a)),
    Property::onnx("BitShift", &[11, 28], bit_shift),
    Property::onnx("Pow", &[7, 12, 15], pow),
    Property::onnx("PRelu", &[7, 16], prelu),
];

/// Two operands of one type that broadcast.
fn operands(draw: &mut Draw, dtype: DType) -> [Tensor; 2] {
    let (shapes, _) = draw.broadcast(2);
    [draw.wild(dtype, &shapes[0]), draw.wild(dtype, &shapes[1])]
}

/// A function of two numbers: exact for integers, in their low bits.
fn pair(
    operands: [Tensor; 2],
    of_ints: impl Fn(i128, i128) -> i128 + 'static,
    of_floats: impl Fn(f64, f64) -> f64 + 'static,
) -> Sample {
    let dtype = operands[0].dtype();
    Sample::combined(&operands, dtype, move |cells| match (cells[0], cells[1]) {
        (Cell::Int(a), Cell::Int(b)) => Cell::Int(of_ints(*a, *b)),
        (a, b) => Cell::Float(of_floats(a.float(), b.float())),
    })
}

fn numbers(
    draw: &mut Draw,
    dtype: DType,
    of_ints: fn(i128, i128) -> i128,
    of_floats: fn(f64, f64) -> f64,
) -> Sample {
    pair(operands(draw, dtype), of_ints, of_floats)
}

fn booleans(draw: &mut Draw, dtype: DType, f: fn(bool, bool) -> bool) -> Sample {
    Sample::combined(&operands(draw, dtype), dtype, move |cells| {
        Cell::Bool(f(*cells[0] == Cell::Bool(true), *cells[1] == Cell::Bool(true)))
    })
}

/// Products of 64-bit integers sometimes exceed 128 bits.
fn wrapping_mul(a: i128, b: i128) -> i128 {
    a.wrapping_mul(b)
}

/// Integers by which others can be divided.
fn without_zeros(x: &Tensor) -> Tensor {
    Draw::map(x, |x| if *x == Cell::Int(0) { Cell::Int(1) } else { x.clone() })
}

fn modulo(draw: &mut Draw, dtype: DType) -> Sample {
    let (shapes, _) = draw.broadcast(2);
    // For small whole numbers the quotients of the definition are exact enough to be rounded.
    let [a, b] = if dtype.is_float() {
        [draw.small(dtype, &shapes[0]), draw.small(dtype, &shapes[1])]
    } else {
        [draw.wild(dtype, &shapes[0]), without_zeros(&draw.wild(dtype, &shapes[1]))]
    };
    let fmod = draw.pick(&[None, Some(false), Some(true)]);
    let of_ints = |a: i128, b: i128| a - (a.div_euclid(b) + floor_correction(a, b)) * b;
    let sample = match fmod {
        Some(true) => pair([a, b], |a, b| a - a / b * b, |a, b| a - (a / b).trunc() * b),
        _ => pair([a, b], of_ints, |a, b| a - (a / b).floor() * b),
    };
    match fmod {
        Some(fmod) => sample.attr("fmod", Attr::Int(fmod.into())),
        None => sample,
    }
}

/// The difference between the Euclidean quotient and the floored one.
fn floor_correction(a: i128, b: i128) -> i128 {
    if b < 0 && a.rem_euclid(b) != 0 { -1 } else { 0 }
}

fn bit_shift(draw: &mut Draw, dtype: DType) -> Sample {
    let (shapes, _) = draw.broadcast(2);
    let bits = i128::try_from(dtype.bits()).unwrap();
    let a = draw.wild(dtype, &shapes[0]);
    // Mostly by less than the width, sometimes by more.
    let b = Draw::map(&draw.wild(dtype, &shapes[1]), |b| match b {
        Cell::Int(b) => Cell::Int(b % (bits + 2)),
        b => b.clone(),
    });
    let is_left = draw.one_in(2);
    let of_ints = move |a: i128, b: i128| match is_left {
        _ if !(0..bits).contains(&b) => {
            if is_left || a >= 0 {
                0
            } else {
                -1
            }
        }
        true => a << b,
        false => a >> b,
    };
    let direction = if is_left { "LEFT" } else { "RIGHT" };
    pair([a, b], of_ints, |a, _| a).attr("direction", Attr::String(direction.to_owned()))
}

/// Base and exponent of different types, of one type before version 12.
fn pow(draw: &mut Draw, dtype: DType) -> Sample {
    let (shapes, _) = draw.broadcast(2);
    let numbers: Vec<_> = DType::ALL.iter().copied().filter(|dtype| dtype.is_number()).collect();
    let of_exponent = if draw.version < 12 { dtype } else { draw.pick(&numbers) };
    let (base, mut exponent) = (draw.small(dtype, &shapes[0]), draw.small(of_exponent, &shapes[1]));
    if dtype.is_integer() {
        // An integer to a negative power is not an integer.
        exponent = Draw::map(&exponent, |e| match e {
            Cell::Int(e) => Cell::Int(e.abs()),
            Cell::Float(e) => Cell::Float(e.abs()),
            e => e.clone(),
        });
    }
    Sample::combined(&[base, exponent], dtype, move |cells| {
        let power = cells[0].float().powf(cells[1].float());
        if dtype.is_integer() { Cell::whole(power) } else { Cell::Float(power) }
    })
}

/// The slope broadcasts to the operand, but not the reverse.
fn prelu(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(0);
    let of_slope = draw.operand(&shape);
    let operands = [draw.wild(dtype, &shape), draw.wild(dtype, &of_slope)];
    pair(
        operands,
        |x, slope| if x < 0 { x * slope } else { x },
        |x, slope| if x < 0.0 { x * slope } else { x },
    )
}
