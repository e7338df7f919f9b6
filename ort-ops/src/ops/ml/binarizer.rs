//! Binarizer: `y[i] = 1 if x[i] > threshold else 0`.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{Inputs, Output, bf16, f16, with_dtype};

use crate::elementwise::{dtype_of, like_first, map_f64, only, unsupported};
use crate::features::is_feature;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "ai.onnx.ml",
    name: "Binarizer",
    versions: (1, 1),
    types: is_feature,
    build: Binarizer::build,
}];

/// `y[i] = 1 if x[i] > threshold else 0`, in the type of `x`; NaN gives 0.
///
/// Source: ONNX ML operator set, `Binarizer-1`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Binarizer {
    /// The largest value that gives 0.
    pub threshold: f32,
}

impl Binarizer {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Self { threshold: spec.float("threshold")?.unwrap_or(0.0) }))
    }
}

impl Operator for Binarizer {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        like_first(inputs, is_feature)
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let output = only(outputs)?;
        let dtype = dtype_of(0, inputs, output)?;
        let threshold = f64::from(self.threshold);
        let binarize = |x: f64| f64::from(u8::from(x > threshold));
        with_dtype!(dtype, [f32, f64, f16, bf16, i32, i64], T => {
            map_f64::<T>(inputs, output, &binarize)
        }, else => Err(unsupported(0, dtype)))
    }

    fn behaviour(&self) -> ort_graph::Behaviour {
        ort_graph::Behaviour { in_place: &[(0, 0)], ..Default::default() }
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, tensor};

    #[test]
    fn only_what_is_above_the_threshold_is_one() {
        let binarizer = || Case::new("Binarizer", 1).domain("ai.onnx.ml");
        let x = tensor(&[5], &[-1.0_f32, 0.0, -0.0, 0.5, f32::NAN]);
        assert_eq!(binarizer().tensor(&[x]), Ok(tensor(&[5], &[0.0_f32, 0.0, 0.0, 1.0, 0.0])));
        let case = binarizer().attr("threshold", Attr::Float(2.5));
        let x = tensor(&[1, 3], &[2_i64, 3, i64::MAX]);
        assert_eq!(case.tensor(&[x]), Ok(tensor(&[1, 3], &[0_i64, 1, 1])));
        assert_eq!(case.tensor(&[tensor(&[], &[3_f64])]), Ok(tensor(&[], &[1_f64])));
        let error = case.tensor(&[tensor(&[], &[3_u8])]).unwrap_err();
        assert_eq!(error, "input 0 has the unsupported type uint8[]");
    }
}
