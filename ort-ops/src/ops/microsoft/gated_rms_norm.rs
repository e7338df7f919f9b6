//! GatedRMSNorm: an RMS norm whose result is multiplied by a gate.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output};

use crate::floats;
use crate::ops::layer_normalization::standardize_rows;
use crate::ops::unary::sigmoid;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "GatedRMSNorm",
    versions: (1, 1),
    types: DType::is_float,
    build: GatedRmsNorm::build,
}];

/// GatedRMSNorm: `y = x / √(mean(x²) + epsilon) · scale · f(gate)` of `x` and `gate: […, H·C]`, each run of C
/// separately, and `scale: [C]`; `f` is the sigmoid, or its product with the gate.
///
/// Source: com.microsoft, GatedRMSNorm-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GatedRmsNorm {
    /// What is added to the mean of squares.
    pub epsilon: f32,
    /// Whether the gate is multiplied with its sigmoid.
    pub is_silu: bool,
}

impl GatedRmsNorm {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let name = "activation";
        let is_silu = match spec.string(name)?.unwrap_or("silu") {
            "silu" | "swish" => true,
            "sigmoid" => false,
            other => return Err(OpError::AttributeValue { name, found: other.into() }),
        };
        Ok(Arc::new(Self { epsilon: spec.float("epsilon")?.unwrap_or(1e-5), is_silu }))
    }
}

impl Operator for GatedRmsNorm {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        inputs.expect_dtype(1, dtype)?;
        inputs.expect_dtype(2, dtype)?;
        Ok(vec![inputs.fact(0)?.ty.clone().into()])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (x, scale, gate) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?);
        let size = scale.len();
        let is_whole = x.shape().last().is_some_and(|n| n.checked_rem(size).unwrap_or(*n) == 0);
        if !is_whole || x.shape() != gate.shape() {
            let (left, right) = (x.shape().to_vec(), scale.shape().to_vec());
            return Err(OpError::Shapes { what: "the norm of runs", left, right });
        }
        let mut y = floats::read(x)?;
        standardize_rows(&mut y, size, self.epsilon, false)?;
        floats::with_period(&mut y, &floats::read(scale)?, |y, scale| *y *= scale)?;
        for (y, gate) in y.iter_mut().zip(floats::read(gate)?) {
            *y *= sigmoid(gate) * if self.is_silu { gate } else { 1.0 };
        }
        floats::write(outputs, 0, x.dtype(), x.shape(), &y)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    fn run(activation: &str, scale: &[f32]) -> Result<Tensor, String> {
        let x = tensor(&[1, 4], &[7_f32, -1.0, 0.0, 0.0]);
        let gate = tensor(&[1, 4], &[0_f32, 0.0, 1000.0, 1000.0]);
        let case = Case::new("GatedRMSNorm", 1).domain("com.microsoft");
        let case = case.attr("epsilon", Attr::Float(0.0));
        let case = case.attr("activation", Attr::String(activation.into()));
        case.tensor(&[x, tensor(&[scale.len()], scale), gate])
    }

    #[test]
    fn runs_are_normed_and_pass_their_gate() {
        let y = run("sigmoid", &[10.0, 10.0, 1.0, 1.0]).unwrap();
        // The mean of squares is 12.5, so that 7 is 1.98 deviations; sigmoid(0) is a half.
        assert!((y.as_slice::<f32>().unwrap()[0] - 9.899_495).abs() <= f32::EPSILON * 8.0);
        let y = run("swish", &[1.0, 1.0, 1.0, 1.0]).unwrap();
        assert_eq!(y.as_slice::<f32>().unwrap().iter().map(|x| x.abs()).sum::<f32>(), 0.0);
        assert!(run("relu", &[1.0]).is_err() && run("silu", &[1.0; 3]).is_err());
    }
}
