//! QLinearConv: a convolution of quantized operands, quantized again.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output};

use crate::infer::WindowAttrs;
use crate::ops::conv::{ConvGeometry, conv_fact, conv_flops, expect_channels, read_group};
use crate::ops::conv_integer::centered_weights;
use crate::quantized::{codes, expect_zero_point, per_channel, scale, scales, store, zero_point};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "QLinearConv",
    versions: (10, 10),
    types: DType::is_byte,
    build: QLinearConv::build,
}];

/// QLinearConv: `y = saturate(round((Σ w'·x' + b) · x_scale·w_scale/y_scale) + y_zero_point)`, where
/// `x'` and `w'` are codes minus zero points. Inputs: `x`, its scale and zero point, the same of
/// `w`, scale and zero point of `y`, `b`: absent or `[M]`, int32. Codes are int8 or uint8; scale and
/// zero point of `w` are one value or one an output channel. Sums are exact; scaling is float32,
/// rounding half to even, as in ONNX Runtime.
///
/// Source: ONNX operator set, QLinearConv-10.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QLinearConv {
    /// Where the windows lie.
    pub window: WindowAttrs,
    /// The number of groups, at least 1.
    pub group: usize,
}

impl QLinearConv {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Self { window: WindowAttrs::read(spec)?, group: read_group(spec)? }))
    }
}

impl Operator for QLinearConv {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        for index in [0, 3] {
            inputs.dtype(index, DType::is_byte)?;
            expect_zero_point(inputs, index + 2, index)?;
        }
        for index in [1, 4, 6] {
            inputs.fact(index)?;
            inputs.expect_dtype(index, DType::F32)?;
        }
        inputs.expect_dtype(8, DType::I32)?;
        let dtype = inputs.dtype(7, DType::is_byte)?;
        let operands = [inputs.fact(0)?, inputs.fact(3)?];
        let y = conv_fact(&self.window, self.group, operands, dtype)?;
        expect_channels(inputs, 8, y.dims().and_then(|dims| dims.get(1)))?;
        Ok(vec![y])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (x, w) = (inputs.tensor(0)?, inputs.tensor(3)?);
        let geometry = ConvGeometry::new(&self.window, self.group, x.shape(), w.shape())?;
        let x_zero = zero_point(2, inputs.optional_tensor(2)?)?;
        let x: Vec<f64> = codes(0, x)?.iter().map(|x| x - x_zero).collect();
        let n_channels = w.shape()[0];
        let w = centered_weights(w, inputs.optional_tensor(5)?, [3, 5])?;
        let (x_scale, y_scale) = (scale(1, inputs.tensor(1)?)?, scale(6, inputs.tensor(6)?)?);
        let w_scales = per_channel(4, &scales(4, inputs.tensor(4)?)?, n_channels)?;
        let y_zero = inputs.tensor(7)?;
        let (dtype, y_zero) = (y_zero.dtype(), zero_point(7, Some(y_zero))?);
        let bias = match inputs.optional_tensor(8)? {
            Some(bias) => per_channel(8, &codes(8, bias)?, n_channels)?,
            None => vec![0.0; n_channels],
        };
        let shape = geometry.output_shape();
        let n_values = ort_tensor::n_elements(&shape).ok_or(OpError::TooLarge)?;
        let mut values = Vec::new();
        values.try_reserve_exact(n_values).map_err(|_| OpError::TooLarge)?;
        values.resize(n_values, (0.0, y_zero));
        geometry.convolve(&x, &w, 0.0, |start, channel, sums| {
            let factor = x_scale * w_scales[channel] / y_scale;
            for ((value, _), sum) in values[start..].iter_mut().zip(sums) {
                *value = f32::from_f64(sum + bias[channel]) * factor;
            }
        })?;
        store(&mut outputs[0], dtype, &shape, &values)
    }

    fn flops(&self, inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        conv_flops(inputs.get(3), outputs.first())
    }
}

#[cfg(test)]
mod tests {
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    #[test]
    fn each_channel_has_its_own_scale_zero_point_and_bias() {
        let inputs = [
            tensor(&[1, 1, 2], &[3_u8, 255]),
            Tensor::scalar(0.5_f32),
            Tensor::scalar(1_u8),
            tensor(&[2, 1, 1], &[1_i8, 2]),
            tensor(&[2], &[1_f32, 2.0]),
            tensor(&[2], &[0_i8, 1]),
            Tensor::scalar(1_f32),
            Tensor::scalar(10_u8),
            tensor(&[2], &[1_i32, -4]),
        ];
        // (2 + 1)/2 = 1.5 rounds to 2, (254 + 1)/2 = 127.5 to 128; 2 − 4 and 254 − 4 stay.
        let y = Case::new("QLinearConv", 10).tensor(&inputs);
        assert_eq!(y, Ok(tensor(&[1, 2, 2], &[12_u8, 138, 8, 255])));
    }
}
