//! QLinearConv: a convolution of quantized operands, quantized again.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, with_dtype};

use crate::channels_last::with_layout;
use crate::elementwise::{only, unsupported};
use crate::infer::WindowAttrs;
use crate::integer::convolve;
use crate::ops::conv::{ConvGeometry, conv_fact, conv_flops, expect_channels, read_group};
use crate::ops::conv_integer::{centered_image, centered_weights};
use crate::quantized::{Scheme, expect_zero_point, per_channel, saturate, scale, scales};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "QLinearConv",
        versions: (10, 10),
        types: DType::is_byte,
        build: |spec| Ok(Arc::new(QLinearConv::read(spec)?)),
    },
    OpDef {
        domain: "com.microsoft",
        name: "QLinearConv",
        versions: (1, 1),
        types: DType::is_byte,
        build: |spec| with_layout(spec, QLinearConv::read(spec)?),
    },
];

/// QLinearConv: `y = saturate(round((Σ w'·x' + b) · x_scale·w_scale/y_scale) + y_zero_point)`, where
/// `x'` and `w'` are quantized values minus zero points. Inputs: `x`, its scale and zero point, the same of
/// `w`, scale and zero point of `y`, `b`: absent or `[M]`, int32. Quantized values are int8 or uint8; scale and
/// zero point of `w` are one value or one per output channel. Sums are exact; scaling is float32,
/// rounding half to even, as in ONNX Runtime. With `channels_last`, `x` and `y` are `[N, …, C]`.
///
/// Source: ONNX operator set, QLinearConv-10; com.microsoft, QLinearConv-1 (ONNX Runtime 1.31).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QLinearConv {
    /// The placement of the windows.
    pub window: WindowAttrs,
    /// The number of groups, at least 1.
    pub group: usize,
}

impl QLinearConv {
    fn read(spec: &NodeSpec<'_>) -> Result<Self, OpError> {
        Ok(Self { window: WindowAttrs::read(spec)?, group: read_group(spec)? })
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
        let x = centered_image(x, inputs.optional_tensor(2)?, 2)?;
        let n_channels = w.shape()[0];
        let w = centered_weights(w, inputs.optional_tensor(5)?, [3, 5])?;
        let (x_scale, y_scale) = (scale(1, inputs.tensor(1)?)?, scale(6, inputs.tensor(6)?)?);
        let mut factors = per_channel(4, &scales(4, inputs.tensor(4)?)?, n_channels)?;
        factors.iter_mut().for_each(|scale| *scale = x_scale * *scale / y_scale);
        let zero_point = Scheme::zero_point(7, inputs.optional_tensor(7)?)?;
        let bias = geometry.channel_values::<i32>(inputs.optional_tensor(8)?)?;
        let dtype = inputs.tensor(7)?.dtype();
        let y = only(outputs)?.tensor(dtype, &geometry.output_shape())?;
        with_dtype!(dtype, [i8, u8], T => {
            let y = y.into_slice::<T>()?;
            convolve(&geometry, &x, &w, |at, channel, sum| {
                let value = (sum + bias[channel]) as f32 * factors[channel];
                y[at] = saturate(value.round_ties_even() + zero_point);
            })
        }, else => Err(unsupported(7, dtype)))
    }

    fn flops(&self, inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        conv_flops(inputs.get(3), outputs.first())
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
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
        let last = Case::new("QLinearConv", 1).domain("com.microsoft");
        let last = last.attr("channels_last", Attr::Int(1));
        let mut inputs = inputs;
        inputs[0] = tensor(&[1, 2, 1], &[3_u8, 255]);
        assert_eq!(last.tensor(&inputs), Ok(tensor(&[1, 2, 2], &[12_u8, 8, 138, 255])));
    }
}
