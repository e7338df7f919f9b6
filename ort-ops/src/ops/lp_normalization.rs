//! LpNormalization: `y = x / ‖x‖ₚ` along one axis.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, TensorError, by_pieces, with_dtype};

use crate::infer::{float_along, normalize_axis};
use crate::lanes::Lanes;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "LpNormalization",
    versions: (1, 22),
    types: DType::is_float,
    build: LpNormalization::build,
}];

/// LpNormalization of floats, computed in f64 and rounded once; a lane of norm 0 gives zeros.
///
/// Source: ONNX operator set, LpNormalization-22.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LpNormalization {
    /// The axis, negative from the back.
    pub axis: i64,
    /// Whether the norm is `Σ |x|`; else it is `√Σ x²`.
    pub is_l1: bool,
}

impl LpNormalization {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let is_l1 = match spec.int("p")?.unwrap_or(2) {
            1 => true,
            2 => false,
            p => return Err(OpError::AttributeValue { name: "p", found: p.to_string() }),
        };
        Ok(Arc::new(Self { axis: spec.int("axis")?.unwrap_or(-1), is_l1 }))
    }
}

impl Operator for LpNormalization {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        Ok(vec![float_along(inputs, self.axis)?])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let lanes = Lanes::along(x.shape(), normalize_axis(self.axis, x.shape().len())?);
        let y = outputs[0].tensor(x.dtype(), x.shape())?;
        let f = if self.is_l1 { l1 } else { l2 };
        with_dtype!(x.dtype(), float, T => lanes.map::<T>(x.as_slice()?, y.into_slice()?, f)?,
            else => return Err(OpError::Unsupported { what: "a norm of other types than floats" }));
        Ok(())
    }
}

fn l1(lane: &mut [f64]) -> Result<(), TensorError> {
    let norm = sum(lane, f64::abs)?;
    divide(lane, norm)
}

fn l2(lane: &mut [f64]) -> Result<(), TensorError> {
    let norm = sum(lane, |x| x * x)?.sqrt();
    divide(lane, norm)
}

fn sum(lane: &mut [f64], f: impl Fn(f64) -> f64) -> Result<f64, TensorError> {
    let mut sum = 0.0;
    by_pieces(lane, |_, piece| sum = piece.iter().fold(sum, |sum, &x| sum + f(x)))?;
    Ok(sum)
}

fn divide(lane: &mut [f64], norm: f64) -> Result<(), TensorError> {
    let divided = |x: f64| if norm == 0.0 { 0.0 } else { x / norm };
    by_pieces(lane, |_, piece| piece.iter_mut().for_each(|x| *x = divided(*x)))
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    #[test]
    fn lanes_are_divided_by_their_norm_unless_it_is_0() {
        let x = tensor(&[2, 2], &[3_f32, -4.0, 0.0, 0.0]);
        let cases: [(i64, i64, [f32; 4]); 3] = [
            (2, -1, [0.6, -0.8, 0.0, 0.0]),
            (1, 1, [3.0 / 7.0, -4.0 / 7.0, 0.0, 0.0]),
            (1, 0, [1.0, -1.0, 0.0, 0.0]),
        ];
        for (p, axis, expected) in cases {
            let case = Case::new("LpNormalization", 22).attr("p", Attr::Int(p));
            let y = case.attr("axis", Attr::Int(axis)).tensor(std::slice::from_ref(&x));
            assert_eq!(y, Ok(tensor(&[2, 2], &expected)), "p {p} axis {axis}");
        }
    }

    #[test]
    fn other_norms_and_scalars_are_refused() {
        let case = || Case::new("LpNormalization", 1);
        let x = || tensor::<f64>(&[0], &[]);
        assert_eq!(case().tensor(&[x()]), Ok(x()));
        assert!(case().attr("p", Attr::Int(3)).tensor(&[x()]).is_err());
        assert!(case().tensor(&[Tensor::scalar(1_f64)]).is_err());
    }
}
