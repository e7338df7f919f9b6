//! The function at the end of a fused operator: `y = f(x)`, elementwise.

use ort_graph::{NodeSpec, OpError};

use crate::accumulate::Sum;

/// An activation that an operator applies to its result before it is rounded.
///
/// Source: com.microsoft, `FusedConv-1` and `FusedGemm-1` (ONNX Runtime 1.31); the functions and
/// their defaults are those of the ONNX operators of the same name.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Activation {
    /// `x`.
    #[default]
    None,
    /// `max(0, x)`.
    Relu,
    /// `x < 0 ? alpha·x : x`.
    LeakyRelu {
        /// The slope of the negative side.
        alpha: f32,
    },
    /// `x > alpha ? x : 0`.
    ThresholdedRelu {
        /// The threshold.
        alpha: f32,
    },
    /// `tanh(x)`.
    Tanh,
    /// `alpha · tanh(beta·x)`.
    ScaledTanh {
        /// The factor of the result.
        alpha: f32,
        /// The factor of the argument.
        beta: f32,
    },
    /// `1 / (1 + exp(−x))`.
    Sigmoid,
    /// `min(max, max(min, x))`.
    Clip {
        /// The lower bound.
        min: f32,
        /// The upper bound.
        max: f32,
    },
    /// `max(0, min(1, alpha·x + beta))`.
    HardSigmoid {
        /// The slope.
        alpha: f32,
        /// The value at 0.
        beta: f32,
    },
    /// `x · max(0, min(1, x/6 + 1/2))`.
    HardSwish,
    /// `x / (1 + exp(−alpha·x))`.
    QuickGelu {
        /// The factor of the exponent.
        alpha: f32,
    },
    /// `x < 0 ? alpha·(exp(x) − 1) : x`.
    Elu {
        /// The limit of the negative side, negated.
        alpha: f32,
    },
    /// `gamma · (x ≤ 0 ? alpha·(exp(x) − 1) : x)`.
    Selu {
        /// The limit of the negative side, negated, before scaling.
        alpha: f32,
        /// The factor of the result.
        gamma: f32,
    },
    /// `ln(1 + exp(x))`.
    Softplus,
    /// `alpha · ln(1 + exp(beta·x))`.
    ParametricSoftplus {
        /// The factor of the result.
        alpha: f32,
        /// The factor of the argument.
        beta: f32,
    },
    /// `x / (1 + |x|)`.
    Softsign,
}

impl Activation {
    /// The activation of a convolution: attributes `activation` and `activation_params`.
    ///
    /// # Errors
    /// If the name is unknown, or the parameters are more than the function has.
    pub fn of_conv(spec: &NodeSpec<'_>) -> Result<Self, OpError> {
        let params = spec.floats("activation_params")?.unwrap_or_default();
        let found =
            || OpError::AttributeValue { name: "activation_params", found: format!("{params:?}") };
        let name = spec.string("activation")?.unwrap_or_default();
        let (activation, n_params) = Self::named(name, |i| params.get(i).copied())?;
        if params.len() > n_params { Err(found()) } else { Ok(activation) }
    }

    /// The activation of a matrix product: attributes `activation`, `activation_alpha`,
    /// `activation_beta` and `activation_gamma`.
    ///
    /// # Errors
    /// If the name is unknown.
    pub fn of_gemm(spec: &NodeSpec<'_>) -> Result<Self, OpError> {
        let alpha = spec.float("activation_alpha")?;
        let beta = spec.float("activation_beta")?;
        let gamma = spec.float("activation_gamma")?;
        let name = spec.string("activation")?.unwrap_or_default();
        // Selu is the only function with a gamma, and has no beta.
        let second = if name == "Selu" { gamma } else { beta };
        Ok(Self::named(name, |i| if i == 0 { alpha } else { second })?.0)
    }

    /// The activation `name`, and how many parameters it has. `param(i)` is its parameter `i`,
    /// if present.
    fn named(name: &str, param: impl Fn(usize) -> Option<f32>) -> Result<(Self, usize), OpError> {
        let first = |default: f32| param(0).unwrap_or(default);
        let second = |default: f32| param(1).unwrap_or(default);
        Ok(match name {
            "" => (Self::None, 0),
            "Relu" => (Self::Relu, 0),
            "LeakyRelu" => (Self::LeakyRelu { alpha: first(0.01) }, 1),
            "ThresholdedRelu" => (Self::ThresholdedRelu { alpha: first(1.0) }, 1),
            "Tanh" => (Self::Tanh, 0),
            "ScaledTanh" => (Self::ScaledTanh { alpha: first(1.0), beta: second(1.0) }, 2),
            "Sigmoid" => (Self::Sigmoid, 0),
            "Clip" => (Self::Clip { min: first(f32::MIN), max: second(f32::MAX) }, 2),
            "HardSigmoid" => (Self::HardSigmoid { alpha: first(0.2), beta: second(0.5) }, 2),
            "HardSwish" => (Self::HardSwish, 0),
            "QuickGelu" => (Self::QuickGelu { alpha: first(1.702) }, 1),
            "Elu" => (Self::Elu { alpha: first(1.0) }, 1),
            "Selu" => (Self::Selu { alpha: first(1.673_263_2), gamma: second(1.050_701) }, 2),
            "Softplus" => (Self::Softplus, 0),
            "ParametricSoftplus" => {
                (Self::ParametricSoftplus { alpha: first(1.0), beta: second(1.0) }, 2)
            }
            "Softsign" => (Self::Softsign, 0),
            _ => {
                return Err(OpError::AttributeValue { name: "activation", found: name.to_owned() });
            }
        })
    }

    /// `f(sum)`, or the unrounded sum without a function.
    pub(crate) fn apply_to<S: Sum>(self, sum: S) -> S {
        match self {
            Self::None => sum,
            _ => sum.map(|x| self.apply(x)),
        }
    }

    /// `f(x)`. NaN stays NaN.
    #[must_use]
    pub fn apply(self, x: f64) -> f64 {
        let wide = |parameter: f32| f64::from(parameter);
        match self {
            Self::None => x,
            Self::Relu => at_least(x, 0.0),
            Self::LeakyRelu { alpha } if x < 0.0 => wide(alpha) * x,
            Self::ThresholdedRelu { alpha } if x <= wide(alpha) => 0.0,
            Self::LeakyRelu { .. } | Self::ThresholdedRelu { .. } => x,
            Self::Tanh => x.tanh(),
            Self::ScaledTanh { alpha, beta } => wide(alpha) * (wide(beta) * x).tanh(),
            Self::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Self::Clip { min, max } => at_most(at_least(x, wide(min)), wide(max)),
            Self::HardSigmoid { alpha, beta } => unit(wide(alpha) * x + wide(beta)),
            Self::HardSwish => x * unit(x / 6.0 + 0.5),
            Self::QuickGelu { alpha } => x / (1.0 + (-wide(alpha) * x).exp()),
            Self::Elu { alpha } => elu(x, wide(alpha)),
            Self::Selu { alpha, gamma } => wide(gamma) * elu(x, wide(alpha)),
            Self::Softplus => softplus(x),
            Self::ParametricSoftplus { alpha, beta } => wide(alpha) * softplus(wide(beta) * x),
            Self::Softsign => x / (1.0 + x.abs()),
        }
    }
}

/// `max(bound, x)`, NaN for NaN.
fn at_least(x: f64, bound: f64) -> f64 {
    if x < bound { bound } else { x }
}

/// `min(bound, x)`, NaN for NaN.
fn at_most(x: f64, bound: f64) -> f64 {
    if x > bound { bound } else { x }
}

fn unit(x: f64) -> f64 {
    at_most(at_least(x, 0.0), 1.0)
}

fn elu(x: f64, alpha: f64) -> f64 {
    if x < 0.0 { alpha * x.exp_m1() } else { x }
}

/// `ln(1 + exp(x))` without an overflow for large `x`.
fn softplus(x: f64) -> f64 {
    if x > 0.0 { x + (-x).exp().ln_1p() } else { x.exp().ln_1p() }
}

#[cfg(test)]
mod tests {
    use ort_graph::{Attr, Attrs};

    use super::*;

    fn of_conv(name: &str, params: &[f32]) -> Result<Activation, OpError> {
        let attrs = Attrs::new()
            .with("activation", Attr::String(name.into()))
            .with("activation_params", Attr::Floats(params.to_vec()));
        Activation::of_conv(&NodeSpec::new(1, &[], 1, &attrs))
    }

    #[test]
    fn parameters_come_in_the_order_of_the_function() {
        let cases = [
            ("LeakyRelu", &[0.5][..], Activation::LeakyRelu { alpha: 0.5 }),
            ("Clip", &[0.0, 6.0], Activation::Clip { min: 0.0, max: 6.0 }),
            ("HardSigmoid", &[], Activation::HardSigmoid { alpha: 0.2, beta: 0.5 }),
            ("", &[], Activation::None),
        ];
        for (name, params, expected) in cases {
            assert_eq!(of_conv(name, params), Ok(expected));
        }
        assert!(of_conv("Relu", &[1.0]).is_err());
        assert!(of_conv("Swirl", &[]).is_err());
    }

    #[test]
    fn gemm_names_its_parameters() {
        let attrs = Attrs::new()
            .with("activation", Attr::String("Selu".into()))
            .with("activation_alpha", Attr::Float(2.0))
            .with("activation_gamma", Attr::Float(3.0));
        let selu = Activation::of_gemm(&NodeSpec::new(1, &[], 1, &attrs));
        assert_eq!(selu, Ok(Activation::Selu { alpha: 2.0, gamma: 3.0 }));
    }

    #[test]
    fn values_are_those_of_the_formulas() {
        let cases = [
            (Activation::Relu, -1.0, 0.0),
            (Activation::LeakyRelu { alpha: 0.5 }, -1.0, -0.5),
            (Activation::ThresholdedRelu { alpha: 1.0 }, 1.0, 0.0),
            (Activation::Sigmoid, 0.0, 0.5),
            (Activation::Clip { min: 0.0, max: 6.0 }, 7.0, 6.0),
            (Activation::HardSigmoid { alpha: 0.5, beta: 0.5 }, 2.0, 1.0),
            (Activation::HardSwish, 3.0, 3.0),
            (Activation::Elu { alpha: 1.0 }, f64::NEG_INFINITY, -1.0),
            (Activation::Softplus, 1000.0, 1000.0),
            (Activation::Softsign, -1.0, -0.5),
        ];
        for (activation, x, y) in cases {
            assert_eq!(activation.apply(x), y, "{activation:?}");
            assert!(activation.apply(f64::NAN).is_nan(), "{activation:?}");
        }
    }
}
