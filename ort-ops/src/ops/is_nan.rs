//! IsNaN and IsInf: what kind of float an element is.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{
    Bool, DType, F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, Inputs, Number, Output, with_dtype,
};

use crate::elementwise::{convert, only, shaped_like_first, unsupported};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "IsInf",
        versions: (10, 20),
        types: is_allowed,
        build: FloatClass::build_inf,
    },
    OpDef {
        domain: "",
        name: "IsNaN",
        versions: (9, 20),
        types: is_allowed,
        build: |_| Ok(Arc::new(FloatClass::NaN)),
    },
];

/// `y[i]`: bool, whether the float `x[i]` is of this class. `x` may be of an 8-bit type with a
/// sign.
///
/// Source: ONNX operator set, IsNaN-20 and IsInf-20.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatClass {
    /// Not a number.
    NaN,
    /// An infinity.
    Infinite {
        /// Whether −∞ counts.
        negative: bool,
        /// Whether +∞ counts.
        positive: bool,
    },
}

impl FloatClass {
    fn build_inf(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let negative = spec.flag("detect_negative", true)?;
        let positive = spec.flag("detect_positive", true)?;
        Ok(Arc::new(FloatClass::Infinite { negative, positive }))
    }

    /// Whether a number is of the class.
    #[inline]
    pub const fn contains(self, x: f64) -> bool {
        match self {
            FloatClass::NaN => x.is_nan(),
            FloatClass::Infinite { negative, positive } => {
                (negative && x == f64::NEG_INFINITY) || (positive && x == f64::INFINITY)
            }
        }
    }
}

fn is_allowed(dtype: DType) -> bool {
    use DType::{F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz};
    dtype.is_float() || matches!(dtype, F8E4M3Fn | F8E4M3Fnuz | F8E5M2 | F8E5M2Fnuz)
}

impl Operator for FloatClass {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, is_allowed)?;
        Ok(vec![shaped_like_first(inputs, DType::Bool)?])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (output, dtype) = (only(outputs)?, inputs.tensor(0)?.dtype());
        let class = *self;
        with_dtype!(dtype, float,
            T => convert(inputs, output, &|x: T| Bool::from(class.contains(Number::to_f64(x)))),
            else => with_dtype!(dtype, [F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz],
                T => convert(inputs, output, &|x: T| {
                    Bool::from(class.contains(f64::from(x.to_f32())))
                }),
                else => Err(unsupported(0, dtype))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Case, tensor};
    use ort_graph::Attr;
    use ort_tensor::bf16;

    #[test]
    fn each_class_is_found_where_it_is_asked_for() {
        let values = [0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        let inf = || Case::new("IsInf", 20);
        let cases = [
            (Case::new("IsNaN", 20), [false, true, false, false]),
            (inf(), [false, false, true, true]),
            (inf().attr("detect_negative", Attr::Int(0)), [false, false, true, false]),
            (inf().attr("detect_positive", Attr::Int(0)), [false, false, false, true]),
        ];
        for (case, expected) in cases {
            let expected = Ok(tensor(&[4], &expected.map(Bool::from)));
            assert_eq!(case.tensor(&[tensor(&[4], &values)]), expected);
            assert_eq!(case.tensor(&[tensor(&[4], &values.map(f64::from))]), expected);
            assert_eq!(case.tensor(&[tensor(&[4], &values.map(bf16::from_f32))]), expected);
            let small = values.map(|x| F8E5M2::from_f32(x, false));
            assert_eq!(case.tensor(&[tensor(&[4], &small)]), expected);
        }
    }

    #[test]
    fn integers_are_refused() {
        assert!(Case::new("IsNaN", 13).tensor(&[tensor(&[1], &[1_i32])]).is_err());
    }
}
