//! Imputer: replaces missing features.

// collects are bounded: as long as the file's lists

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Element, Inputs, Number, Output, bf16, f16, with_dtype};

use crate::elementwise::{dtype_of, like_first, only, unsupported};
use crate::features::{expect_period, is_feature};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "ai.onnx.ml",
    name: "Imputer",
    versions: (1, 1),
    types: is_feature,
    build: Imputer::build,
}];

/// `y[…, f] = imputed[f] if x[…, f] = replaced else x[…, f]`; NaN equals NaN here.
///
/// `x`: `[…, F]`; there are `F` imputed values or one, floats for floats and integers for integers.
///
/// Source: ONNX ML operator set, `Imputer-1`.
#[derive(Clone, Debug, PartialEq)]
pub struct Imputer {
    /// The replaced value and the imputed values, for floats.
    pub floats: (f32, Vec<f32>),
    /// The same for integers.
    pub ints: (i64, Vec<i64>),
}

impl Imputer {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let floats = spec.floats("imputed_value_floats")?.unwrap_or_default().to_vec();
        let ints = spec.ints("imputed_value_int64s")?.unwrap_or_default().to_vec();
        Ok(Arc::new(Self {
            floats: (spec.float("replaced_value_float")?.unwrap_or(0.0), floats),
            ints: (spec.int("replaced_value_int64")?.unwrap_or(0), ints),
        }))
    }

    fn impute_floats<T: Number>(
        &self,
        inputs: Inputs<'_>,
        output: &mut Output<'_>,
    ) -> Result<(), OpError> {
        let (replaced, imputed) = (f64::from(self.floats.0), &self.floats.1);
        let imputed: Vec<T> = imputed.iter().map(|&x| T::from_f64(f64::from(x))).collect();
        let is_missing = |x: T| {
            let x = x.to_f64();
            x == replaced || (x.is_nan() && replaced.is_nan())
        };
        impute("imputed_value_floats", &imputed, is_missing, inputs, output)
    }

    fn impute_ints<T: Element + TryFrom<i64> + Into<i64>>(
        &self,
        inputs: Inputs<'_>,
        output: &mut Output<'_>,
    ) -> Result<(), OpError> {
        let name = "imputed_value_int64s";
        let fit = |&x: &i64| {
            let wrong = |_| OpError::AttributeValue { name, found: x.to_string() };
            T::try_from(x).map_err(wrong)
        };
        let imputed = self.ints.1.iter().map(fit).collect::<Result<Vec<T>, _>>()?;
        impute(name, &imputed, |x: T| x.into() == self.ints.0, inputs, output)
    }
}

fn impute<T: Element>(
    name: &'static str,
    imputed: &[T],
    is_missing: impl Fn(T) -> bool,
    inputs: Inputs<'_>,
    output: &mut Output<'_>,
) -> Result<(), OpError> {
    let y = match output.in_place_tensor() {
        Some((0, view)) => view,
        _ => {
            let x = inputs.tensor(0)?;
            let mut y = output.tensor(x.dtype(), x.shape())?;
            y.reborrow().copy_from(x)?;
            y
        }
    };
    expect_period(name, imputed, y.shape())?;
    for row in y.into_slice::<T>()?.chunks_mut(imputed.len()) {
        for (y, &imputed) in row.iter_mut().zip(imputed) {
            if is_missing(*y) {
                *y = imputed;
            }
        }
    }
    Ok(())
}

impl Operator for Imputer {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        like_first(inputs, is_feature)
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let output = only(outputs)?;
        match dtype_of(0, inputs, output)? {
            DType::I32 => self.impute_ints::<i32>(inputs, output),
            DType::I64 => self.impute_ints::<i64>(inputs, output),
            dtype => with_dtype!(dtype, [f32, f64, f16, bf16], T => {
                self.impute_floats::<T>(inputs, output)
            }, else => Err(unsupported(0, dtype))),
        }
    }

    fn behaviour(&self) -> ort_graph::Behaviour {
        ort_graph::Behaviour { in_place: &[(0, 0)], ..Default::default() }
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, tensor};

    fn imputer() -> Case {
        Case::new("Imputer", 1).domain("ai.onnx.ml")
    }

    #[test]
    fn missing_floats_are_equal_to_the_replaced_value_or_nan_like_it() {
        let nan = f32::NAN;
        let case = |replaced: f32, imputed: &[f32]| {
            imputer()
                .attr("replaced_value_float", Attr::Float(replaced))
                .attr("imputed_value_floats", Attr::Floats(imputed.to_vec()))
        };
        let x = [tensor(&[2, 2], &[nan, 1.0, -1.0, nan])];
        assert_eq!(case(nan, &[5.0]).tensor(&x), Ok(tensor(&[2, 2], &[5.0, 1.0, -1.0, 5.0_f32])));
        let y = tensor(&[2, 2], &[5.0, 1.0, -1.0, 6.0_f32]);
        assert_eq!(case(nan, &[5.0, 6.0]).tensor(&x), Ok(y));
        let x = [tensor(&[3], &[-1.0_f64, 0.0, -0.0])];
        assert_eq!(case(0.0, &[5.0]).tensor(&x), Ok(tensor(&[3], &[-1.0_f64, 5.0, 5.0])));
        for imputed in [&[][..], &[1.0, 2.0]] {
            assert!(case(0.0, imputed).tensor(&x).is_err());
        }
    }

    #[test]
    fn missing_integers_are_equal_to_the_replaced_value() {
        let case = imputer()
            .attr("replaced_value_int64", Attr::Int(-1))
            .attr("imputed_value_int64s", Attr::Ints(vec![7, i64::MAX]));
        let x = [tensor(&[1, 2], &[-1_i64, -1])];
        assert_eq!(case.tensor(&x), Ok(tensor(&[1, 2], &[7_i64, i64::MAX])));
        let error = case.tensor(&[tensor(&[1, 2], &[-1_i32, -1])]).unwrap_err();
        assert!(error.starts_with("attribute `imputed_value_int64s`"), "{error}");
    }
}
