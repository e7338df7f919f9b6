//! ScaledSiLU: `z · sigmoid(z)` of `z = scale · x`.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output, with_dtype};

use crate::floats;
use crate::ops::unary::sigmoid;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "ScaledSiLU",
    versions: (1, 1),
    types: DType::is_float,
    build: ScaledSilu::build,
}];

/// ScaledSiLU: `z = scale · x`, `s = sigmoid(z)`, `y = z · s`, each rounded to the type of `x`; the
/// scale is the second input, of any float type, or `alpha`.
///
/// Source: com.microsoft, ScaledSiLU-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaledSilu {
    /// The scale, if it is not an input.
    pub alpha: f32,
}

impl ScaledSilu {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Self { alpha: spec.float("alpha")?.unwrap_or(1.0) }))
    }
}

impl Operator for ScaledSilu {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, DType::is_float)?;
        if inputs.get(1).is_some() {
            inputs.dtype(1, DType::is_float)?;
        }
        Ok(vec![inputs.fact(0)?.ty.clone().into()])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let scale = match inputs.get(1) {
            Some(_) => floats::read_parameter(inputs, 1, 1)?[0],
            None => self.alpha.into(),
        };
        let y = outputs[0].tensor(x.dtype(), x.shape())?;
        with_dtype!(x.dtype(), float, T => {
            let rounded = |x: f64| Number::to_f64(<T as Number>::from_f64(x));
            for (y, &x) in y.into_slice::<T>()?.iter_mut().zip(x.as_slice::<T>()?) {
                let z = rounded(Number::to_f64(x) * scale);
                *y = T::from_f64(z * rounded(sigmoid(z)));
            }
            Ok(())
        }, else => Err(OpError::Unsupported { what: "a sigmoid of other types than floats" }))
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, f16};

    use crate::case::{Case, tensor};

    #[test]
    fn the_scale_is_an_attribute_or_an_input() {
        let case = || Case::new("ScaledSiLU", 1).domain("com.microsoft");
        let x = tensor(&[3], &[0_f32, 100.0, -200.0]);
        let y = |scale: f32| tensor(&[3], &[0_f32, 100.0 * scale, 0.0]);
        let same = |found: Tensor, expected: Tensor| {
            // At −400 and below the sigmoid is 0, but the product has a sign.
            let found = found.as_slice::<f32>().unwrap().to_vec();
            assert!(found.iter().zip(expected.as_slice::<f32>().unwrap()).all(|(a, b)| a == b));
        };
        same(case().tensor(std::slice::from_ref(&x)).unwrap(), y(1.0));
        same(
            case().attr("alpha", Attr::Float(2.0)).tensor(std::slice::from_ref(&x)).unwrap(),
            y(2.0),
        );
        let scale = tensor(&[], &[f16::from_f32(3.0)]);
        same(case().tensor(&[x, scale]).unwrap(), y(3.0));
    }
}
