//! Operators on quantized values of 8 bits that give quantized values: the operator on dequantized values, quantized.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::quantized_values::{QuantizedTensor, Scheme};
use super::{Array, Cell, Draw, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::microsoft("QLinearAdd", |draw, dtype| binary(draw, dtype, |a, b| a + b)),
    Property::microsoft("QLinearConcat", concat),
    Property::microsoft("QLinearGlobalAveragePool", global_average_pool),
    Property::microsoft("QLinearLeakyRelu", leaky_relu),
    Property::microsoft("QLinearMul", |draw, dtype| binary(draw, dtype, |a, b| a * b)),
    Property::microsoft("QLinearReduceMean", reduce_mean),
    Property::microsoft("QLinearSigmoid", |draw, dtype| {
        let (shape, y) = (draw.shape(0), Scheme::draw(draw, dtype));
        unary(QuantizedTensor::draw(draw, dtype, &shape), y, |x| 1.0 / (1.0 + (-x).exp()))
    }),
    Property::microsoft("QLinearSoftmax", softmax),
    Property::microsoft("QLinearWhere", choose),
];

/// `f(a, b)` of operands that broadcast.
fn binary(draw: &mut Draw, dtype: DType, f: fn(f64, f64) -> f64) -> Sample {
    let (shapes, shape) = draw.broadcast(2);
    let [a, b] = [0, 1].map(|i| QuantizedTensor::draw(draw, dtype, &shapes[i]));
    let to = Scheme::draw(draw, dtype);
    Sample::of([a.operands(), b.operands(), to.operands().to_vec()].concat(), move || {
        let (a, b) = (a.values(), b.values());
        let y = Array::from_fn(&shape, |i| {
            Cell::Float(f(a.at_broadcast(i).float(), b.at_broadcast(i).float()))
        });
        to.encoded(dtype, &y)
    })
}

/// A function of an array of numbers.
fn mapped(x: QuantizedTensor, to: Scheme, f: impl Fn(&Array) -> Array + 'static) -> Sample {
    let operands = [x.operands(), to.operands().to_vec()].concat();
    Sample::of(operands, move || to.encoded(x.quantized.dtype(), &f(&x.values())))
}

/// A function of each number.
fn unary(x: QuantizedTensor, to: Scheme, f: impl Fn(f64) -> f64 + 'static) -> Sample {
    mapped(x, to, move |x| x.map(|x| Cell::Float(f(x.float()))))
}

fn leaky_relu(draw: &mut Draw, dtype: DType) -> Sample {
    let (shape, to) = (draw.shape(0), Scheme::draw(draw, dtype));
    let given = draw.pick(&[None, Some(0.5), Some(-0.125)]);
    let alpha = f64::from(given.unwrap_or(0.01));
    unary(
        QuantizedTensor::draw(draw, dtype, &shape),
        to,
        move |x| if x < 0.0 { alpha * x } else { x },
    )
    .maybe("alpha", given.map(Attr::Float))
}

/// If the reciprocal of the scale is not an integer, it is rounded down.
fn softmax(draw: &mut Draw, dtype: DType) -> Sample {
    let (shape, to) = (draw.shape(1), Scheme::draw(draw, dtype));
    let (axis, written) = draw.axis(shape.len());
    let is_default = draw.one_in(3);
    let axis = if is_default { shape.len() - 1 } else { axis };
    let opset = draw.pick(&[11, 12, 13, 21]);
    let axes: Vec<_> = if opset < 13 { (axis..shape.len()).collect() } else { vec![axis] };
    let factor = (1.0 / to.scale()).floor() * to.scale();
    mapped(QuantizedTensor::draw(draw, dtype, &shape), to, move |x| {
        x.regrouped(&axes, |lane| {
            let largest = lane.iter().map(|x| x.float()).fold(f64::NEG_INFINITY, f64::max);
            let powers: Vec<_> = lane.iter().map(|x| (x.float() - largest).exp()).collect();
            let sum: f64 = powers.iter().sum();
            powers.into_iter().map(|power| Cell::Float(power / sum * factor)).collect()
        })
    })
    .attr("opset", Attr::Int(opset))
    .maybe("axis", (!is_default).then_some(Attr::Int(written)))
}

/// The mean of some numbers; 0 without any.
fn mean(cells: &[&Cell]) -> Cell {
    let n = u32::try_from(cells.len().max(1)).unwrap();
    Cell::Float(cells.iter().map(|x| x.float()).sum::<f64>() / f64::from(n))
}

fn reduce_mean(draw: &mut Draw, dtype: DType) -> Sample {
    let (shape, to) = (draw.shape(0), Scheme::draw(draw, dtype));
    let rank = shape.len();
    let given = draw.axes(rank);
    let written: Vec<_> = given.iter().map(|&axis| draw.written(axis, rank)).collect();
    let axes = if given.is_empty() { (0..rank).collect() } else { given };
    let (keeps_dims, flag) = draw.flag(true);
    let is_absent = written.is_empty() && draw.one_in(2);
    mapped(QuantizedTensor::draw(draw, dtype, &shape), to, move |x| {
        let y = x.reduced(&axes, mean);
        if keeps_dims { y } else { y.without(&axes) }
    })
    .maybe("axes", (!is_absent).then_some(Attr::Ints(written)))
    .maybe("keepdims", flag)
}

fn global_average_pool(draw: &mut Draw, dtype: DType) -> Sample {
    let (shape, to) = (draw.shape(2), Scheme::draw(draw, dtype));
    let (is_last, flag) = draw.flag(false);
    let end = shape.len() - usize::from(is_last);
    let axes: Vec<_> = (2 - usize::from(is_last)..end).collect();
    mapped(QuantizedTensor::draw(draw, dtype, &shape), to, move |x| x.reduced(&axes, mean))
        .maybe("channels_last", flag)
}

fn choose(draw: &mut Draw, dtype: DType) -> Sample {
    let (shapes, shape) = draw.broadcast(3);
    let condition = draw.any(DType::Bool, &shapes[0]);
    let [x, y] = [1, 2].map(|i| QuantizedTensor::draw(draw, dtype, &shapes[i]));
    let to = Scheme::draw(draw, dtype);
    let parts = [vec![Some(condition.clone())], x.operands(), y.operands()];
    Sample::of([parts.concat(), to.operands().to_vec()].concat(), move || {
        let (condition, x, y) = (Array::of(&condition), x.values(), y.values());
        let chosen = Array::from_fn(&shape, |i| {
            let from = if *condition.at_broadcast(i) == Cell::Bool(true) { &x } else { &y };
            from.at_broadcast(i).clone()
        });
        to.encoded(dtype, &chosen)
    })
}

/// Variadic operands cannot be absent.
fn concat(draw: &mut Draw, dtype: DType) -> Sample {
    let (shape, to) = (draw.shape(1), Scheme::whole(draw, dtype));
    let (axis, written) = draw.axis(shape.len());
    let parts: Vec<_> = (0..1 + draw.below(3))
        .map(|_| {
            let mut shape = shape.clone();
            shape[axis] = draw.dim();
            QuantizedTensor {
                quantized: draw.any(dtype, &shape),
                scheme: Scheme::whole(draw, dtype),
            }
        })
        .collect();
    let operands =
        to.operands().into_iter().chain(parts.iter().flat_map(QuantizedTensor::operands));
    Sample::of(operands.collect::<Vec<Option<Tensor>>>(), move || {
        let parts: Vec<_> = parts.iter().map(QuantizedTensor::values).collect();
        let mut whole = shape.clone();
        whole[axis] = parts.iter().map(|part| part.shape[axis]).sum();
        let y = Array::from_fn(&whole, |index| {
            let (mut index, mut parts) = (index.to_vec(), parts.iter());
            let mut part = parts.next().unwrap();
            while index[axis] >= part.shape[axis] {
                index[axis] -= part.shape[axis];
                part = parts.next().unwrap();
            }
            part.at(&index).clone()
        });
        to.encoded(dtype, &y)
    })
    .attr("axis", Attr::Int(written))
}
