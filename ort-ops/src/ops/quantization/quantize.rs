//! QuantizeLinear: `y = saturate(round(x / scale) + zero_point)`.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpError, Operator};
use ort_tensor::{
    DType, Element, Inputs, Number, Output, TensorView, TensorViewMut, bf16, f16, filled,
    with_dtype,
};

use super::granularity::{Granularity, Parameter, parameters, to_f32};
use super::is_quantized;
use crate::broadcast::Operand;
use crate::elementwise::{only, shaped_like_first, unsupported};
use crate::ops::cast::{Narrowing, RoundMode};

/// QuantizeLinear: `y = saturate(round(x / scale) + zero_point)`, rounding ties to even; for small floats `y` is the
/// nearest to `x / scale + zero_point`.
///
/// `x`: float, float16, bfloat16 or int32; `scale`: the same or float8e8m0; `zero_point` has the
/// type of the result, by default `output_dtype`, else uint8. The quotient is rounded to `precision`, by default the
/// type of `scale` (float for int32 and float8e8m0). NaN becomes 0 in an integer.
///
/// Source: ONNX operator set, QuantizeLinear-28 (without its 6-bit floats); com.microsoft,
/// QuantizeLinear-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuantizeLinear {
    /// The range of one scale.
    pub granularity: Granularity,
    /// Whether 8-bit floats out of range become the largest finite value.
    pub saturate: bool,
    /// The type of the result, if the attribute is present.
    pub output_dtype: Option<DType>,
    /// The type in which `x / scale` is computed, if the attribute is present.
    pub precision: Option<DType>,
}

impl QuantizeLinear {
    pub(super) fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let precision = spec.dtype("precision")?;
        if let Some(dtype) = precision.filter(|&p| p == DType::F64 || !p.is_float()) {
            return Err(OpError::AttributeValue { name: "precision", found: dtype.to_string() });
        }
        Ok(Arc::new(Self {
            granularity: Granularity::of_node(spec)?,
            saturate: spec.flag("saturate", true)?,
            output_dtype: spec.dtype("output_dtype")?,
            precision,
        }))
    }

    fn result_dtype(&self, zero_point: Option<DType>) -> Result<DType, OpError> {
        match (self.output_dtype, zero_point) {
            (Some(named), Some(dtype)) if named != dtype => Err(OpError::InputDType {
                index: 2,
                expected: named,
                found: Box::new(Fact::unranked(dtype).ty),
            }),
            (named, zero_point) => Ok(zero_point.or(named).unwrap_or(DType::U8)),
        }
    }

    fn run<X: Number>(
        &self,
        x: TensorView<'_>,
        parameters: Operand<'_, Parameter>,
        precision: DType,
        y: TensorViewMut<'_>,
    ) -> Result<(), OpError> {
        let x = Operand::<X>::new(x)?;
        let quotient = |x: &X, scale: f32| {
            let quotient = to_f32(*x) / scale;
            match precision {
                DType::F16 => f16::from_f32(quotient).to_f32(),
                DType::Bf16 => bf16::from_f32(quotient).to_f32(),
                _ => quotient,
            }
        };
        let dtype = y.dtype();
        with_dtype!(dtype, [i8, u8, i16, u16],
        T => self.granularity.apply(x, parameters, y.into_slice::<T>()?, |x, &(scale, zero)| {
            // The conversion saturates.
            to_integer(quotient(x, scale).round_ties_even() + zero)
        }),
        else => {
            let mut quantized = filled(0, x.data.len())?;
            let narrowing = Narrowing { saturate: self.saturate, round_mode: RoundMode::Up };
            self.granularity.apply(x, parameters, &mut quantized, |x, &(scale, zero)| {
                let quotient = quotient(x, scale);
                quantize(dtype, narrowing, quotient, zero)
            })?;
            if dtype.is_packed() {
                Ok(y.pack(&quantized)?)
            } else {
                y.into_words::<u8>()?.copy_from_slice(&quantized);
                Ok(())
            }
        })
    }
}

impl Operator for QuantizeLinear {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, is_source)?;
        inputs.dtype(1, |dtype| is_source(dtype) || dtype == DType::F8E8M0)?;
        let zero_point = match inputs.get(2) {
            Some(_) => Some(inputs.dtype(2, is_quantized)?),
            None => None,
        };
        Ok(vec![shaped_like_first(inputs, self.result_dtype(zero_point)?)?])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (x, scale, zero_point) =
            (inputs.tensor(0)?, inputs.tensor(1)?, inputs.optional_tensor(2)?);
        let dtype = self.result_dtype(zero_point.map(|zero_point| zero_point.dtype()))?;
        if !is_quantized(dtype) {
            return Err(unsupported(2, dtype));
        }
        let data = parameters(scale, zero_point)?;
        let parameters = Operand { shape: scale.shape(), data: &data };
        let precision = self.precision.unwrap_or(scale.dtype());
        let y = only(outputs)?.tensor(dtype, x.shape())?;
        with_dtype!(x.dtype(), [f32, f16, bf16, i32],
            T => self.run::<T>(x, parameters, precision, y),
            else => Err(unsupported(0, x.dtype())))
    }
}

/// The encoding of a quotient in a type of less than eight bits or an 8-bit float.
fn quantize(dtype: DType, narrowing: Narrowing, quotient: f32, zero: f32) -> u8 {
    let (min, max) = match dtype {
        DType::I4 => (-8.0, 7.0),
        DType::U4 => (0.0, 15.0),
        DType::I2 => (-2.0, 1.0),
        DType::U2 => (0.0, 3.0),
        _ => {
            let q = narrowing.encode_float(dtype, f64::from(quotient + zero));
            return q.unwrap_or(0);
        }
    };
    let value: i8 = to_integer((quotient.round_ties_even() + zero).clamp(min, max));
    value.cast_unsigned()
}

/// The integer toward zero, saturating; 0 for NaN.
fn to_integer<T: Number + Element>(x: f32) -> T {
    T::from_f64(f64::from(x))
}

pub(super) fn is_source(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::Bf16 | DType::I32)
}
