//! QLinearSoftmax: Softmax of quantized numbers.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, by_pieces, with_dtype};

use crate::elementwise::{only, shaped_like_first, unsupported};
use crate::infer::normalize_axis;
use crate::lanes::Lanes;
use crate::ops::softmax::softmax;
use crate::quantized::Scheme;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "QLinearSoftmax",
    versions: (1, 1),
    types: DType::is_byte,
    build: QLinearSoftmax::build,
}];

/// QLinearSoftmax: `y = saturate(round(softmax(x) · ⌊1/y_scale⌋) + y_zero_point)`, where `x` is
/// `x_scale · q`. Inputs: `x`, its scale and zero point (which cancels), those of `y`; quantized values are
/// int8 or uint8, scales float. Rounds half to even.
///
/// Source: com.microsoft, QLinearSoftmax-1 (ONNX Runtime 1.31), which overflows in lanes of one
/// element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QLinearSoftmax {
    /// The axis, negative from the back.
    pub axis: i64,
    /// As Softmax before version 13: all dimensions from `axis` on are flattened.
    pub is_flattened: bool,
}

impl QLinearSoftmax {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let opset = spec.int("opset")?.ok_or(OpError::MissingAttribute { name: "opset" })?;
        Ok(Arc::new(Self { axis: spec.int("axis")?.unwrap_or(-1), is_flattened: opset < 13 }))
    }
}

impl Operator for QLinearSoftmax {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = Scheme::expect_pair(inputs)?;
        if let Some(rank) = inputs.fact(0)?.rank() {
            normalize_axis(self.axis, rank)?;
        }
        Ok(vec![shaped_like_first(inputs, dtype)?])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let [from, to] = Scheme::read_pair(inputs)?;
        let axis = normalize_axis(self.axis, x.shape().len())?;
        let lanes = match self.is_flattened {
            true => Lanes::flattened(x.shape(), axis),
            false => Lanes::along(x.shape(), axis),
        };
        let (scale, n_steps) = (f64::from(from.scale), f64::from((1.0 / to.scale).floor()));
        let zero_point = f64::from(to.zero_point);
        let quantized = |lane: &mut [f64]| {
            by_pieces(lane, |_, piece| piece.iter_mut().for_each(|x| *x *= scale))?;
            softmax(lane)?;
            let quantize = |y: f64| (y * n_steps).round_ties_even() + zero_point;
            by_pieces(lane, |_, piece| piece.iter_mut().for_each(|y| *y = quantize(*y)))
        };
        let y = only(outputs)?.tensor(x.dtype(), x.shape())?;
        with_dtype!(x.dtype(), [i8, u8],
            T => lanes.map::<T>(x.as_slice()?, y.into_slice()?, quantized)?,
            else => return Err(unsupported(0, x.dtype())));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    #[test]
    fn shares_are_quantized_and_a_whole_saturates() {
        let (one, step) = (Tensor::scalar(1_f32), Tensor::scalar(1.0_f32 / 256.0));
        let case = |opset| {
            let case = Case::new("QLinearSoftmax", 1).domain("com.microsoft");
            case.attr("axis", Attr::Int(1)).attr("opset", Attr::Int(opset))
        };
        let x = tensor(&[1, 2, 2], &[5_i8, 127, 5, -128]);
        let zero = Tensor::scalar(-128_i8);
        let inputs = [x, one.clone(), zero.clone(), step.clone(), zero];
        let y = case(13).tensor(&inputs);
        assert_eq!(y, Ok(tensor(&[1, 2, 2], &[0_i8, 127, 0, -128])));
        let y = case(12).tensor(&inputs);
        assert_eq!(y, Ok(tensor(&[1, 2, 2], &[-128_i8, 127, -128, -128])));
        let zero = Tensor::scalar(0_u8);
        let x = tensor(&[1, 4], &[0_u8, 1, 2, 3]);
        let y = case(13).tensor(&[x, one, zero.clone(), step, zero]);
        // The softmax of 0 to 3 is 0.0321, 0.0871, 0.2369 and 0.6439.
        assert_eq!(y, Ok(tensor(&[1, 4], &[8_u8, 22, 61, 165])));
    }
}
