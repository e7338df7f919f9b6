//! SwiGLU: one operand times the Swish of the other.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Behaviour, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output, Shape, with_dtype};

use super::unary::sigmoid;
use crate::broadcast::combine;
use crate::elementwise::{only, unsupported};
use crate::infer::{expect_dims, tensor_fact};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "SwiGLU",
    versions: (28, 28),
    types: DType::is_float,
    build: SwiGlu::build,
}];

/// SwiGLU: `y = a · sigmoid(α·a) · b`. `a`, the gate, and `b`: floats of one shape, without broadcasting. Computed in
/// double precision and rounded once. Can run in place of either.
///
/// Source: ONNX operator set, SwiGLU-28.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SwiGlu {
    /// `α`
    pub alpha: f32,
}

impl SwiGlu {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Self { alpha: spec.float("alpha")?.unwrap_or(1.0) }))
    }
}

impl Operator for SwiGlu {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        let (a, b) = (inputs.fact(0)?.dims(), inputs.fact(1)?.dims());
        inputs.expect_dtype(1, dtype)?;
        let dims = match (a, b) {
            (Some(a), Some(b)) => {
                expect_dims(inputs, 1, a)?;
                a.iter().zip(b).map(|(a, b)| a.unify(b)).collect()
            }
            (a, b) => a.or(b).map(Into::into),
        };
        Ok(vec![tensor_fact(dtype, dims)])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let output = only(outputs)?;
        let (index, shape) = match output.in_place_tensor() {
            Some((index, view)) => (index, Shape::from_slice(view.shape())),
            None => (0, Shape::from_slice(inputs.tensor(0)?.shape())),
        };
        let other = inputs.tensor(usize::from(index == 0))?;
        if other.shape() != shape.as_slice() {
            let (left, right) = (shape.to_vec(), other.shape().to_vec());
            return Err(OpError::Shapes { what: "a gate and its operand", left, right });
        }
        let dtype = other.dtype();
        let alpha = f64::from(self.alpha);
        with_dtype!(dtype, float, T => combine::<T>(inputs, output, &|a, b| {
            let (a, b) = (a.to_f64(), b.to_f64());
            T::from_f64(a * sigmoid(alpha * a) * b)
        }), else => Err(unsupported(0, dtype)))
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { in_place: &[(0, 0), (1, 0)], ..Behaviour::default() }
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, bf16, f16};

    use crate::case::{Case, tensor};

    fn run(a: Tensor, b: Tensor) -> Result<Tensor, String> {
        Case::new("SwiGLU", 28).tensor(&[a, b])
    }

    #[test]
    fn the_gate_opens_with_its_swish() {
        let a = tensor(&[5], &[0_f64, 1.0, -1.0, 800.0, -800.0]);
        let b = tensor(&[5], &[7_f64, 2.0, 2.0, -1.0, -1.0]);
        for alpha in [1.0, 2.5] {
            let case = Case::new("SwiGLU", 28).attr("alpha", Attr::Float(alpha));
            let y = case.tensor(&[a.clone(), b.clone()]).unwrap();
            let e = f64::from(alpha).exp();
            let expected = [0.0, 2.0 * e / (1.0 + e), -2.0 / (1.0 + e), -800.0, 0.0];
            for (y, expected) in y.as_slice::<f64>().unwrap().iter().zip(expected) {
                // Half an ULP for each of a few operations, exp within one.
                assert!((y - expected).abs() <= 4.0 * f64::EPSILON * expected.abs(), "{y}");
            }
        }
        let nan = tensor(&[2], &[f32::NAN, 1.0]);
        let y = run(nan.clone(), tensor(&[2], &[0_f32, f32::NAN])).unwrap();
        assert!(y.as_slice::<f32>().unwrap().iter().all(|y| y.is_nan()));
    }

    #[test]
    fn every_float_type_passes_and_nothing_is_broadcast() {
        let half = [f16::from_f32(-100.0)];
        assert!(run(tensor(&[], &half), tensor(&[], &half)).is_ok());
        let y = run(tensor(&[1], &[bf16::from_f32(100.0)]), tensor(&[1], &[bf16::ONE]));
        assert_eq!(y, Ok(tensor(&[1], &[bf16::from_f32(100.0)])));
        let empty = tensor(&[0, 2], &[0_f32; 0]);
        assert_eq!(run(empty.clone(), empty.clone()), Ok(empty));
        let (one, two) = (tensor(&[1], &[1_f32]), tensor(&[2], &[1_f32, 2.0]));
        assert!(run(one.clone(), two).is_err() && run(one.clone(), Tensor::scalar(1_f32)).is_err());
        assert!(run(one, tensor(&[1], &[1_f64])).is_err());
        assert!(run(tensor(&[1], &[1_i32]), tensor(&[1], &[1_i32])).is_err());
    }
}
