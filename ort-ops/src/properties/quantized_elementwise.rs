//! Functions between codes: exact where scales are powers of two.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::draw::bounds;
use super::quantized_product::{dequantized, quantized, scales};
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::microsoft("QLinearAdd", |draw, dtype| binary(draw, dtype, |a, b| a + b)),
    Property::microsoft("QLinearMul", |draw, dtype| binary(draw, dtype, |a, b| a * b)),
    Property::microsoft("QLinearWhere", choice),
    Property::microsoft("QLinearConcat", concat),
    Property::microsoft("QLinearSigmoid", |draw, dtype| {
        unary(draw, dtype, |x| 1.0 / (1.0 + (-x).exp()))
    }),
    Property::microsoft("QLinearLeakyRelu", |draw, dtype| {
        let sample = unary(draw, dtype, |x| if x < 0.0 { 0.25 * x } else { x });
        sample.attr("alpha", Attr::Float(0.25))
    }),
];

/// Codes with their scale and zero point.
struct Codes {
    codes: Tensor,
    scale: Tensor,
    zero_point: Tensor,
}

impl Codes {
    fn draw(draw: &mut Draw, dtype: DType, shape: &[usize]) -> Self {
        Self {
            codes: draw.any(dtype, shape),
            scale: scales(draw, DType::F32, &[]),
            zero_point: draw.any(dtype, &[]),
        }
    }

    fn values(&self) -> Array {
        dequantized(&self.codes, &self.zero_point, &self.scale, &[])
    }

    /// The code of a value, rounded before its zero point is added.
    fn code(&self, value: f64) -> Cell {
        let zero_point = &Array::of(&self.zero_point).cells[0];
        let scale = Array::of(&self.scale).cells[0].float();
        quantized(self.zero_point.dtype(), value / scale, zero_point)
    }

    /// The code of a value, rounded after its zero point was added.
    fn code_of_sum(&self, value: f64) -> Cell {
        let dtype = self.zero_point.dtype();
        let zero_point = Array::of(&self.zero_point).cells[0].float();
        let sum = value / Array::of(&self.scale).cells[0].float() + zero_point;
        let (least, most) = bounds(dtype);
        Cell::Int(Cell::number(dtype, sum.round_ties_even()).int().clamp(least, most))
    }

    /// Codes, scale and zero point.
    fn operands(&self) -> [&Tensor; 3] {
        [&self.codes, &self.scale, &self.zero_point]
    }
}

fn binary(draw: &mut Draw, dtype: DType, f: fn(f64, f64) -> f64) -> Sample {
    let (shapes, shape) = draw.broadcast(2);
    let [a, b] = [0, 1].map(|i| Codes::draw(draw, dtype, &shapes[i]));
    let y = Codes::draw(draw, dtype, &[]);
    let operands = [&a.operands()[..], &b.operands(), &y.operands()[1..]].concat();
    let operands: Vec<_> = operands.into_iter().cloned().collect();
    Sample::new(&operands.iter().collect::<Vec<_>>(), move || {
        let (a, b) = (a.values(), b.values());
        let result = Array::from_fn(&shape, |at| {
            y.code_of_sum(f(a.at_broadcast(at).float(), b.at_broadcast(at).float()))
        });
        Expected::exact(dtype, result)
    })
}

fn choice(draw: &mut Draw, dtype: DType) -> Sample {
    let (shapes, shape) = draw.broadcast(3);
    let condition = draw.any(DType::Bool, &shapes[0]);
    let [a, b] = [1, 2].map(|i| Codes::draw(draw, dtype, &shapes[i]));
    let y = Codes::draw(draw, dtype, &[]);
    let operands = [&[&condition][..], &a.operands(), &b.operands(), &y.operands()[1..]].concat();
    let operands: Vec<_> = operands.into_iter().cloned().collect();
    Sample::new(&operands.iter().collect::<Vec<_>>(), move || {
        let (condition, a, b) = (Array::of(&condition), a.values(), b.values());
        let result = Array::from_fn(&shape, |at| {
            let is_first = *condition.at_broadcast(at) == Cell::Bool(true);
            y.code(if is_first { &a } else { &b }.at_broadcast(at).float())
        });
        Expected::exact(dtype, result)
    })
}

fn concat(draw: &mut Draw, dtype: DType) -> Sample {
    let mut shape = draw.shape(1);
    let (axis, written) = draw.axis(shape.len());
    let parts: Vec<_> = (0..1 + draw.below(3))
        .map(|_| {
            shape[axis] = draw.dim();
            Codes::draw(draw, dtype, &shape)
        })
        .collect();
    let y = Codes::draw(draw, dtype, &[]);
    let parts_operands: Vec<_> = parts.iter().flat_map(Codes::operands).collect();
    let operands = [&y.operands()[1..], &parts_operands].concat();
    let operands: Vec<_> = operands.into_iter().cloned().collect();
    let sample = Sample::new(&operands.iter().collect::<Vec<_>>(), move || {
        let parts: Vec<_> = parts.iter().map(Codes::values).collect();
        let mut shape = shape.clone();
        shape[axis] = parts.iter().map(|part| part.shape[axis]).sum();
        let result = Array::from_fn(&shape, |at| {
            let mut at = at.to_vec();
            let mut parts = parts.iter();
            let mut part = parts.next().unwrap();
            while at[axis] >= part.shape[axis] {
                at[axis] -= part.shape[axis];
                part = parts.next().unwrap();
            }
            y.code(part.at(&at).float())
        });
        Expected::exact(dtype, result)
    });
    sample.attr("axis", Attr::Int(written))
}

fn unary(draw: &mut Draw, dtype: DType, f: fn(f64) -> f64) -> Sample {
    let shape = draw.shape(0);
    let (x, y) = (Codes::draw(draw, dtype, &shape), Codes::draw(draw, dtype, &[]));
    let operands = [&x.operands()[..], &y.operands()[1..]].concat();
    let operands: Vec<_> = operands.into_iter().cloned().collect();
    Sample::new(&operands.iter().collect::<Vec<_>>(), move || {
        Expected::exact(dtype, x.values().map(|x| y.code(f(x.float()))))
    })
}
