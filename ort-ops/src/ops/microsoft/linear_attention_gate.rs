//! LinearAttentionGate: decay and update rate of a gated linear attention.

use std::sync::Arc;

use ort_graph::{Fact, Facts, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output};

use crate::activation::Activation;
use crate::floats;
use crate::infer::expect_dims;
use crate::ops::unary::sigmoid;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "LinearAttentionGate",
    versions: (1, 1),
    types: DType::is_float,
    build: |_| Ok(Arc::new(LinearAttentionGate)),
}];

/// LinearAttentionGate: `decay = scale · ln(1 + exp(a + bias))` and `beta = sigmoid(b)` of `a` and, if present, `b:
/// [B, T, H]`; `bias` and `scale: [H]` are float32.
///
/// Source: com.microsoft, LinearAttentionGate-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearAttentionGate;

impl Operator for LinearAttentionGate {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        [(1, DType::F32), (2, DType::F32), (3, dtype)]
            .into_iter()
            .try_for_each(|(i, dtype)| inputs.expect_dtype(i, dtype))?;
        let a = inputs.fact(0)?;
        if let Some(heads) = a.dims().and_then(<[_]>::last) {
            expect_dims(inputs, 1, std::slice::from_ref(heads))?;
            expect_dims(inputs, 2, std::slice::from_ref(heads))?;
        }
        let beta = inputs.get(3).unwrap_or(a);
        Ok(vec![a.ty.clone().into(), beta.ty.clone().into()])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let a = inputs.tensor(0)?;
        let heads = a.shape().last().copied().unwrap_or(0);
        let mut decay = floats::read(a)?;
        let bias = floats::read_parameter(inputs, 1, heads)?;
        floats::with_period(&mut decay, &bias, |x, bias| {
            *x = Activation::Softplus.apply(*x + bias);
        })?;
        let scale = floats::read_parameter(inputs, 2, heads)?;
        floats::with_period(&mut decay, &scale, |x, scale| *x *= scale)?;
        floats::write(outputs, 0, a.dtype(), a.shape(), &decay)?;
        if !outputs.get(1).is_some_and(Output::is_wanted) {
            return Ok(());
        }
        let b = inputs.tensor(3)?;
        let mut beta = floats::read(b)?;
        beta.iter_mut().for_each(|x| *x = sigmoid(*x));
        floats::write(outputs, 1, b.dtype(), b.shape(), &beta)
    }
}

#[cfg(test)]
mod tests {
    use crate::case::{Case, tensor};

    #[test]
    fn decay_is_scaled_and_beta_needs_b() {
        let case = |n| Case::new("LinearAttentionGate", 1).domain("com.microsoft").outputs(n);
        let a = tensor(&[1, 1, 2], &[998_f32, -1000.0]);
        let inputs = [a.clone(), tensor(&[2], &[2_f32, 0.0]), tensor(&[2], &[-0.5_f32, 1.0])];
        let decay = tensor(&[1, 1, 2], &[-500_f32, 0.0]);
        assert_eq!(case(1).tensor(&inputs), Ok(decay.clone()));
        assert!(case(2).run(&inputs).is_err());
        let all = [&inputs[..], &[tensor(&[1, 1, 2], &[0_f32, 1000.0])]].concat();
        let found = case(2).run(&all).unwrap();
        assert_eq!(found[0].as_tensor(), Ok(&decay));
        assert_eq!(found[1].as_tensor(), Ok(&tensor(&[1, 1, 2], &[0.5_f32, 1.0])));
    }
}
