//! Products of quantized values with float operands or results.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::product::{multiplied, operands};
use super::quantized_product::parameter;
use super::quantized_values::{QuantizedTensor, Scheme, quantized_dynamically};
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::microsoft("DynamicQuantizeMatMul", dynamic_matmul),
    Property::microsoft("QGemm", gemm),
];

/// Quantized values with one scale and zero point for all, or one per column.
struct Columns {
    quantized: Array,
    dtype: DType,
    scale: Tensor,
    zero_point: Option<Tensor>,
}

impl Columns {
    fn draw(draw: &mut Draw, shape: &[usize], scale_type: DType) -> Self {
        let dtype = draw.pick(&[DType::I8, DType::U8]);
        let [form, _] = parameter(draw, shape, false);
        let zero_point = draw.any(dtype, &form);
        let scales = draw.real(scale_type, &form, 1.0 / 64.0);
        Self {
            quantized: Array::of(&draw.any(dtype, shape)),
            dtype,
            scale: scales,
            zero_point: (!draw.one_in(4)).then_some(zero_point),
        }
    }

    fn values(&self) -> Array {
        let (scale, zero_point) = (Array::of(&self.scale), self.zero_point.as_ref().map(Array::of));
        Array::from_fn(&self.quantized.shape, |at| {
            let zero_point = zero_point.as_ref().map_or(0.0, |it| it.at_broadcast(at).float());
            let q = self.quantized.at(at).float() - zero_point;
            Cell::Float(q * scale.at_broadcast(at).float())
        })
    }
}

/// The error of single precision is small for results below some dozens.
fn dynamic_matmul(draw: &mut Draw, dtype: DType) -> Sample {
    let [a_shape, b_shape] = operands(draw);
    let a = draw.real(dtype, &a_shape, 2.0);
    let b = Columns::draw(draw, &b_shape, dtype);
    let n = if b_shape.len() > 1 { b_shape.last().copied() } else { None };
    let bias = n.map(|n| draw.real(dtype, &[n], 2.0)).filter(|_| draw.one_in(2));
    let quantized = b.quantized.to_tensor(b.dtype);
    let (scale, zero_point) = (b.scale.clone(), b.zero_point.clone());
    let given = [Some(a.clone()), Some(quantized), Some(scale), zero_point, bias.clone()];
    Sample::of(given, move || {
        let numbers: Vec<_> = Array::of(&a).cells.iter().map(Cell::float).collect();
        let cells = quantized_dynamically(&numbers).into_iter().map(Cell::Float).collect();
        let a = Array { shape: a_shape.clone(), cells };
        let y = multiplied(DType::F64, &a, &b.values());
        let bias = bias.as_ref().map(Array::of);
        let y = Array::from_fn(&y.shape, |at| {
            let bias = bias.as_ref().map_or(0.0, |bias| bias.at_broadcast(at).float());
            Cell::Float(y.at(at).float() + bias)
        });
        vec![Expected::within(dtype, y, 1e-4)]
    })
}

fn gemm(draw: &mut Draw, dtype: DType) -> Sample {
    let [m, k, n] = [draw.dim(), draw.dim(), draw.dim()];
    let (a, b) =
        (QuantizedTensor::draw(draw, dtype, &[m, k]), Columns::draw(draw, &[k, n], DType::F32));
    let c_shape = draw.operand(&[m, n]);
    let c = Array::from_fn(&c_shape, |_| Cell::Int(draw.int(-5000, 5000).into()));
    let c = draw.one_in(2).then_some(c);
    let y_type = draw.pick(&[DType::I8, DType::U8]);
    let to = Scheme::whole(draw, y_type);
    let to = draw.one_in(2).then_some(to);
    let given = draw.pick(&[None, Some(0.5), Some(-1.25)]);
    let flags = [draw.one_in(2), draw.one_in(2)];
    let stored = |x: &Array, is_transposed| match is_transposed {
        true => x.transposed(&[1, 0]),
        false => x.clone(),
    };
    let [a_scale, a_zero] = a.scheme.operands();
    let operands = [
        Some(stored(&Array::of(&a.quantized), flags[0]).to_tensor(dtype)),
        a_scale,
        a_zero,
        Some(stored(&b.quantized, flags[1]).to_tensor(b.dtype)),
        Some(b.scale.clone()),
        b.zero_point.clone(),
        c.as_ref().map(|c| c.to_tensor(DType::I32)),
    ];
    let of_result = to.as_ref().map_or([None, None], Scheme::operands);
    let flag = |is_set: bool| is_set.then_some(Attr::Int(1));
    Sample::of(operands.into_iter().chain(of_result), move || {
        let product = multiplied(DType::F64, &a.values(), &b.values());
        let (a_scale, b_scale) = (a.scheme.scale(), Array::of(&b.scale));
        let y = Array::from_fn(&[m, n], |at| {
            let c = c.as_ref().map_or(0.0, |c| c.at_broadcast(at).float());
            let scaled = c * a_scale * b_scale.at_broadcast(at).float();
            Cell::Float(f64::from(given.unwrap_or(1.0)) * (product.at(at).float() + scaled))
        });
        // Sums are exact, and rounded when they are scaled, three times.
        to.as_ref()
            .map_or_else(|| Expected::near(DType::F32, y.clone(), 4.0), |to| to.encoded(y_type, &y))
    })
    .maybe("alpha", given.map(Attr::Float))
    .maybe("transA", flag(flags[0]))
    .maybe("transB", flag(flags[1]))
}
