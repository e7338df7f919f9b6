//! Mod: the remainder of a division, with the sign of either operand.

use std::sync::Arc;

use ort_graph::{Behaviour, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, with_dtype};

use crate::arithmetic::Arithmetic;
use crate::broadcast::combine;
use crate::elementwise::{dtype_of, only, unsupported};
use crate::infer::folded;
use crate::ops::binary;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "Mod",
    versions: (10, 28),
    types: DType::is_number,
    build: Mod::build,
}];

/// Mod: `y = a − ⌊a/b⌋·b`, or `a − trunc(a/b)·b` with `fmod`; broadcast, one type of number. Can
/// run in place of either operand.
///
/// An integer divisor of zero is an error; a float one gives NaN, as does an infinite `a`.
///
/// Source: ONNX operator set, Mod-28, which allows floats without `fmod`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mod {
    /// Whether the result has the sign of `a`, not of `b`.
    pub fmod: bool,
}

impl Mod {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Self { fmod: spec.flag("fmod", false)? }))
    }
}

impl Operator for Mod {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        Ok(folded(self, inputs, binary::infer(inputs, DType::is_number)?))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let output = only(outputs)?;
        binary::check_divisor(inputs, output)?;
        let dtype = dtype_of(0, inputs, output)?;
        with_dtype!(dtype, number,
            T => if self.fmod {
                combine::<T>(inputs, output, &|&a, &b| a.truncated_rem(b))
            } else {
                combine::<T>(inputs, output, &|&a, &b| a.floored_rem(b))
            },
            else => Err(unsupported(0, dtype)))
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { in_place: &[(0, 0), (1, 0)], ..Behaviour::default() }
    }
}

#[cfg(test)]
mod tests {
    use crate::case::{Case, tensor};
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    #[test]
    fn the_sign_is_that_of_the_divisor_or_of_the_dividend() {
        let (a, b) = (tensor(&[4], &[-4_i8, 7, 5, 4]), tensor(&[4], &[2_i8, -3, 8, -3]));
        let fmod = || Case::new("Mod", 13).attr("fmod", Attr::Int(1));
        let y = tensor(&[4], &[0_i8, -2, 5, -2]);
        assert_eq!(Case::new("Mod", 13).tensor(&[a.clone(), b.clone()]), Ok(y));
        assert_eq!(fmod().tensor(&[a, b]), Ok(tensor(&[4], &[0_i8, 1, 5, 1])));
        let (a, b) = (tensor(&[2], &[-4.3_f32, 7.25]), Tensor::scalar(2.0_f32));
        assert_eq!(
            fmod().tensor(&[a.clone(), b.clone()]),
            Ok(tensor(&[2], &[-4.3_f32 % 2.0, 1.25]))
        );
        let y = tensor(&[2], &[-4.3_f32 % 2.0 + 2.0, 1.25]);
        assert_eq!(Case::new("Mod", 28).tensor(&[a, b]), Ok(y));
    }

    #[test]
    fn an_integer_divisor_of_zero_is_an_error() {
        let error = Case::new("Mod", 13).tensor(&[Tensor::scalar(1_u64), Tensor::scalar(0_u64)]);
        assert_eq!(error.unwrap_err(), "input 1: division by zero");
    }
}
