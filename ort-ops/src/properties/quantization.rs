//! Quantization and dequantization: exact, since scales are powers of two.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::draw::signed;
use super::quantized_product::{quantized, quantized_values, scales};
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::onnx("QuantizeLinear", &[10, 13, 19, 21, 23, 28], quantize),
    Property::microsoft("QuantizeLinear", quantize),
    Property::onnx("DequantizeLinear", &[10, 13, 19, 21, 23, 28], dequantize),
    Property::microsoft("DequantizeLinear", dequantize),
    Property::onnx("DynamicQuantizeLinear", &[11], quantize_dynamically),
];

const QUANTIZED: &[DType] = &[
    DType::I8,
    DType::U8,
    DType::I16,
    DType::U16,
    DType::I4,
    DType::U4,
    DType::I2,
    DType::U2,
    DType::F8E4M3Fn,
    DType::F8E5M2,
    DType::F4E2M1,
];
const SCALES: &[DType] = &[DType::F32, DType::F16, DType::Bf16];

/// The granularity of scales: their shape, their axis, and the attributes.
struct Reach {
    shape: Vec<usize>,
    axis: usize,
    block: Option<usize>,
    attrs: Vec<(&'static str, Attr)>,
}

impl Reach {
    fn draw(draw: &mut Draw, x: &[usize]) -> Self {
        // com.microsoft has one version that can do all.
        let (has_axes, has_blocks) = match draw.version {
            1 => (true, true),
            version => (version >= 13, version >= 21),
        };
        let form = if x.is_empty() { 0 } else { draw.below(3) };
        if form == 0 || !has_axes {
            let shape = draw.pick(&[vec![], vec![1]]);
            return Self { shape, axis: 0, block: None, attrs: vec![] };
        }
        let (axis, written) = draw.axis(x.len());
        let mut attrs = vec![("axis", Attr::Int(written))];
        if axis == 1 && draw.one_in(2) {
            attrs.clear();
        }
        if form == 1 || !has_blocks {
            return Self { shape: vec![x[axis]], axis, block: None, attrs };
        }
        let block = 1 + draw.below(3);
        attrs.push(("block_size", Attr::Int(signed(block))));
        let mut shape = x.to_vec();
        shape[axis] = shape[axis].div_ceil(block);
        Self { shape, axis, block: Some(block), attrs }
    }

    /// The parameter of an element.
    fn own<'a>(&self, parameters: &'a Array, at: &[usize]) -> &'a Cell {
        if parameters.cells.len() == 1 {
            return &parameters.cells[0];
        }
        let Some(block) = self.block else { return &parameters.cells[at[self.axis]] };
        let mut at = at.to_vec();
        at[self.axis] /= block;
        parameters.at(&at)
    }
}

/// The quantized value nearest to a number.
fn quantized_value(dtype: DType, value: f64, zero_point: &Cell) -> Cell {
    if dtype != DType::F4E2M1 {
        return quantized(dtype, value, zero_point);
    }
    let magnitudes = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let distance = |i: &usize| (value.abs() - magnitudes[*i]).abs();
    // Ties to even.
    let nearer = |a: usize, b: usize| match distance(&b) - distance(&a) {
        further if further > 0.0 => a,
        nearer if nearer < 0.0 => b,
        _ => a + a % 2,
    };
    Cell::Float(magnitudes[(0..8).reduce(nearer).unwrap()].copysign(value))
}

fn quantize(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(0);
    let x = draw.small(dtype, &shape);
    let reach = Reach::draw(draw, &shape);
    let scale_type = if SCALES.contains(&dtype) { dtype } else { DType::F32 };
    let y_type = draw.pick(QUANTIZED);
    let scale = scales(draw, scale_type, &reach.shape);
    let zero_point = match y_type {
        DType::F4E2M1 => Tensor::zeros(y_type, &reach.shape).unwrap(),
        _ => quantized_values(draw, y_type, &reach.shape),
    };
    let has_dtype = draw.version == 1 || draw.version >= 21;
    // Without a zero point the type is an attribute, or uint8.
    let form = draw.below(if has_dtype { 3 } else { 2 });
    let y_type = if form == 1 { DType::U8 } else { y_type };
    let zero_point = (form == 0).then_some(zero_point);
    let sample = Sample::new(&[&x.clone(), &scale.clone()], {
        let zero_point = zero_point.clone();
        let reach = Reach { attrs: vec![], shape: reach.shape.clone(), ..reach };
        move || {
            let (x, scale) = (Array::of(&x), Array::of(&scale));
            let zero_point =
                zero_point.clone().unwrap_or_else(|| Tensor::zeros(y_type, &reach.shape).unwrap());
            let zero_point = Array::of(&zero_point);
            let y = Array::from_fn(&x.shape, |at| {
                let quotient = x.at(at).float() / reach.own(&scale, at).float();
                quantized_value(y_type, quotient, reach.own(&zero_point, at))
            });
            Expected::exact(y_type, y)
        }
    });
    let sample = if zero_point.is_some() { sample.input(2, zero_point) } else { sample };
    let named = (form == 2).then(|| Attr::Int(y_type.onnx().into()));
    let sample = sample.maybe("output_dtype", named);
    reach.attrs.into_iter().fold(sample, |sample, (name, attr)| sample.attr(name, attr))
}

fn dequantize(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(0);
    // Numbers of more than 16 bits would be rounded.
    let draw_quantized = |draw: &mut Draw, shape: &[usize]| match dtype {
        DType::I32 => draw.small(dtype, shape),
        _ => draw.any(dtype, shape),
    };
    let x = draw_quantized(draw, &shape);
    let reach = Reach::draw(draw, &shape);
    let zero_point = draw_quantized(draw, &reach.shape);
    let zero_point = draw.one_in(2).then_some(zero_point);
    let scale_type = draw.pick(SCALES);
    let scale = scales(draw, scale_type, &reach.shape);
    let named = (draw.version >= 23 && draw.one_in(2)).then(|| draw.pick(SCALES));
    let y_type = named.unwrap_or(scale_type);
    let sample = Sample::new(&[&x.clone(), &scale.clone()], {
        let zero_point = zero_point.clone();
        let reach = Reach { attrs: vec![], shape: reach.shape.clone(), ..reach };
        move || {
            let (x, scale) = (Array::of(&x), Array::of(&scale));
            let zero_point = zero_point.as_ref().map(Array::of);
            let y = Array::from_fn(&x.shape, |at| {
                let zero_point = zero_point.as_ref().map_or(0.0, |it| reach.own(it, at).float());
                Cell::Float((x.at(at).float() - zero_point) * reach.own(&scale, at).float())
            });
            Expected::exact(y_type, y)
        }
    });
    let sample = if zero_point.is_some() { sample.input(2, zero_point) } else { sample };
    let sample = sample.maybe("output_dtype", named.map(|it| Attr::Int(it.onnx().into())));
    reach.attrs.into_iter().fold(sample, |sample, (name, attr)| sample.attr(name, attr))
}

/// In single precision, as the formula is given.
#[expect(clippy::cast_possible_truncation, reason = "small whole numbers")]
fn quantize_dynamically(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(0);
    let x = draw.small(dtype, &shape);
    let sample = Sample::new(&[&x.clone()], move || {
        let x = Array::of(&x).map(|cell| Cell::Float(cell.float()));
        let values = x.cells.iter().map(|cell| cell.float() as f32);
        let (least, most) = values.fold((0_f32, 0_f32), |(a, b), x| (a.min(x), b.max(x)));
        let scale = if least == most { 1.0 } else { (most - least) / 255.0 };
        let zero_point = (-least / scale).round_ties_even().clamp(0.0, 255.0);
        let quantize = |cell: &Cell| {
            let q = (cell.float() as f32 / scale).round_ties_even() + zero_point;
            Cell::number(DType::U8, q.clamp(0.0, 255.0).into())
        };
        let scalar = |cell: Cell| Array { shape: vec![], cells: vec![cell] };
        let y = Expected::exact(DType::U8, x.map(quantize));
        let scale = Expected::exact(DType::F32, scalar(Cell::Float(scale.into())));
        let zero_point = scalar(Cell::number(DType::U8, zero_point.into()));
        y.into_iter().chain(scale).chain(Expected::exact(DType::U8, zero_point)).collect()
    });
    sample.outputs(3)
}
