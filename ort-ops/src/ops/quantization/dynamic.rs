//! DynamicQuantizeLinear: scale and zero point from the data itself.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Pace};

use crate::elementwise::shaped_like_first;
use crate::quantized::{Scheme, saturate};

/// DynamicQuantizeLinear: `y = saturate(round(x / scale) + zero)` in uint8, with
/// `scale = (max(x, 0) − min(x, 0)) / 255` and `zero = round(−min(x, 0) / scale)`. `x`: float.
/// Outputs: `y`, `scale` (float), `zero` (uint8), both scalars.
///
/// If all of `x` is 0, or it is empty, the scale is 1, as in ONNX Runtime. NaN is ignored for the range.
///
/// Source: ONNX operator set, DynamicQuantizeLinear-11.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DynamicQuantizeLinear;

impl DynamicQuantizeLinear {
    pub(super) fn build(_spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Self))
    }
}

pub(super) const fn is_source(dtype: DType) -> bool {
    matches!(dtype, DType::F32)
}

impl Operator for DynamicQuantizeLinear {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, is_source)?;
        let y = shaped_like_first(inputs, DType::U8)?;
        Ok(vec![y, Fact::shaped(DType::F32, &[]), Fact::shaped(DType::U8, &[])])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let data = x.as_slice::<f32>()?;
        let scheme = Scheme::of_values(data)?;
        if let Some(output) = outputs.first_mut().filter(|output| output.is_wanted()) {
            let y = output.tensor(DType::U8, x.shape())?.into_slice::<u8>()?;
            let mut pace = Pace::new();
            for (y, x) in y.iter_mut().zip(data) {
                pace.go(1)?;
                *y = scheme.quantize(*x);
            }
        }
        if let Some(output) = outputs.get_mut(1).filter(|output| output.is_wanted()) {
            output.tensor(DType::F32, &[])?.into_slice::<f32>()?.fill(scheme.scale);
        }
        if let Some(output) = outputs.get_mut(2).filter(|output| output.is_wanted()) {
            output.tensor(DType::U8, &[])?.into_slice::<u8>()?.fill(saturate(scheme.zero_point));
        }
        Ok(())
    }
}
