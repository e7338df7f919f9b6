//! Scaler: `y = (x - offset) · scale`, feature by feature.

// collects are bounded: as long as the file's lists

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output};

use crate::elementwise::shaped_like_first;
use crate::features::{expect_period, is_feature, numbers};
use crate::floats;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "ai.onnx.ml",
    name: "Scaler",
    versions: (1, 1),
    types: is_feature,
    build: Scaler::build,
}];

/// `y[…, f] = (x[…, f] - offset[f]) · scale[f]`, as float.
///
/// `x`: `[…, F]`; `offset` and `scale`: `F` values or one; by default 0 and 1.
///
/// Source: ONNX ML operator set, `Scaler-1`.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaler {
    /// The offsets, which are subtracted first.
    pub offset: Vec<f64>,
    /// The factors.
    pub scale: Vec<f64>,
}

impl Scaler {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let read = |name, default: &[f32]| -> Result<Vec<f64>, OpError> {
            let values = spec.floats(name)?.filter(|values| !values.is_empty());
            Ok(values.unwrap_or(default).iter().copied().map(f64::from).collect())
        };
        Ok(Arc::new(Self { offset: read("offset", &[0.0])?, scale: read("scale", &[1.0])? }))
    }
}

impl Operator for Scaler {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, is_feature)?;
        Ok(vec![shaped_like_first(inputs, DType::F32)?])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        expect_period("offset", &self.offset, x.shape())?;
        expect_period("scale", &self.scale, x.shape())?;
        let mut y = numbers(0, x)?;
        floats::with_period(&mut y, &self.offset, |x, offset| *x -= offset)?;
        floats::with_period(&mut y, &self.scale, |x, scale| *x *= scale)?;
        floats::write(outputs, 0, DType::F32, x.shape(), &y)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, tensor};

    #[test]
    fn each_feature_has_its_own_scale_or_all_have_one() {
        let scaler = |offset: &[f32], scale: &[f32]| {
            Case::new("Scaler", 1)
                .domain("ai.onnx.ml")
                .attr("offset", Attr::Floats(offset.to_vec()))
                .attr("scale", Attr::Floats(scale.to_vec()))
        };
        let x = [tensor(&[2, 2], &[1_i32, 2, 3, 4])];
        let cases = [
            (scaler(&[1.0, 2.0], &[2.0, 3.0]), [0.0_f32, 0.0, 4.0, 6.0]),
            (scaler(&[1.0], &[2.0, 3.0]), [0.0, 3.0, 4.0, 9.0]),
            (scaler(&[0.5], &[2.0]), [1.0, 3.0, 5.0, 7.0]),
            (scaler(&[], &[]), [1.0, 2.0, 3.0, 4.0]),
        ];
        for (case, y) in cases {
            assert_eq!(case.tensor(&x), Ok(tensor(&[2, 2], &y)));
        }
        let error = scaler(&[1.0; 3], &[]).tensor(&x).unwrap_err();
        assert_eq!(error, "attribute `offset` has the unsupported value 3 values for 2 features");
    }
}
