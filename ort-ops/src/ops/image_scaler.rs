//! ImageScaler: scaled and shifted images.

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output};

use crate::elementwise::like_first;
use crate::floats;
use crate::infer::expect_dims;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "ImageScaler",
    versions: (1, 1),
    types: DType::is_float,
    build: ImageScaler::build,
}];

/// ImageScaler: `y[n, c, h, w] = scale · x[n, c, h, w] + bias[c]`, floats, computed in double
/// precision and rounded once.
///
/// Source: ONNX operator set, ImageScaler-1, an experimental operator, removed in version 10.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageScaler {
    /// The factor.
    pub scale: f32,
    /// What is added to each channel.
    pub bias: Vec<f32>,
}

impl ImageScaler {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let name = "bias";
        let bias = spec.floats(name)?.ok_or(OpError::MissingAttribute { name })?.to_vec();
        Ok(Arc::new(Self { scale: spec.float("scale")?.unwrap_or(1.0), bias }))
    }
}

impl Operator for ImageScaler {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let facts = like_first(inputs, DType::is_float)?;
        let channels = Dim::Known(self.bias.len());
        expect_dims(inputs, 0, &[Dim::Unknown, channels, Dim::Unknown, Dim::Unknown])?;
        Ok(facts)
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let &[_, c, h, w] = x.shape() else {
            return Err(OpError::InputRank { index: 0, expected: "4", found: x.shape().len() });
        };
        if c != self.bias.len() {
            let (left, right) = (x.shape().to_vec(), vec![self.bias.len()]);
            return Err(OpError::Shapes { what: "channels and bias", left, right });
        }
        let mut y = floats::read(x)?;
        let size = h.checked_mul(w).ok_or(OpError::TooLarge)?.max(1);
        for (channel, &bias) in y.chunks_exact_mut(size).zip(self.bias.iter().cycle()) {
            channel.iter_mut().for_each(|y| *y = *y * f64::from(self.scale) + f64::from(bias));
        }
        floats::write(outputs, 0, x.dtype(), x.shape(), &y)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, tensor};

    #[test]
    fn each_channel_has_a_bias() {
        let case = |bias: &[f32]| {
            Case::new("ImageScaler", 1)
                .attr("scale", Attr::Float(2.0))
                .attr("bias", Attr::Floats(bias.to_vec()))
        };
        let x = tensor(&[2, 2, 1, 1], &[0_f32, 1.0, 2.0, 3.0]);
        let y = tensor(&[2, 2, 1, 1], &[1_f32, 1.0, 5.0, 5.0]);
        assert_eq!(case(&[1.0, -1.0]).tensor(std::slice::from_ref(&x)), Ok(y));
        assert!(case(&[1.0]).tensor(std::slice::from_ref(&x)).is_err());
        assert!(Case::new("ImageScaler", 1).tensor(&[x]).is_err());
        assert!(case(&[1.0]).tensor(&[tensor(&[1, 1, 1], &[1_f32])]).is_err());
        let none = tensor(&[0, 1, 2, 0], &[0_f64; 0]);
        assert_eq!(case(&[1.0]).tensor(std::slice::from_ref(&none)), Ok(none));
    }
}
