//! Functions of two operands without attributes, one line each: `y = f(a, b)`, broadcast.

use std::sync::Arc;

use ort_graph::{Behaviour, Fact, Facts, OpDef, OpError, Operator};
use ort_tensor::{Bool, DType, Inputs, Output, with_dtype};

use crate::arithmetic::Arithmetic;
use crate::broadcast::combine;
use crate::elementwise::{dtype_of, only, unsupported};
use crate::infer::{broadcast_facts, element_flops, folded};

/// A line is `Name: versions, check of the element type, the Rust types of those, |a, b| formula`.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident: $versions:expr, $allowed:expr, $types:tt,
        |$a:ident, $b:ident| $formula:expr;)*) => {
        /// The definitions of this file.
        pub const DEFS: &[OpDef] = &[$(OpDef {
            domain: "",
            name: stringify!($name),
            versions: $versions,
            types: $allowed,
            build: |_| Ok(Arc::new(Binary::$name)),
        }),*];

        /// A function of two operands of one type, which broadcast against each other; the result
        /// has the same type. Integers wrap; 16-bit floats compute in `f32` and round once. Can
        /// run in place of either.
        ///
        /// Source: ONNX operator set, each function in its newest version of opset 28.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Binary {
            $($(#[$doc])* $name,)*
        }

        impl Binary {
            fn allowed(self) -> fn(DType) -> bool {
                match self { $(Binary::$name => $allowed,)* }
            }

            fn apply(self, inputs: Inputs<'_>, output: &mut Output<'_>) -> Result<(), OpError> {
                let dtype = dtype_of(0, inputs, output)?;
                match self { $(
                    Binary::$name => with_dtype!(dtype, $types,
                        T => combine::<T>(inputs, output, &|&$a, &$b| $formula),
                        else => Err(unsupported(0, dtype))),
                )* }
            }
        }
    };
}

functions! {
    /// `a + b`
    Add: (7, 14), DType::is_number, number, |a, b| Arithmetic::add(a, b);
    /// `a ∧ b`
    And: (7, 7), DType::is_bool, [Bool], |a, b| Bool::from(a.get() && b.get());
    /// `a ∧ b`, bit by bit.
    BitwiseAnd: (18, 18), DType::is_integer, integer, |a, b| a & b;
    /// `a ∨ b`, bit by bit.
    BitwiseOr: (18, 18), DType::is_integer, integer, |a, b| a | b;
    /// `a ⊕ b`, bit by bit.
    BitwiseXor: (18, 18), DType::is_integer, integer, |a, b| a ^ b;
    /// `a / b`, toward zero for integers, for which division by zero is an error.
    Div: (7, 14), DType::is_number, number, |a, b| Arithmetic::div(a, b);
    /// `a · b`
    Mul: (7, 14), DType::is_number, number, |a, b| Arithmetic::mul(a, b);
    /// `a ∨ b`
    Or: (7, 7), DType::is_bool, [Bool], |a, b| Bool::from(a.get() || b.get());
    /// `a − b`
    Sub: (7, 14), DType::is_number, number, |a, b| Arithmetic::sub(a, b);
    /// `a ⊕ b`
    Xor: (7, 7), DType::is_bool, [Bool], |a, b| Bool::from(a.get() != b.get());
}

impl Operator for Binary {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        Ok(folded(self, inputs, infer(inputs, self.allowed())?))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let output = only(outputs)?;
        if *self == Binary::Div {
            check_divisor(inputs, output)?;
        }
        self.apply(inputs, output)
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { in_place: &[(0, 0), (1, 0)], ..Behaviour::default() }
    }

    fn flops(&self, _inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        element_flops(1, outputs.first())
    }
}

/// The fact of a result of the type that both inputs have.
///
/// # Errors
/// If a type is not allowed, the two differ, or they do not broadcast.
pub(crate) fn infer(inputs: &Facts<'_>, allowed: fn(DType) -> bool) -> Result<Vec<Fact>, OpError> {
    let dtype = inputs.dtype(0, allowed)?;
    inputs.expect_dtype(1, dtype)?;
    inputs.fact(1)?;
    Ok(vec![broadcast_facts(inputs, dtype)?])
}

/// Checks that no integer of input 1 is zero.
///
/// # Errors
/// If one is, or there is no such input.
pub(crate) fn check_divisor(inputs: Inputs<'_>, output: &mut Output<'_>) -> Result<(), OpError> {
    let has_zero = match output.in_place_tensor() {
        Some((1, view)) => with_dtype!(view.dtype(), integer,
            T => view.view().as_slice::<T>()?.contains(&0), else => false),
        _ => {
            let divisor = inputs.tensor(1)?;
            with_dtype!(divisor.dtype(), integer,
                T => divisor.as_slice::<T>()?.contains(&0), else => false)
        }
    };
    if has_zero { Err(OpError::InputValue { index: 1, what: "division by zero" }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Case, tensor};
    use ort_tensor::{Tensor, f16};

    fn bools<const N: usize>(values: [bool; N]) -> Tensor {
        tensor(&[N], &values.map(Bool::from))
    }

    #[test]
    fn operands_of_one_shape_are_combined() {
        let (x, y) = (bools([false, false, true, true]), bools([false, true, false, true]));
        let cases = [
            (
                "Add",
                tensor(&[2], &[i8::MAX, 1]),
                tensor(&[2], &[1_i8, 2]),
                tensor(&[2], &[i8::MIN, 3]),
            ),
            ("Sub", tensor(&[2], &[1_u8, 5]), tensor(&[2], &[2_u8, 2]), tensor(&[2], &[255_u8, 3])),
            (
                "Mul",
                tensor(&[1], &[f16::MAX]),
                tensor(&[1], &[f16::ONE]),
                tensor(&[1], &[f16::MAX]),
            ),
            (
                "Div",
                tensor(&[2], &[-7, i32::MIN]),
                tensor(&[2], &[2, -1]),
                tensor(&[2], &[-3, i32::MIN]),
            ),
            (
                "Div",
                tensor(&[1], &[1.0_f64]),
                tensor(&[1], &[-0.0_f64]),
                tensor(&[1], &[f64::NEG_INFINITY]),
            ),
            ("BitwiseXor", tensor(&[1], &[6_u16]), tensor(&[1], &[3_u16]), tensor(&[1], &[5_u16])),
            ("And", x.clone(), y.clone(), bools([false, false, false, true])),
            ("Or", x.clone(), y.clone(), bools([false, true, true, true])),
            ("Xor", x, y, bools([false, true, true, false])),
        ];
        for (op, a, b, y) in cases {
            let version = if op.starts_with("Bitwise") { 18 } else { 7 };
            assert_eq!(Case::new(op, version).tensor(&[a, b]), Ok(y), "{op}");
        }
    }

    #[test]
    fn operands_broadcast_from_either_side() {
        let (row, column) = (tensor(&[3], &[1, 2, 3]), tensor(&[2, 1], &[10, 20]));
        let y = tensor(&[2, 3], &[9, 8, 7, 19, 18, 17]);
        assert_eq!(Case::new("Sub", 14).tensor(&[column, row.clone()]), Ok(y.clone()));
        let less = |a, b| Case::new("Sub", 14).tensor(&[a, b]);
        assert_eq!(less(y.clone(), Tensor::scalar(9)), Ok(tensor(&[2, 3], &[0, -1, -2, 10, 9, 8])));
        assert_eq!(less(row, y), Ok(tensor(&[2, 3], &[-8, -6, -4, -18, -16, -14])));
        let empty = Tensor::zeros(DType::I32, &[0, 1]).unwrap();
        let made = less(empty, tensor(&[4], &[1, 2, 3, 4])).unwrap();
        assert_eq!(made.shape(), [0, 4]);
    }

    #[test]
    fn constants_that_give_a_shape_are_known_beforehand() {
        let (a, b) = (tensor(&[2], &[6_i64, 8]), Tensor::scalar(2_i64));
        let facts = [Fact::constant(a), Fact::constant(b)];
        let inputs = [Some(&facts[0]), Some(&facts[1])];
        let made = Binary::Div.infer(&Facts::new(&inputs)).unwrap();
        assert_eq!(made[0].ints(), Some(vec![3, 4]));
    }

    #[test]
    fn what_cannot_be_combined_says_why() {
        let case = Case::new("Div", 14);
        let error = case.tensor(&[tensor(&[2], &[1, 2]), tensor(&[2], &[1, 0])]).unwrap_err();
        assert_eq!(error, "input 1: division by zero");
        let error = case.tensor(&[tensor(&[2], &[1, 2]), tensor(&[3], &[1, 1, 1])]).unwrap_err();
        assert_eq!(error, "broadcasting: [2] does not fit [3]");
        let error = case.tensor(&[tensor(&[1], &[1]), tensor(&[1], &[1_u8])]).unwrap_err();
        assert_eq!(error, "input 1 should have elements of type int32, but is uint8[1]");
        assert!(case.tensor(&[tensor(&[1], &[1])]).is_err());
    }
}
