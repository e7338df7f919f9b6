//! BitShift: bits moved to the left or right.

use std::sync::Arc;

use ort_graph::{Behaviour, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, with_dtype};

use crate::broadcast::combine;
use crate::elementwise::{dtype_of, only, unsupported};
use crate::infer::folded;
use crate::ops::binary;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "BitShift",
    versions: (11, 28),
    types: DType::is_integer,
    build: BitShift::build,
}];

/// BitShift: `y = a · 2^b` or `⌊a / 2^b⌋`, without the bits that leave the type; broadcast, one
/// integer type. A negative `b`, or one of at least the width, shifts everything out: 0, or
/// −1 for a negative `a` to the right. Can run in place of either operand.
///
/// Source: ONNX operator set, BitShift-28.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitShift {
    /// Toward the higher bits.
    Left,
    /// Toward the lower bits.
    Right,
}

impl BitShift {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        const NAME: &str = "direction";
        match spec.string(NAME)?.ok_or(OpError::MissingAttribute { name: NAME })? {
            "LEFT" => Ok(Arc::new(BitShift::Left)),
            "RIGHT" => Ok(Arc::new(BitShift::Right)),
            other => Err(OpError::AttributeValue { name: NAME, found: other.to_owned() }),
        }
    }
}

impl Operator for BitShift {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        Ok(folded(self, inputs, binary::infer(inputs, DType::is_integer)?))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let output = only(outputs)?;
        let dtype = dtype_of(0, inputs, output)?;
        with_dtype!(dtype, integer,
            T => match self {
                BitShift::Left => combine(inputs, output, &|a: &T, &b: &T| {
                    u32::try_from(i128::from(b)).ok().and_then(|b| a.checked_shl(b)).unwrap_or(0)
                }),
                BitShift::Right => combine(inputs, output, &|a: &T, &b: &T| {
                    let shifted = u32::try_from(i128::from(b)).ok().and_then(|b| a.checked_shr(b));
                    shifted.unwrap_or(*a >> (T::BITS - 1) >> 1)
                }),
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

    fn shift(direction: &str) -> Case {
        Case::new("BitShift", 28).attr("direction", Attr::String(direction.to_owned()))
    }

    #[test]
    fn bits_that_leave_the_type_are_lost() {
        let (a, b) = (tensor(&[3], &[16_u8, 255, 1]), tensor(&[3], &[1_u8, 7, 8]));
        let left = shift("LEFT").tensor(&[a.clone(), b.clone()]);
        assert_eq!(left, Ok(tensor(&[3], &[32_u8, 128, 0])));
        assert_eq!(shift("RIGHT").tensor(&[a, b]), Ok(tensor(&[3], &[8_u8, 1, 0])));
    }

    #[test]
    fn the_sign_fills_what_is_shifted_out() {
        let (a, b) = (tensor(&[4], &[-8_i32, -8, -8, 8]), tensor(&[4], &[1, -1, 32, i32::MAX]));
        assert_eq!(
            shift("RIGHT").tensor(&[a.clone(), b.clone()]),
            Ok(tensor(&[4], &[-4, -1, -1, 0]))
        );
        assert_eq!(shift("LEFT").tensor(&[a, b]), Ok(tensor(&[4], &[-16, 0, 0, 0])));
        assert!(shift("UP").tensor(&[]).is_err());
    }
}
