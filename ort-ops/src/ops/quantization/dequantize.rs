//! DequantizeLinear: `y = (x − zero_point) · scale`.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output, TensorViewMut, bf16, f16, with_dtype};

use super::granularity::{Granularity, Parameter, floats, parameters, to_f32};
use super::is_quantized;
use crate::broadcast::Operand;
use crate::elementwise::{only, shaped_like_first, unsupported};

/// DequantizeLinear: `y = (x − zero_point) · scale`, computed in `f32` and rounded once.
///
/// `x`: integers of 2 to 16 bits, int32, small floats with a sign; `zero_point` of the same type;
/// `scale`: float, float16, bfloat16 or float8e8m0. The result has the type `output_dtype`, by default that of
/// `scale` (float for float8e8m0).
///
/// Source: ONNX operator set, DequantizeLinear-28 (without its 6-bit floats); com.microsoft,
/// DequantizeLinear-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DequantizeLinear {
    /// The range of one scale.
    pub granularity: Granularity,
    /// The type of the result, if the attribute is present.
    pub output_dtype: Option<DType>,
}

impl DequantizeLinear {
    pub(super) fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let output_dtype = spec.dtype("output_dtype")?;
        if let Some(dtype) = output_dtype.filter(|&dtype| !is_result(dtype)) {
            return Err(OpError::AttributeValue { name: "output_dtype", found: dtype.to_string() });
        }
        Ok(Arc::new(Self { granularity: Granularity::of_node(spec)?, output_dtype }))
    }

    fn result_dtype(&self, scale: DType) -> DType {
        let own = if scale == DType::F8E8M0 { DType::F32 } else { scale };
        self.output_dtype.unwrap_or(own)
    }

    fn run<X: Number>(
        &self,
        x: Operand<'_, X>,
        parameters: Operand<'_, Parameter>,
        y: TensorViewMut<'_>,
    ) -> Result<(), OpError> {
        let dtype = y.dtype();
        with_dtype!(dtype, [f32, f16, bf16],
            T => self.granularity.apply(x, parameters, y.into_slice::<T>()?, |&x, &(scale, zero)| {
                let product = (to_f32(x) - zero) * scale;
                <T as Number>::from_f64(f64::from(product))
            }),
            else => Err(unsupported(1, dtype)))
    }
}

impl Operator for DequantizeLinear {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, is_source)?;
        let scale = inputs.dtype(1, |dtype| is_result(dtype) || dtype == DType::F8E8M0)?;
        inputs.expect_dtype(2, dtype)?;
        Ok(vec![shaped_like_first(inputs, self.result_dtype(scale))?])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (x, scale) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let data = parameters(scale, inputs.optional_tensor(2)?)?;
        let parameters = Operand { shape: scale.shape(), data: &data };
        let y = only(outputs)?.tensor(self.result_dtype(scale.dtype()), x.shape())?;
        with_dtype!(x.dtype(), [i8, u8, i16, u16, i32],
            T => self.run(Operand::<T>::new(x)?, parameters, y),
            else => self.run(Operand { shape: x.shape(), data: &floats(0, x)? }, parameters, y))
    }
}

pub(super) fn is_source(dtype: DType) -> bool {
    is_quantized(dtype) || dtype == DType::I32
}

fn is_result(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::Bf16)
}
