//! PRelu: a leaky rectifier with a slope per channel or element.

use std::sync::Arc;

use ort_graph::{Behaviour, Fact, Facts, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Shape, bf16, f16, with_dtype};

use crate::arithmetic::Arithmetic;
use crate::broadcast::{Operand, update, zip};
use crate::elementwise::{dtype_of, only, unsupported};
use crate::infer::broadcast_facts;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "PRelu",
    versions: (7, 16),
    types: is_allowed,
    build: |_| Ok(Arc::new(PRelu)),
}];

/// PRelu: `y = x < 0 ? slope·x : x`; `slope` broadcasts to the shape of `x`. Floats, or integers
/// of 32 and 64 bits, which wrap. Can run in place of `x`.
///
/// Source: ONNX operator set, PRelu-16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PRelu;

impl Operator for PRelu {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, is_allowed)?;
        inputs.fact(1)?;
        inputs.expect_dtype(1, dtype)?;
        let fact = broadcast_facts(inputs, dtype)?;
        match (inputs.fact(0)?.shape(), fact.shape()) {
            (Some(x), Some(y)) if x != y => Err(OpError::Shapes {
                what: "the slope, broadcast to the input",
                left: x.to_vec(),
                right: y.to_vec(),
            }),
            _ => Ok(vec![Fact { constant: None, ..inputs.fact(0)?.clone() }]),
        }
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let output = only(outputs)?;
        let (dtype, slope) = (dtype_of(0, inputs, output)?, inputs.tensor(1)?);
        with_dtype!(dtype, [f32, f64, f16, bf16, i32, i64, u32, u64],
            T => {
                let slope = Operand::<T>::new(slope)?;
                let leak = |&x: &T, &slope: &T| {
                    if x < T::default() { Arithmetic::mul(x, slope) } else { x }
                };
                if let Some((0, view)) = output.in_place_tensor() {
                    return update((view.shape(), view.into_slice()?), slope, &leak);
                }
                let x = Operand::new(inputs.tensor(0)?)?;
                let shape = Shape::from_slice(x.shape);
                zip((&shape, output.tensor(dtype, &shape)?.into_slice()?), x, slope, &leak)
            },
            else => Err(unsupported(0, dtype)))
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { in_place: &[(0, 0)], ..Behaviour::default() }
    }
}

const fn is_allowed(dtype: DType) -> bool {
    dtype.is_float() || matches!(dtype, DType::I32 | DType::I64 | DType::U32 | DType::U64)
}

#[cfg(test)]
mod tests {
    use crate::case::{Case, tensor};

    #[test]
    fn the_slope_stretches_to_the_input_but_not_the_reverse() {
        let x = tensor(&[2, 2, 1], &[-1.0_f32, 2.0, -3.0, f32::NEG_INFINITY]);
        let slope = tensor(&[2, 1], &[0.5_f32, 0.25]);
        let y = tensor(&[2, 2, 1], &[-0.5_f32, 2.0, -1.5, f32::NEG_INFINITY]);
        assert_eq!(Case::new("PRelu", 16).tensor(&[x.clone(), slope.clone()]), Ok(y));
        assert!(Case::new("PRelu", 16).tensor(&[slope, x]).is_err());
        let y = Case::new("PRelu", 9).tensor(&[tensor(&[2], &[-2_i64, 2]), tensor(&[1], &[3_i64])]);
        assert_eq!(y, Ok(tensor(&[2], &[-6_i64, 2])));
    }
}
