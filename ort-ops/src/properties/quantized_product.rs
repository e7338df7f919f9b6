//! Products and convolutions of quantized values: exact, since scales are powers of two.

use ort_tensor::{DType, Tensor};

use super::convolution::Convolution;
use super::draw::bounds;
use super::product::{multiplied, operands};
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::onnx("MatMulInteger", &[10], matmul_integer),
    Property::onnx("QLinearMatMul", &[10, 21], qlinear_matmul),
    Property::onnx("ConvInteger", &[10], conv_integer),
    Property::onnx("QLinearConv", &[10], |draw, dtype| qlinear_conv(draw, dtype, false)),
    Property::microsoft("MatMulInteger16", matmul_integer16),
    Property::microsoft("MatMulIntegerToFloat", matmul_integer_to_float),
    Property::microsoft("QLinearConv", |draw, dtype| qlinear_conv(draw, dtype, true)),
];

const BYTES: &[DType] = &[DType::I8, DType::U8];
const FLOATS: &[DType] = &[DType::F8E4M3Fn, DType::F8E4M3Fnuz, DType::F8E5M2, DType::F8E5M2Fnuz];

/// Quantized values: integers of any size, or small floats.
pub(super) fn quantized_values(draw: &mut Draw, dtype: DType, shape: &[usize]) -> Tensor {
    if !FLOATS.contains(&dtype) {
        return draw.any(dtype, shape);
    }
    Array::of(&draw.small(DType::F32, shape)).to_tensor(dtype)
}

/// Powers of two.
pub(super) fn scales(draw: &mut Draw, dtype: DType, shape: &[usize]) -> Tensor {
    Array::from_fn(shape, |_| Cell::Float(draw.pick(&[0.25, 0.5, 1.0, 2.0]))).to_tensor(dtype)
}

/// Each quantized value minus its broadcast zero point.
pub(super) fn centered(x: &Tensor, zero_point: Option<&Tensor>, shape: &[usize]) -> Array {
    let x = Array::of(x);
    let Some(zero_point) = zero_point.map(|zero_point| Array::of(zero_point).reshaped(shape))
    else {
        return x;
    };
    Array::from_fn(&x.shape, |at| match (x.at(at), zero_point.at_broadcast(at)) {
        (Cell::Int(x), Cell::Int(zero_point)) => Cell::Int(x - zero_point),
        (x, zero_point) => Cell::Float(x.float() - zero_point.float()),
    })
}

/// The quantized value of a number: rounded half to even, if it is an integer, and saturated.
pub(super) fn quantized(dtype: DType, value: f64, zero_point: &Cell) -> Cell {
    match zero_point {
        Cell::Int(zero_point) => {
            let (least, most) = bounds(dtype);
            let q = Cell::number(dtype, value.round_ties_even()).int() + zero_point;
            Cell::Int(q.clamp(least, most))
        }
        zero_point => {
            let most = match dtype {
                DType::F8E4M3Fn => 448.0,
                DType::F8E4M3Fnuz => 240.0,
                _ => 57344.0,
            };
            Cell::Float((value + zero_point.float()).clamp(-most, most))
        }
    }
}

/// One value, or one per row or column, and the shape that broadcasts to matrices.
pub(super) fn parameter(draw: &mut Draw, matrix: &[usize], is_row: bool) -> [Vec<usize>; 2] {
    let single = [vec![], vec![1]];
    match matrix {
        [.., m, _] if is_row && draw.one_in(2) => [vec![*m], vec![*m, 1]],
        [.., _, n] if !is_row && draw.one_in(2) => [vec![*n], vec![*n]],
        _ => {
            let shape = draw.pick(&single);
            [shape.clone(), vec![1; shape.len()]]
        }
    }
}

fn matmul_integer(draw: &mut Draw, dtype: DType) -> Sample {
    let shapes = operands(draw);
    let types = [dtype, draw.pick(BYTES)];
    let [a, b] = [0, 1].map(|i| draw.any(types[i], &shapes[i]));
    let forms = [parameter(draw, &shapes[0], true), parameter(draw, &shapes[1], false)];
    let zero_points = [0, 1].map(|i| draw.any(types[i], &forms[i][0]));
    let zero_points = zero_points.map(|zero_point| draw.one_in(2).then_some(zero_point));
    let [a_zero, b_zero] = zero_points.clone();
    let sample = Sample::new(&[&a.clone(), &b.clone()], move || {
        let [a_zero, b_zero] = [0, 1].map(|i| zero_points[i].as_ref());
        let a = centered(&a, a_zero, &forms[0][1]);
        let b = centered(&b, b_zero, &forms[1][1]);
        Expected::exact(DType::I32, multiplied(DType::I32, &a, &b))
    });
    let sample = if a_zero.is_some() { sample.input(2, a_zero) } else { sample };
    if b_zero.is_some() { sample.input(3, b_zero) } else { sample }
}

/// With two unsigned operands, in uint32.
fn matmul_integer16(draw: &mut Draw, dtype: DType) -> Sample {
    let shapes = operands(draw);
    let other = draw.pick(&[DType::I16, DType::U16]);
    let (a, b) = (draw.any(dtype, &shapes[0]), draw.any(other, &shapes[1]));
    let is_unsigned = [dtype, other] == [DType::U16; 2];
    let y_type = if is_unsigned { DType::U32 } else { DType::I32 };
    Sample::new(&[&a.clone(), &b.clone()], move || {
        Expected::exact(y_type, multiplied(y_type, &Array::of(&a), &Array::of(&b)))
    })
}

fn matmul_integer_to_float(draw: &mut Draw, dtype: DType) -> Sample {
    let shapes = operands(draw);
    let types = [dtype, draw.pick(BYTES)];
    let y_type = draw.pick(&[DType::F32, DType::F16, DType::Bf16]);
    let forms = [parameter(draw, &shapes[0], true), parameter(draw, &shapes[1], false)];
    let [a, b] = [0, 1].map(|i| draw.any(types[i], &shapes[i]));
    let scales = [0, 1].map(|i| scales(draw, y_type, &forms[i][0]));
    let zeros = [0, 1].map(|i| draw.any(types[i], &forms[i][0]));
    let n = if shapes[1].len() > 1 { shapes[1].last().copied() } else { None };
    let bias = n.map(|n| draw.small(y_type, &[n])).filter(|_| draw.one_in(2));
    let operands = [&a, &b, &scales[0], &scales[1], &zeros[0], &zeros[1]].map(Clone::clone);
    let sample = Sample::new(&operands.each_ref(), {
        let bias = bias.clone();
        move || {
            let x = dequantized(&a, &zeros[0], &scales[0], &forms[0][1]);
            let w = dequantized(&b, &zeros[1], &scales[1], &forms[1][1]);
            let y = multiplied(DType::F64, &x, &w);
            let bias = bias.as_ref().map(Array::of);
            let y = Array::from_fn(&y.shape, |at| {
                let bias = bias.as_ref().map_or(0.0, |b| b.at_broadcast(at).float());
                Cell::Float(y.at(at).float() + bias)
            });
            Expected::exact(y_type, y)
        }
    });
    if bias.is_some() { sample.input(6, bias) } else { sample }
}

fn qlinear_matmul(draw: &mut Draw, dtype: DType) -> Sample {
    let shapes = operands(draw);
    let class = if FLOATS.contains(&dtype) { FLOATS } else { BYTES };
    let types = [dtype, draw.pick(class), draw.pick(class)];
    let scale_type = draw.pick(&[DType::F32, DType::F16, DType::Bf16]);
    let forms =
        [parameter(draw, &shapes[0], true), parameter(draw, &shapes[1], false), [vec![], vec![]]];
    let [a, b] = [0, 1].map(|i| quantized_values(draw, types[i], &shapes[i]));
    let scales = [0, 1, 2].map(|i| scales(draw, scale_type, &forms[i][0]));
    let zeros = [0, 1, 2].map(|i| quantized_values(draw, types[i], &forms[i][0]));
    let operands = [&a, &scales[0], &zeros[0], &b, &scales[1], &zeros[1], &scales[2], &zeros[2]];
    let operands = operands.map(Clone::clone);
    Sample::new(&operands.each_ref(), move || {
        let x = dequantized(&a, &zeros[0], &scales[0], &forms[0][1]);
        let w = dequantized(&b, &zeros[1], &scales[1], &forms[1][1]);
        let (scale, zero_point) = (Array::of(&scales[2]), Array::of(&zeros[2]));
        let quantize = |sum: &Cell| {
            quantized(types[2], sum.float() / scale.cells[0].float(), &zero_point.cells[0])
        };
        Expected::exact(types[2], multiplied(DType::F64, &x, &w).map(quantize))
    })
}

/// `scale · (q − zero_point)`, both broadcast from this shape.
pub(super) fn dequantized(x: &Tensor, zero: &Tensor, scale: &Tensor, shape: &[usize]) -> Array {
    let scale = Array::of(scale).reshaped(shape);
    let x = centered(x, Some(zero), shape);
    Array::from_fn(&x.shape, |at| Cell::Float(scale.at_broadcast(at).float() * x.at(at).float()))
}

/// One value, or one per channel of the result, and the shape that broadcasts to weights.
fn channels(draw: &mut Draw, w: &[usize]) -> [Vec<usize>; 2] {
    let ones = vec![1; w.len()];
    match draw.below(3) {
        0 => [vec![], ones],
        1 => [vec![1], ones],
        _ => [vec![w[0]], [&w[..1], &ones[1..]].concat()],
    }
}

fn conv_integer(draw: &mut Draw, dtype: DType) -> Sample {
    let convolution = Convolution::draw(draw);
    let w_type = draw.pick(BYTES);
    let (x, w) = (draw.any(dtype, &convolution.x), draw.any(w_type, &convolution.w));
    let forms = channels(draw, &convolution.w);
    let (x_zero, w_zero) = (draw.any(dtype, &[]), draw.any(w_type, &forms[0]));
    let [has_x_zero, has_w_zero] = [draw.one_in(2), draw.one_in(2)];
    let (x_zero, w_zero) = (has_x_zero.then_some(x_zero), has_w_zero.then_some(w_zero));
    let sample = Sample::new(&[&x.clone(), &w.clone()], {
        let (convolution, x_zero, w_zero) = (convolution.clone(), x_zero.clone(), w_zero.clone());
        move || {
            let x = centered(&x, x_zero.as_ref(), &[]);
            let w = centered(&w, w_zero.as_ref(), &forms[1]);
            Expected::exact(DType::I32, convolution.of(DType::I32, &x, &w))
        }
    });
    let sample = if x_zero.is_some() { sample.input(2, x_zero) } else { sample };
    let sample = if w_zero.is_some() { sample.input(3, w_zero) } else { sample };
    convolution.written(draw, sample)
}

/// With `channels_last`, the image and the result are `[N, …, C]`.
fn qlinear_conv(draw: &mut Draw, dtype: DType, may_be_last: bool) -> Sample {
    let convolution = Convolution::draw(draw);
    let (w_type, y_type) = (draw.pick(BYTES), draw.pick(BYTES));
    let (x, w) = (draw.any(dtype, &convolution.x), draw.any(w_type, &convolution.w));
    let forms = channels(draw, &convolution.w);
    let shapes = [&[][..], &forms[0], &[]];
    let types = [dtype, w_type, y_type];
    let scales = shapes.map(|shape| scales(draw, DType::F32, shape));
    let zeros = [0, 1, 2].map(|i| draw.any(types[i], shapes[i]));
    let b = draw.small(DType::I32, &convolution.w[..1]);
    let b = draw.one_in(2).then_some(b);
    let (is_last, written) = if may_be_last { draw.flag(false) } else { (false, None) };
    let rank = convolution.x.len();
    let last: Vec<_> = [0].into_iter().chain(2..rank).chain([1]).collect();
    let stored = if is_last { Array::of(&x).transposed(&last).to_tensor(dtype) } else { x.clone() };
    let operands =
        [&stored, &scales[0], &zeros[0], &w, &scales[1], &zeros[1], &scales[2], &zeros[2]];
    let operands = operands.map(Clone::clone);
    let sample = Sample::new(&operands.each_ref(), {
        let (convolution, b) = (convolution.clone(), b.clone());
        move || {
            let x = dequantized(&x, &zeros[0], &scales[0], &[]);
            let ones = forms[1].clone();
            let w = dequantized(&w, &zeros[1], &scales[1], &ones);
            let y = convolution.of(DType::F64, &x, &w);
            let [x_scale, w_scale, y_scale] = [0, 1, 2].map(|i| Array::of(&scales[i]));
            let (b, zero_point) = (b.as_ref().map(Array::of), Array::of(&zeros[2]));
            let y = Array::from_fn(&y.shape, |at| {
                let w_scale = w_scale.cells[at[1] % w_scale.cells.len()].float();
                let b = b.as_ref().map_or(0.0, |b| b.at(&at[1..2]).float());
                let sum = y.at(at).float() + b * x_scale.cells[0].float() * w_scale;
                quantized(y_type, sum / y_scale.cells[0].float(), &zero_point.cells[0])
            });
            Expected::exact(y_type, if is_last { y.transposed(&last) } else { y })
        }
    });
    let sample = if b.is_some() { sample.input(8, b) } else { sample };
    convolution.written(draw, sample).maybe("channels_last", written)
}
