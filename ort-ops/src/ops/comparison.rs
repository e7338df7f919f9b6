//! Comparisons of two operands, one line each: `y = a ? b`, broadcast.

use std::sync::Arc;

use ort_graph::{Fact, Facts, OpDef, OpError, Operator};
use ort_tensor::{Bool, DType, Inputs, Output, bf16, f16, with_dtype};

use crate::broadcast::{Operand, common_shape, compare, zip};
use crate::elementwise::{only, unsupported};
use crate::infer::{broadcast_facts, folded};
use crate::ops::binary;

/// A line is `Name: versions, check of the element type, the Rust types of those, operator`.
macro_rules! comparisons {
    ($($(#[$doc:meta])* $name:ident: $versions:expr, $allowed:expr, $types:tt, $operator:tt;)*) => {
        /// The definitions of this file.
        pub const DEFS: &[OpDef] = &[$(OpDef {
            domain: "",
            name: stringify!($name),
            versions: $versions,
            types: $allowed,
            build: |_| Ok(Arc::new(Comparison::$name)),
        }),*];

        /// A comparison of two operands of one type, which broadcast against each other; the
        /// result is bool. NaN is neither equal to, less nor greater than anything.
        ///
        /// Source: ONNX operator set, Equal-19, Greater-13, GreaterOrEqual-16, Less-13,
        /// LessOrEqual-16.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Comparison {
            $($(#[$doc])* $name,)*
        }

        impl Comparison {
            fn allowed(self) -> fn(DType) -> bool {
                match self { $(Comparison::$name => $allowed,)* }
            }

            fn apply(self, inputs: Inputs<'_>, output: &mut Output<'_>) -> Result<(), OpError> {
                let dtype = inputs.tensor(0)?.dtype();
                match self { $(
                    Comparison::$name => with_dtype!(dtype, $types,
                        T => compare(inputs, output, &|a: &T, b: &T| Bool::from(a $operator b)),
                        else => Err(unsupported(0, dtype))),
                )* }
            }
        }
    };
}

comparisons! {
    /// `a = b`; strings, too.
    Equal: (7, 19), is_equatable,
        [f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, Bool], ==;
    /// `a > b`
    Greater: (7, 13), DType::is_number, number, >;
    /// `a ≥ b`
    GreaterOrEqual: (12, 16), DType::is_number, number, >=;
    /// `a < b`
    Less: (7, 13), DType::is_number, number, <;
    /// `a ≤ b`
    LessOrEqual: (12, 16), DType::is_number, number, <=;
}

impl Operator for Comparison {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        binary::infer(inputs, self.allowed())?;
        Ok(folded(self, inputs, vec![broadcast_facts(inputs, DType::Bool)?]))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let output = only(outputs)?;
        if *self == Comparison::Equal && inputs.tensor(0)?.dtype() == DType::String {
            return equal_strings(inputs, output);
        }
        self.apply(inputs, output)
    }
}

fn equal_strings(inputs: Inputs<'_>, output: &mut Output<'_>) -> Result<(), OpError> {
    let (a, b) = (inputs.tensor(0)?, inputs.tensor(1)?);
    let a = Operand { shape: a.shape(), data: a.as_strings()? };
    let b = Operand { shape: b.shape(), data: b.as_strings()? };
    let shape = common_shape([a.shape, b.shape])?;
    let y = output.tensor(DType::Bool, &shape)?.into_slice::<Bool>()?;
    zip((&shape, y), a, b, &|a, b| Bool::from(a == b))
}

fn is_equatable(dtype: DType) -> bool {
    dtype.is_number() || matches!(dtype, DType::Bool | DType::String)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Case, tensor};
    use ort_tensor::Tensor;

    #[test]
    fn nan_compares_to_nothing() {
        let a = tensor(&[5], &[1.0_f32, 2.0, 3.0, f32::NAN, 0.0]);
        let b = tensor(&[5], &[2.0_f32, 2.0, 2.0, f32::NAN, -0.0]);
        let cases = [
            ("Equal", 19, [false, true, false, false, true]),
            ("Greater", 13, [false, false, true, false, false]),
            ("GreaterOrEqual", 16, [false, true, true, false, true]),
            ("Less", 13, [true, false, false, false, false]),
            ("LessOrEqual", 16, [true, true, false, false, true]),
        ];
        for (op, version, y) in cases {
            let y = tensor(&[5], &y.map(Bool::from));
            assert_eq!(Case::new(op, version).tensor(&[a.clone(), b.clone()]), Ok(y), "{op}");
        }
    }

    #[test]
    fn large_integers_are_compared_exactly() {
        let (a, b) = (Tensor::scalar(u64::MAX), Tensor::scalar(u64::MAX - 1));
        let y = Case::new("Greater", 9).tensor(&[a, b]);
        assert_eq!(y, Ok(Tensor::scalar(Bool::from(true))));
    }

    #[test]
    fn strings_are_equal_or_not() {
        let texts = |shape: &[usize], texts: &[&str]| {
            Tensor::from_strings(shape, texts.iter().map(|&t| t.to_owned()).collect()).unwrap()
        };
        let (a, b) = (texts(&[2, 1], &["a", "b"]), texts(&[2], &["b", "a"]));
        let y = tensor(&[2, 2], &[false, true, true, false].map(Bool::from));
        assert_eq!(Case::new("Equal", 19).tensor(&[a.clone(), b.clone()]), Ok(y));
        assert!(Case::new("Less", 13).tensor(&[a, b]).is_err());
    }
}
