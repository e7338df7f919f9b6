//! QLinearSigmoid and QLinearLeakyRelu: a function of one quantized value is a table of 256.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output};

use crate::elementwise::{only, shaped_like_first};
use crate::quantized::{Scheme, Table};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    def("QLinearLeakyRelu", |spec| {
        let alpha = spec.float("alpha")?.unwrap_or(0.01);
        Ok(Arc::new(QLinearUnary::LeakyRelu { alpha }))
    }),
    def("QLinearSigmoid", |_| Ok(Arc::new(QLinearUnary::Sigmoid))),
];

const fn def(
    name: &'static str,
    build: fn(&NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError>,
) -> OpDef {
    OpDef { domain: "com.microsoft", name, versions: (1, 1), types: DType::is_byte, build }
}

/// `y = saturate(round(f(x)/y_scale) + y_zero_point)`, where `x` is `scale · (q − zero_point)`.
/// Inputs: `x`, its scale and zero point, those of `y`; zero points may be absent. Quantized values are int8 or
/// uint8, scales float. Computed in float32, rounding half to even.
///
/// Source: com.microsoft, QLinearSigmoid-1 and QLinearLeakyRelu-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum QLinearUnary {
    /// `1 / (1 + exp(−x))`, rounded once.
    Sigmoid,
    /// `x`, or `alpha · x` below 0.
    LeakyRelu {
        /// The slope below 0.
        alpha: f32,
    },
}

impl QLinearUnary {
    fn apply(self, x: f32) -> f32 {
        match self {
            Self::Sigmoid => f32::from_f64(1.0 / (1.0 + (-f64::from(x)).exp())),
            Self::LeakyRelu { alpha } => {
                if x >= 0.0 {
                    x
                } else {
                    alpha * x
                }
            }
        }
    }
}

impl Operator for QLinearUnary {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        Ok(vec![shaped_like_first(inputs, Scheme::expect_pair(inputs)?)?])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let [from, to] = Scheme::read_pair(inputs)?;
        Table::new(x.dtype(), from, to, |x| self.apply(x)).apply(x, only(outputs)?)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    #[test]
    fn every_quantized_value_goes_through_the_function() {
        let scalar = |x: f32| Tensor::scalar(x);
        let sigmoid = Case::new("QLinearSigmoid", 1).domain("com.microsoft");
        let x = tensor(&[5], &[0_u8, 126, 128, 130, 255]);
        let inputs =
            [x, scalar(0.5), Tensor::scalar(128_u8), scalar(1.0 / 256.0), Tensor::scalar(0_u8)];
        // σ(−64), σ(−1), σ(0), σ(1) and σ(63.5) in units of 1/256.
        let expected = tensor(&[5], &[0_u8, 69, 128, 187, 255]);
        assert_eq!(sigmoid.tensor(&inputs), Ok(expected));
        let relu = Case::new("QLinearLeakyRelu", 1).domain("com.microsoft");
        let x = tensor(&[2, 2], &[-128_i8, -3, 0, 127]);
        let inputs = [x, scalar(1.0), Tensor::scalar(-1_i8), scalar(1.0), Tensor::scalar(0_i8)];
        let y = relu.attr("alpha", Attr::Float(0.25)).tensor(&inputs);
        assert_eq!(y, Ok(tensor(&[2, 2], &[-32_i8, 0, 1, 127])));
    }
}
