//! ConvInteger: a convolution of `x − x_zero_point` with `w − w_zero_point` in int32.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, TensorView};

use crate::accumulate::Accumulate;
use crate::infer::WindowAttrs;
use crate::integer::convolve;
use crate::ops::conv::{ConvGeometry, conv_fact, conv_flops, read_group};
use crate::quantized::{Along, QuantizedElement, centered, expect_zero_point, per_channel};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "ConvInteger",
    versions: (10, 10),
    types: DType::is_byte,
    build: ConvInteger::build,
}];

/// ConvInteger: as Conv, on int8 or uint8 operands, wrapping in int32. The zero point of `x` is one
/// value, that of `w` one value or one per output channel; 0 if absent. Padding is the zero point.
///
/// Source: ONNX operator set, ConvInteger-10.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvInteger {
    /// The placement of the windows.
    pub window: WindowAttrs,
    /// The number of groups, at least 1.
    pub group: usize,
}

impl ConvInteger {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Self { window: WindowAttrs::read(spec)?, group: read_group(spec)? }))
    }
}

impl Operator for ConvInteger {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        for index in 0..2 {
            inputs.dtype(index, DType::is_byte)?;
            expect_zero_point(inputs, index + 2, index)?;
        }
        let operands = [inputs.fact(0)?, inputs.fact(1)?];
        Ok(vec![conv_fact(&self.window, self.group, operands, DType::I32)?])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (x, w) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let geometry = ConvGeometry::new(&self.window, self.group, x.shape(), w.shape())?;
        let x = centered_image(x, inputs.optional_tensor(2)?, 2)?;
        let w = centered_weights(w, inputs.optional_tensor(3)?, [1, 3])?;
        let shape = geometry.output_shape();
        let y = outputs[0].tensor(DType::I32, &shape)?.into_slice::<i32>()?;
        convolve(&geometry, &x, &w, |at, _, sum| y[at] = i32::narrow(sum))
    }

    fn flops(&self, inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        conv_flops(inputs.get(1), outputs.first())
    }
}

/// The image at input 0 minus its only zero point, which is input `index`.
pub(crate) fn centered_image(
    x: TensorView<'_>,
    zero_point: Option<TensorView<'_>>,
    index: usize,
) -> Result<Vec<i16>, OpError> {
    if zero_point.is_some_and(|zero_point| zero_point.len() != 1) {
        return Err(OpError::InputValue { index, what: "a single value is needed" });
    }
    centered(x, zero_point, Along::Rows, [0, index])
}

/// The weights minus the zero points of their output channels; `indices` are those of the inputs.
pub(crate) fn centered_weights(
    w: TensorView<'_>,
    zero_points: Option<TensorView<'_>>,
    indices: [usize; 2],
) -> Result<Vec<i16>, OpError> {
    let mut centered = i16::of(indices[0], w)?;
    let n_channels = w.shape().first().copied().unwrap_or(0);
    let (Some(zero_points), false) = (zero_points, centered.is_empty()) else {
        return Ok(centered);
    };
    let zero_points = per_channel(indices[1], &i16::of(indices[1], zero_points)?, n_channels)?;
    let n_weights = centered.len() / n_channels;
    for (weights, zero_point) in centered.chunks_exact_mut(n_weights).zip(zero_points) {
        weights.iter_mut().for_each(|weight| *weight -= zero_point);
    }
    Ok(centered)
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, tensor};

    #[test]
    fn padding_is_the_zero_point() {
        let case = Case::new("ConvInteger", 10).attr("pads", Attr::Ints(vec![1, 1]));
        let x = tensor(&[1, 1, 2], &[3_u8, 1]);
        let w = tensor(&[2, 1, 2], &[1_i8, 1, 1, 1]);
        let zero_points = [tensor(&[], &[2_u8]), tensor(&[2], &[0_i8, -1])];
        let y = case.tensor(&[&[x, w], &zero_points[..]].concat());
        assert_eq!(y, Ok(tensor(&[1, 2, 3], &[1_i32, 0, -1, 2, 0, -2])));
    }

    #[test]
    fn zero_points_of_another_type_or_number_are_refused() {
        let x = tensor(&[1, 1, 1], &[3_u8]);
        let case = Case::new("ConvInteger", 10);
        assert!(case.tensor(&[x.clone(), x.clone(), tensor(&[], &[1_i8])]).is_err());
        assert!(case.tensor(&[x.clone(), x, tensor(&[2], &[1_u8, 1])]).is_err());
    }
}
