//! Clip: values limited to a range.

use std::sync::Arc;

use ort_graph::{Behaviour, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Element, Inputs, Output, with_dtype};

use crate::arithmetic::Arithmetic;
use crate::elementwise::{dtype_of, ignore_consumed_inputs, like_first, map, only, unsupported};
use crate::infer::folded;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "Clip",
    versions: (1, 13),
    types: DType::is_number,
    build: Clip::build,
}];

/// Clip: `y = min(max, max(min, x))`; any number type. From version 11 the bounds are the optional
/// inputs 1 and 2, each one element of the type of `x`; before, they are attributes. NaN gives NaN.
/// Can run in place of `x`.
///
/// Source: ONNX operator set, Clip-13. From version 11 on an absent bound is infinite, as in the defining function;
/// ONNX Runtime takes the largest finite value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clip {
    /// Bounds known beforehand.
    Attributes {
        /// The lower.
        min: f32,
        /// The upper.
        max: f32,
    },
    /// Bounds in inputs 1 and 2.
    Inputs,
}

impl Clip {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        if spec.since_version >= 11 {
            return Ok(Arc::new(Clip::Inputs));
        }
        ignore_consumed_inputs(spec);
        // Version 6 gives finite defaults, version 1 none.
        let largest = if spec.since_version < 6 { f32::INFINITY } else { f32::MAX };
        let min = spec.float("min")?.unwrap_or(-largest);
        let max = spec.float("max")?.unwrap_or(largest);
        Ok(Arc::new(Clip::Attributes { min, max }))
    }

    /// The bound in input `index`, or from its attribute.
    fn bound<T: Arithmetic>(self, index: usize, inputs: Inputs<'_>) -> Result<Option<T>, OpError> {
        match self {
            Clip::Attributes { min, max } => {
                Ok(Some(T::from_f64(f64::from(if index == 1 { min } else { max }))))
            }
            Clip::Inputs => only_element(index, inputs),
        }
    }
}

impl Operator for Clip {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let facts = like_first(inputs, DType::is_number)?;
        let dtype = inputs.dtype(0, DType::is_number)?;
        for index in 1..=2 {
            inputs.expect_dtype(index, dtype)?;
        }
        Ok(folded(self, inputs, facts))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let output = only(outputs)?;
        let dtype = dtype_of(0, inputs, output)?;
        with_dtype!(dtype, number,
            T => match (self.bound::<T>(1, inputs)?, self.bound::<T>(2, inputs)?) {
                (Some(min), Some(max)) => {
                    map(inputs, output, &|x: T| x.larger(min).smaller(max))
                }
                (Some(min), None) => map(inputs, output, &|x: T| x.larger(min)),
                (None, Some(max)) => map(inputs, output, &|x: T| x.smaller(max)),
                (None, None) => map(inputs, output, &|x: T| x),
            },
            else => Err(unsupported(0, dtype)))
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { in_place: &[(0, 0)], ..Behaviour::default() }
    }
}

/// The element of input `index`, if present; more or less than one is an error.
fn only_element<T: Element>(index: usize, inputs: Inputs<'_>) -> Result<Option<T>, OpError> {
    let Some(tensor) = inputs.optional_tensor(index)? else { return Ok(None) };
    match tensor.as_slice::<T>()? {
        [bound] => Ok(Some(*bound)),
        _ => Err(OpError::InputValue { index, what: "a bound is not one element" }),
    }
}

#[cfg(test)]
mod tests {
    use crate::case::{Case, tensor};
    use ort_graph::Attr;
    use ort_tensor::{Tensor, f16};

    #[test]
    fn bounds_come_from_inputs_or_attributes() {
        let x = || tensor(&[4], &[-5.0_f32, 0.5, 5.0, f32::INFINITY]);
        let (min, max) = (|| Some(Tensor::scalar(-1.0_f32)), || Some(Tensor::scalar(1.0_f32)));
        let cases = [
            (vec![Some(x()), min(), max()], [-1.0, 0.5, 1.0, 1.0]),
            (vec![Some(x()), None, max()], [-5.0, 0.5, 1.0, 1.0]),
            (vec![Some(x()), min()], [-1.0, 0.5, 5.0, f32::INFINITY]),
            (vec![Some(x()), max(), min()], [-1.0; 4]),
            (vec![Some(x())], [-5.0, 0.5, 5.0, f32::INFINITY]),
        ];
        for (inputs, y) in cases {
            let made = Case::new("Clip", 13).run_optional(&inputs).unwrap();
            assert_eq!(made[0].as_tensor(), Ok(&tensor(&[4], &y)));
        }
        let old = Case::new("Clip", 6).attr("max", Attr::Float(1.0));
        assert_eq!(old.tensor(&[x()]), Ok(tensor(&[4], &[-5.0_f32, 0.5, 1.0, 1.0])));
    }

    #[test]
    fn integers_and_half_floats_are_clipped_too() {
        let (min, max) = (Tensor::scalar(i64::MIN), Tensor::scalar(i64::MAX - 1));
        let y = Case::new("Clip", 12).tensor(&[tensor(&[1], &[i64::MAX]), min, max]);
        assert_eq!(y, Ok(tensor(&[1], &[i64::MAX - 1])));
        let y = Case::new("Clip", 6).tensor(&[Tensor::scalar(f16::INFINITY)]);
        assert_eq!(y, Ok(Tensor::scalar(f16::INFINITY)));
        let two = tensor(&[2], &[0_u8, 1]);
        assert!(Case::new("Clip", 12).tensor(&[Tensor::scalar(1_u8), two]).is_err());
    }
}
