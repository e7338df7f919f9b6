//! Functions of one operand without attributes, one line each: `y[i] = f(x[i])`.

use std::sync::Arc;

use ort_graph::{Behaviour, Fact, Facts, OpDef, OpError, Operator};
use ort_tensor::{Bool, DType, Inputs, Output, bf16, f16, with_dtype};

use crate::arithmetic::Arithmetic;
use crate::elementwise::{
    dtype_of, ignore_consumed_inputs, like_first, map, map_f64, only, unsupported,
};
use crate::infer::folded;

/// A line is `Name: versions, check of the element type, the Rust types of those, how |x| formula`:
/// `map_f64` computes in double precision and rounds once, `map` in the element type itself.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident: $versions:expr, $allowed:expr, $types:tt,
        $map:ident |$x:ident| $formula:expr;)*) => {
        /// The definitions of this file.
        pub const DEFS: &[OpDef] = &[$(OpDef {
            domain: "",
            name: stringify!($name),
            versions: $versions,
            types: $allowed,
            build: |spec| {
                ignore_consumed_inputs(spec);
                Ok(Arc::new(Unary::$name))
            },
        }),*];

        /// A function of one operand without attributes: type and shape of `y` are those of `x`.
        /// NaN gives NaN; integers wrap. Can run in place.
        ///
        /// Source: ONNX operator set, each function in its newest version of opset 28.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Unary {
            $($(#[$doc])* $name,)*
        }

        impl Unary {
            fn allowed(self) -> fn(DType) -> bool {
                match self { $(Unary::$name => $allowed,)* }
            }

            fn apply(self, inputs: Inputs<'_>, output: &mut Output<'_>) -> Result<(), OpError> {
                let dtype = dtype_of(0, inputs, output)?;
                match self { $(
                    Unary::$name => with_dtype!(dtype, $types,
                        T => $map::<T>(inputs, output, &|$x| $formula),
                        else => Err(unsupported(0, dtype))),
                )* }
            }
        }
    };
}

functions! {
    /// `|x|`; the smallest signed integer is unchanged.
    Abs: (1, 13), DType::is_number, number, map |x| Arithmetic::abs(x);
    /// `acos(x)`, NaN outside −1..=1.
    Acos: (7, 22), DType::is_float, float, map_f64 |x| x.acos();
    /// `acosh(x)`, NaN below 1.
    Acosh: (9, 22), DType::is_float, float, map_f64 |x| x.acosh();
    /// `asin(x)`, NaN outside −1..=1.
    Asin: (7, 22), DType::is_float, float, map_f64 |x| x.asin();
    /// `asinh(x)`
    Asinh: (9, 22), DType::is_float, float, map_f64 |x| x.asinh();
    /// `atan(x)`
    Atan: (7, 22), DType::is_float, float, map_f64 |x| x.atan();
    /// `atanh(x)`, ±∞ at ±1, NaN beyond.
    Atanh: (9, 22), DType::is_float, float, map_f64 |x| x.atanh();
    /// Every bit inverted.
    BitwiseNot: (18, 18), DType::is_integer, integer, map |x| !x;
    /// `⌈x⌉`
    Ceil: (1, 13), DType::is_float, float, map_f64 |x| x.ceil();
    /// `cos(x)`
    Cos: (7, 22), DType::is_float, float, map_f64 |x| x.cos();
    /// `cosh(x)`
    Cosh: (9, 22), DType::is_float, float, map_f64 |x| x.cosh();
    /// `2/√π ∫₀ˣ e^(−t²) dt`; within 1 ULP of double precision before it is rounded.
    Erf: (9, 13), DType::is_number, number, map_f64 |x| libm::erf(x);
    /// `eˣ`
    Exp: (1, 13), DType::is_float, float, map_f64 |x| x.exp();
    /// `⌊x⌋`
    Floor: (1, 13), DType::is_float, float, map_f64 |x| x.floor();
    /// `x · max(0, min(1, x/6 + 1/2))`
    HardSwish: (14, 22), DType::is_float, float, map_f64 |x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0);
    /// `ln x`, −∞ at 0, NaN below.
    Log: (1, 13), DType::is_float, float, map_f64 |x| x.ln();
    /// `x · tanh(softplus(x))`
    Mish: (18, 22), DType::is_float, float, map_f64 |x| x * softplus(x).tanh();
    /// `−x`; the smallest signed integer is unchanged.
    Neg: (1, 13), is_signed, [f32, f64, f16, bf16, i8, i16, i32, i64], map |x| Arithmetic::neg(x);
    /// `¬x`
    Not: (1, 1), |dtype| dtype == DType::Bool, [Bool], map |x| Bool::from(!x.get());
    /// `1/x`, ±∞ at ±0.
    Reciprocal: (1, 13), DType::is_float, float, map_f64 |x| 1.0 / x;
    /// `max(0, x)`
    Relu: (1, 14), is_signed, [f32, f64, f16, bf16, i8, i16, i32, i64],
        map |x| if x < T::default() { T::default() } else { x };
    /// The nearest integer, ties to even.
    Round: (11, 22), DType::is_float, float, map_f64 |x| x.round_ties_even();
    /// `1 / (1 + e^−x)`
    Sigmoid: (1, 13), DType::is_float, float, map_f64 |x| sigmoid(x);
    /// −1, 0 or 1.
    Sign: (9, 13), DType::is_number, number, map |x| x.sign();
    /// `sin(x)`, NaN at ±∞.
    Sin: (7, 22), DType::is_float, float, map_f64 |x| x.sin();
    /// `sinh(x)`
    Sinh: (9, 22), DType::is_float, float, map_f64 |x| x.sinh();
    /// `ln(1 + eˣ)`
    Softplus: (1, 22), DType::is_float, float, map_f64 |x| softplus(x);
    /// `x / (1 + |x|)`, NaN at ±∞.
    Softsign: (1, 22), DType::is_float, float, map_f64 |x| x / (1.0 + x.abs());
    /// `√x`, NaN below 0.
    Sqrt: (1, 13), DType::is_float, float, map_f64 |x| x.sqrt();
    /// `tan(x)`
    Tan: (7, 22), DType::is_float, float, map_f64 |x| x.tan();
    /// `tanh(x)`
    Tanh: (1, 13), DType::is_float, float, map_f64 |x| x.tanh();
}

impl Unary {
    /// Whether every kernel gives the same bits, so that constants may be folded.
    const fn is_exact(self) -> bool {
        use Unary::{Abs, BitwiseNot, Ceil, Floor, Neg, Not, Reciprocal, Relu, Round, Sign, Sqrt};
        matches!(
            self,
            Abs | BitwiseNot | Ceil | Floor | Neg | Not | Reciprocal | Relu | Round | Sign | Sqrt
        )
    }
}

impl Operator for Unary {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let facts = like_first(inputs, self.allowed())?;
        Ok(if self.is_exact() { folded(self, inputs, facts) } else { facts })
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        self.apply(inputs, only(outputs)?)
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { in_place: &[(0, 0)], ..Behaviour::default() }
    }
}

const fn is_signed(dtype: DType) -> bool {
    dtype.is_float() || matches!(dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64)
}

/// `1 / (1 + e^−x)` without overflow on either side.
pub(crate) fn sigmoid(x: f64) -> f64 {
    let e = (-x.abs()).exp();
    if x < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) }
}

/// `ln(1 + eˣ)` without overflow.
pub(crate) fn softplus(x: f64) -> f64 {
    // `f64::max` would drop a NaN, which the second term keeps.
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Case, tensor};
    use ort_tensor::Tensor;

    #[test]
    fn floats_give_what_the_formula_gives_rounded_once() {
        let cases: &[(&str, i32, f32, f64)] = &[
            ("Acosh", 9, 2.0, (2.0 + 3.0_f64.sqrt()).ln()),
            ("Erf", 13, 0.5, 0.520_499_877_813_046_5),
            ("Erf", 13, -3.0, -0.999_977_909_503_001_4),
            ("Exp", 13, 1.0, std::f64::consts::E),
            ("HardSwish", 14, 1.5, 1.125),
            ("HardSwish", 14, -4.0, 0.0),
            ("Log", 13, -1.0, f64::NAN),
            ("Mish", 18, 1.0, 0.865_098_388_267_310_3),
            ("Reciprocal", 13, -0.0, f64::NEG_INFINITY),
            ("Relu", 14, f32::NAN, f64::NAN),
            ("Round", 22, 2.5, 2.0),
            ("Round", 22, -3.5, -4.0),
            ("Sigmoid", 13, -200.0, 1.383_896_526_736_737_5e-87),
            ("Sigmoid", 13, f32::INFINITY, 1.0),
            ("Sign", 13, -0.0, 0.0),
            ("Sign", 13, f32::NAN, f64::NAN),
            ("Softplus", 22, 1000.0, 1000.0),
            ("Softplus", 22, f32::NAN, f64::NAN),
            ("Softsign", 22, -3.0, -0.75),
            ("Sqrt", 13, -1.0, f64::NAN),
        ];
        for &(op, version, x, expected) in cases {
            let y = Case::new(op, version).tensor(&[Tensor::scalar(x)]).unwrap();
            let y = y.as_slice::<f32>().unwrap()[0];
            #[expect(clippy::cast_possible_truncation, reason = "the rounding under test")]
            let expected = expected as f32;
            let same = y == expected || y.is_nan() && expected.is_nan();
            assert!(same, "{op}({x}) = {y}, not {expected}");
        }
    }

    #[test]
    fn integers_and_booleans_stay_what_they_are() {
        let cases = [
            ("Abs", 13, tensor(&[2], &[i8::MIN, -3]), tensor(&[2], &[i8::MIN, 3])),
            ("Neg", 13, tensor(&[2], &[i64::MIN, 3]), tensor(&[2], &[i64::MIN, -3])),
            ("Sign", 13, tensor(&[2], &[0_u16, 9]), tensor(&[2], &[0_u16, 1])),
            ("Relu", 14, tensor(&[2], &[-5_i32, 9]), tensor(&[2], &[0_i32, 9])),
            ("BitwiseNot", 18, tensor(&[2], &[0_u8, 0xf0]), tensor(&[2], &[0xff_u8, 0x0f])),
            (
                "Not",
                1,
                tensor(&[2], &[Bool::from(true), Bool::from(false)]),
                tensor(&[2], &[Bool::from(false), Bool::from(true)]),
            ),
        ];
        for (op, version, x, y) in cases {
            assert_eq!(Case::new(op, version).tensor(&[x]), Ok(y), "{op}");
        }
    }

    #[test]
    fn every_function_takes_every_type_it_allows_and_no_other() {
        for def in DEFS {
            let case = Case::new(def.name, def.versions.1);
            let mut n_allowed = 0;
            for &dtype in DType::ALL {
                let made = case.tensor(&[Tensor::zeros(dtype, &[2, 0, 3]).unwrap()]);
                n_allowed += usize::from(made.is_ok());
                let scalar = case.tensor(&[Tensor::zeros(dtype, &[]).unwrap()]);
                assert_eq!(scalar.is_ok(), made.is_ok(), "{} of {dtype}", def.name);
            }
            assert!([1, 4, 8, 12].contains(&n_allowed), "{} takes {n_allowed} types", def.name);
        }
    }

    #[test]
    fn the_first_versions_ignore_a_hint_about_memory() {
        let hint = ort_graph::Attr::Ints(vec![0]);
        let case = |version| Case::new("Neg", version).attr("consumed_inputs", hint.clone());
        assert!(case(1).tensor(&[Tensor::scalar(1_f32)]).is_ok());
        assert!(case(6).tensor(&[Tensor::scalar(1_f32)]).is_err());
    }
}
