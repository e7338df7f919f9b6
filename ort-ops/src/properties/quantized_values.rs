//! Quantized values of 8 bits, as in quantized operators.

use ort_tensor::{DType, Tensor};

use super::{Array, Cell, Draw, Expected};

/// The rounding error in float32 between quantized values of moderate schemes, in units of a quantized value.
pub(super) const SLACK: f64 = 1.0 / 64.0;

/// Scale and zero point of a whole tensor.
#[derive(Clone)]
pub(super) struct Scheme {
    scale: Tensor,
    zero_point: Option<Tensor>,
}

/// A tensor of quantized values with its scheme.
#[derive(Clone)]
pub(super) struct QuantizedTensor {
    pub(super) quantized: Tensor,
    pub(super) scheme: Scheme,
}

impl Scheme {
    /// A scheme, perhaps without a zero point, for quantized values of this type.
    pub(super) fn draw(draw: &mut Draw, dtype: DType) -> Self {
        let Self { scale, zero_point } = Self::whole(draw, dtype);
        Self { scale, zero_point: zero_point.filter(|_| !draw.one_in(4)) }
    }

    /// A scheme with a zero point.
    pub(super) fn whole(draw: &mut Draw, dtype: DType) -> Self {
        // Some inexact, some powers of two, and some so small that most numbers saturate.
        let scale: f32 = draw.pick(&[1.0 / 256.0, 0.07, 0.25, 0.3, 0.5]);
        let zero_point = draw.any(dtype, &[]);
        let shape: &[usize] = draw.pick(&[&[], &[1]]);
        let scalar = |tensor: Tensor| tensor.reshaped(shape).unwrap();
        Self {
            scale: scalar(Tensor::from_slice(&[], &[scale]).unwrap()),
            zero_point: Some(scalar(zero_point)),
        }
    }

    pub(super) fn operands(&self) -> [Option<Tensor>; 2] {
        [Some(self.scale.clone()), self.zero_point.clone()]
    }

    pub(super) fn scale(&self) -> f64 {
        Array::of(&self.scale).cells[0].float()
    }

    /// 0 if it is absent.
    pub(super) fn zero_point(&self) -> f64 {
        self.zero_point.as_ref().map_or(0.0, |tensor| Array::of(tensor).cells[0].float())
    }

    /// `saturate(round(value / scale) + zero_point)` of each number.
    pub(super) fn encoded(&self, dtype: DType, values: &Array) -> Vec<Expected> {
        let (scale, zero_point) = (self.scale(), self.zero_point());
        let quantized = values.map(|x| Cell::Float(x.float() / scale + zero_point));
        vec![Expected::within(dtype, quantized, SLACK)]
    }
}

impl QuantizedTensor {
    /// Any quantized values of this shape and type.
    pub(super) fn draw(draw: &mut Draw, dtype: DType, shape: &[usize]) -> Self {
        Self { quantized: draw.any(dtype, shape), scheme: Scheme::draw(draw, dtype) }
    }

    /// Quantized values, scale and zero point.
    pub(super) fn operands(&self) -> Vec<Option<Tensor>> {
        let [scale, zero_point] = self.scheme.operands();
        vec![Some(self.quantized.clone()), scale, zero_point]
    }

    /// `scale · (q − zero_point)` of each quantized value.
    pub(super) fn values(&self) -> Array {
        let (scale, zero_point) = (self.scheme.scale(), self.scheme.zero_point());
        Array::of(&self.quantized).map(|q| Cell::Float(scale * (q.float() - zero_point)))
    }
}

/// Numbers quantized to uint8 with one scale, as by DynamicQuantizeLinear, in single precision.
#[expect(clippy::cast_possible_truncation, reason = "as the formula is given")]
pub(super) fn quantized_dynamically(numbers: &[f64]) -> Vec<f64> {
    let single: Vec<_> = numbers.iter().map(|&x| x as f32).collect();
    let (least, most) =
        single.iter().fold((0_f32, 0_f32), |(least, most), &x| (least.min(x), most.max(x)));
    let scale = if least == most { 1.0 } else { (most - least) / 255.0 };
    let zero_point = (-least / scale).round_ties_even().clamp(0.0, 255.0);
    let quantize = |x: &f32| ((x / scale).round_ties_even() + zero_point).clamp(0.0, 255.0);
    single.iter().map(|x| f64::from(scale) * f64::from(quantize(x) - zero_point)).collect()
}
