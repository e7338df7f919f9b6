//! Activations with float attributes, one line each: `y[i] = f(x[i])`.

use std::sync::Arc;

use ort_graph::{Behaviour, Fact, Facts, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, with_dtype};

use crate::elementwise::{
    dtype_of, ignore_consumed_inputs, like_first, map_f64, only, unsupported,
};
use crate::ops::unary::{sigmoid, softplus};

/// A line is `Name { attributes and their defaults }: domain, versions, check of the element type,
/// the Rust types of those, |x| formula`.
macro_rules! activations {
    ($($(#[$doc:meta])* $name:ident {
        $($(#[$attr_doc:meta])* $attr:ident = $default:expr),*
    }: $domain:literal, $versions:expr, $allowed:expr, $types:tt, |$x:ident| $formula:expr;)*) => {
        /// The definitions of this file.
        pub const DEFS: &[OpDef] = &[$(OpDef {
            domain: $domain,
            name: stringify!($name),
            versions: $versions,
            types: $allowed,
            build: |spec| {
                ignore_consumed_inputs(spec);
                $(let $attr = match spec.float(stringify!($attr))? {
                    Some(value) => value,
                    None => $default,
                };)*
                Ok(Arc::new(Activation::$name { $($attr),* }))
            },
        }),*];

        /// A function of one operand with float attributes: type and shape of `y` are those of
        /// `x`. Computed in double precision and rounded once. Can run in place.
        ///
        /// Source: ONNX operator set, each function in its newest version of opset 28;
        /// com.microsoft, QuickGelu-1 (ONNX Runtime 1.31).
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum Activation {
            $($(#[$doc])* $name {
                $($(#[$attr_doc])* $attr: f32),*
            },)*
        }

        impl Activation {
            fn allowed(self) -> fn(DType) -> bool {
                match self { $(Activation::$name { .. } => $allowed,)* }
            }

            fn apply(self, inputs: Inputs<'_>, output: &mut Output<'_>) -> Result<(), OpError> {
                let dtype = dtype_of(0, inputs, output)?;
                match self { $(
                    Activation::$name { $($attr),* } => {
                        $(let $attr = f64::from($attr);)*
                        with_dtype!(dtype, $types,
                            T => map_f64::<T>(inputs, output, &|$x| $formula),
                            else => Err(unsupported(0, dtype)))
                    }
                )* }
            }
        }
    };
}

activations! {
    /// `α·x + β`
    Affine {
        /// `α`
        alpha = 1.0,
        /// `β`
        beta = 0.0
    }: "", (1, 1), DType::is_float, float, |x| alpha * x + beta;
    /// `x < 0 ? α·(e^(x/α) − 1) : x`
    Celu {
        /// `α`
        alpha = 1.0
    }: "", (12, 28), DType::is_float, float,
        |x| if x < 0.0 { alpha * (x / alpha).exp_m1() } else { x };
    /// `x < 0 ? α·(eˣ − 1) : x`
    Elu {
        /// `α`
        alpha = 1.0
    }: "", (1, 22), DType::is_float, float, |x| if x < 0.0 { alpha * x.exp_m1() } else { x };
    /// `max(0, min(1, α·x + β))`
    HardSigmoid {
        /// `α`
        alpha = 0.2,
        /// `β`
        beta = 0.5
    }: "", (1, 22), DType::is_float, float, |x| (alpha * x + beta).clamp(0.0, 1.0);
    /// `x < 0 ? α·x : x`
    LeakyRelu {
        /// `α`
        alpha = 0.01
    }: "", (1, 16), DType::is_float, float, |x| if x < 0.0 { alpha * x } else { x };
    /// `α · ln(1 + e^(β·x))`
    ParametricSoftplus {
        /// `α`
        alpha = return Err(missing("alpha")),
        /// `β`
        beta = return Err(missing("beta"))
    }: "", (1, 1), DType::is_float, float, |x| alpha * softplus(beta * x);
    /// `x · sigmoid(α·x)`
    QuickGelu {
        /// `α`
        alpha = 1.702
    }: "com.microsoft", (1, 1), DType::is_float, float, |x| x * sigmoid(alpha * x);
    /// `scale · x`
    Scale {
        /// The factor.
        scale = 1.0
    }: "", (1, 1), DType::is_float, float, |x| scale * x;
    /// `α · tanh(β·x)`
    ScaledTanh {
        /// `α`
        alpha = return Err(missing("alpha")),
        /// `β`
        beta = return Err(missing("beta"))
    }: "", (1, 1), DType::is_float, float, |x| alpha * (beta * x).tanh();
    /// `γ · (x < 0 ? α·(eˣ − 1) : x)`
    Selu {
        /// `α`
        alpha = 1.673_263_2,
        /// `γ`
        gamma = 1.050_701
    }: "", (6, 22), DType::is_float, float,
        |x| gamma * if x < 0.0 { alpha * x.exp_m1() } else { x };
    /// `x < −λ ? x + bias : x > λ ? x − bias : 0`; integers round toward zero.
    Shrink {
        /// What is subtracted from the magnitude.
        bias = 0.0,
        /// `λ`
        lambd = 0.5
    }: "", (9, 9), DType::is_number, number,
        |x| if x < -lambd { x + bias } else if x > lambd { x - bias } else { 0.0 };
    /// `x · sigmoid(α·x)`
    Swish {
        /// `α`
        alpha = 1.0
    }: "", (24, 24), DType::is_float, float, |x| x * sigmoid(alpha * x);
    /// `x > α ? x : 0`
    ThresholdedRelu {
        /// `α`
        alpha = 1.0
    }: "", (1, 22), DType::is_float, float, |x| if x > alpha { x } else { 0.0 };
}

/// The error of a missing required parameter.
const fn missing(name: &'static str) -> OpError {
    OpError::MissingAttribute { name }
}

impl Operator for Activation {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        like_first(inputs, self.allowed())
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        self.apply(inputs, only(outputs)?)
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { in_place: &[(0, 0)], ..Behaviour::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Case, tensor};
    use ort_graph::Attr;
    use ort_tensor::{Tensor, f16};

    #[test]
    fn attributes_shape_the_function() {
        let x = [-2.0_f32, 0.25, 4.0];
        let minus = |alpha: f64| alpha * (-2.0_f64).exp_m1();
        let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());
        let softplus = |x: f64| 3.0 * (0.5 * x).exp().ln_1p();
        let cases: [(&str, i32, &[(&str, f32)], [f64; 3]); 13] = [
            ("Affine", 1, &[("alpha", 2.0), ("beta", 1.0)], [-3.0, 1.5, 9.0]),
            (
                "ParametricSoftplus",
                1,
                &[("alpha", 3.0), ("beta", 0.5)],
                x.map(|x| softplus(x.into())),
            ),
            ("Scale", 1, &[("scale", 3.0)], [-6.0, 0.75, 12.0]),
            (
                "ScaledTanh",
                1,
                &[("alpha", 3.0), ("beta", 0.5)],
                x.map(|x| 3.0 * (0.5 * f64::from(x)).tanh()),
            ),
            ("Celu", 12, &[("alpha", 2.0)], [2.0 * (-1.0_f64).exp_m1(), 0.25, 4.0]),
            ("Elu", 6, &[("alpha", 3.0)], [minus(3.0), 0.25, 4.0]),
            ("HardSigmoid", 6, &[("alpha", 0.5), ("beta", 0.25)], [0.0, 0.375, 1.0]),
            ("LeakyRelu", 16, &[("alpha", 0.5)], [-1.0, 0.25, 4.0]),
            ("Selu", 6, &[("alpha", 2.0), ("gamma", 3.0)], [3.0 * minus(2.0), 0.75, 12.0]),
            ("Shrink", 9, &[("bias", 1.5), ("lambd", 1.0)], [-0.5, 0.0, 2.5]),
            (
                "Swish",
                24,
                &[("alpha", 2.0)],
                [-2.0 * logistic(-4.0), 0.25 * logistic(0.5), 4.0 * logistic(8.0)],
            ),
            ("ThresholdedRelu", 10, &[("alpha", 0.5)], [0.0, 0.0, 4.0]),
            ("Elu", 22, &[], [minus(1.0), 0.25, 4.0]),
        ];
        for (op, version, attrs, y) in cases {
            let case = attrs.iter().fold(Case::new(op, version), |case, &(name, value)| {
                case.attr(name, Attr::Float(value))
            });
            let made = case.tensor(&[tensor(&[3], &x.map(f64::from))]).unwrap();
            // A few roundings of half an ULP, exp and expm1 within one.
            for (made, y) in made.as_slice::<f64>().unwrap().iter().zip(y) {
                assert!((made - y).abs() <= 4.0 * f64::EPSILON * y.abs(), "{op}: {made}, not {y}");
            }
        }
    }

    #[test]
    fn every_float_type_and_no_other_is_taken() {
        for def in DEFS {
            let case = Case::new(def.name, def.versions.1).domain(def.domain);
            let needs_both = ["ParametricSoftplus", "ScaledTanh"].contains(&def.name);
            let parameters = if needs_both { &["alpha", "beta"][..] } else { &[] };
            assert_eq!(case.tensor(&[Tensor::scalar(0_f32)]).is_err(), needs_both, "{}", def.name);
            let one = Attr::Float(1.0);
            let case = parameters.iter().fold(case, |case, name| case.attr(name, one.clone()));
            assert!(case.tensor(&[Tensor::scalar(f16::NAN)]).is_ok(), "{}", def.name);
            let integers = case.tensor(&[tensor(&[0], &[0_i32; 0])]);
            assert_eq!(integers.is_ok(), def.name == "Shrink", "{}", def.name);
        }
    }
}
