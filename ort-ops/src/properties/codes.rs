//! Numbers as quantized values of 8 bits, the way quantized operators have them.

use ort_tensor::{DType, Tensor};

use super::{Array, Cell, Draw, Expected};

/// Rounding in float32 on the way from quantized values of moderate schemes to a code, in units of it.
pub(super) const SLACK: f64 = 1.0 / 64.0;

/// Scale and zero point of a whole tensor.
#[derive(Clone)]
pub(super) struct Scheme {
    scale: Tensor,
    zero_point: Option<Tensor>,
}

/// A tensor of quantized values, and what they mean.
#[derive(Clone)]
pub(super) struct Codes {
    pub(super) codes: Tensor,
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
        // Not exact, powers of two, and so small that most numbers saturate.
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
        let codes = values.map(|x| Cell::Float(x.float() / scale + zero_point));
        vec![Expected::within(dtype, codes, SLACK)]
    }
}

impl Codes {
    /// Any quantized values of this shape and type.
    pub(super) fn draw(draw: &mut Draw, dtype: DType, shape: &[usize]) -> Self {
        Self { codes: draw.any(dtype, shape), scheme: Scheme::draw(draw, dtype) }
    }

    /// Quantized values, scale and zero point.
    pub(super) fn operands(&self) -> Vec<Option<Tensor>> {
        let [scale, zero_point] = self.scheme.operands();
        vec![Some(self.codes.clone()), scale, zero_point]
    }

    /// `scale · (code − zero_point)` of each code.
    pub(super) fn values(&self) -> Array {
        let (scale, zero_point) = (self.scheme.scale(), self.scheme.zero_point());
        Array::of(&self.codes).map(|code| Cell::Float(scale * (code.float() - zero_point)))
    }
}

/// Numbers after they were quantized to uint8, all with one scale, as DynamicQuantizeLinear does, in
/// single precision.
#[expect(clippy::cast_possible_truncation, reason = "as the formula is given")]
pub(super) fn quantized_dynamically(numbers: &[f64]) -> Vec<f64> {
    let single: Vec<_> = numbers.iter().map(|&x| x as f32).collect();
    let (least, most) =
        single.iter().fold((0_f32, 0_f32), |(least, most), &x| (least.min(x), most.max(x)));
    let scale = if least == most { 1.0 } else { (most - least) / 255.0 };
    let zero_point = (-least / scale).round_ties_even().clamp(0.0, 255.0);
    let code = |x: &f32| ((x / scale).round_ties_even() + zero_point).clamp(0.0, 255.0);
    single.iter().map(|x| f64::from(scale) * f64::from(code(x) - zero_point)).collect()
}
