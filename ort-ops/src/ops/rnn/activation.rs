//! The functions that recurrent operators apply to their gates.

// collects are bounded: as long as the file's lists

use ort_graph::OpError;

/// A function of one number, computed in f64.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the formulas are in `apply`, the parameters are theirs")]
pub enum Activation {
    Affine { alpha: f32, beta: f32 },
    Elu { alpha: f32 },
    HardSigmoid { alpha: f32, beta: f32 },
    LeakyRelu { alpha: f32 },
    Relu,
    ScaledTanh { alpha: f32, beta: f32 },
    Sigmoid,
    Softplus,
    Softsign,
    Tanh,
    ThresholdedRelu { alpha: f32 },
}

impl Activation {
    /// The functions of these names, whatever their case. Each takes the next `alpha` and `beta` if it has such a
    /// parameter, or its default if there are no more.
    ///
    /// # Errors
    /// If there is no function of a name.
    pub(super) fn list<'a>(
        names: impl IntoIterator<Item = &'a str>,
        alphas: &[f32],
        betas: &[f32],
    ) -> Result<Vec<Self>, OpError> {
        let (mut alphas, mut betas) = (alphas.iter().copied(), betas.iter().copied());
        let mut named = |name: &str| {
            let mut alpha = |default| alphas.next().unwrap_or(default);
            let mut beta = |default| betas.next().unwrap_or(default);
            Some(match name.to_ascii_lowercase().as_str() {
                // For Affine and ScaledTanh the standard has no defaults; these are ONNX Runtime's.
                "affine" => Self::Affine { alpha: alpha(0.0), beta: beta(0.0) },
                "elu" => Self::Elu { alpha: alpha(1.0) },
                "hardsigmoid" => Self::HardSigmoid { alpha: alpha(0.2), beta: beta(0.5) },
                "leakyrelu" => Self::LeakyRelu { alpha: alpha(0.01) },
                "relu" => Self::Relu,
                "scaledtanh" => Self::ScaledTanh { alpha: alpha(0.0), beta: beta(0.0) },
                "sigmoid" => Self::Sigmoid,
                "softplus" => Self::Softplus,
                "softsign" => Self::Softsign,
                "tanh" => Self::Tanh,
                "thresholdedrelu" => Self::ThresholdedRelu { alpha: alpha(1.0) },
                _ => return None,
            })
        };
        let unknown =
            |name: &str| OpError::AttributeValue { name: "activations", found: name.to_owned() };
        names.into_iter().map(|name| named(name).ok_or_else(|| unknown(name))).collect()
    }

    /// The function's value at `x`.
    pub fn apply(self, x: f64) -> f64 {
        match self {
            Self::Affine { alpha, beta } => f64::from(alpha) * x + f64::from(beta),
            Self::Elu { alpha } if x < 0.0 => f64::from(alpha) * x.exp_m1(),
            Self::HardSigmoid { alpha, beta } => {
                (f64::from(alpha) * x + f64::from(beta)).clamp(0.0, 1.0)
            }
            Self::LeakyRelu { alpha } if x < 0.0 => f64::from(alpha) * x,
            Self::Relu if x < 0.0 => 0.0,
            Self::ScaledTanh { alpha, beta } => f64::from(alpha) * (f64::from(beta) * x).tanh(),
            Self::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            // ln(1 + eˣ) with an exponent that cannot overflow.
            Self::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
            Self::Softsign => x / (1.0 + x.abs()),
            Self::Tanh => x.tanh(),
            Self::ThresholdedRelu { alpha } if x < f64::from(alpha) => 0.0,
            Self::Elu { .. }
            | Self::LeakyRelu { .. }
            | Self::Relu
            | Self::ThresholdedRelu { .. } => x,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_go_to_those_that_have_them_in_order() {
        let names = ["Tanh", "LeakyRelu", "hardsigmoid", "Elu", "Affine"];
        let found = Activation::list(names, &[0.5, 2.0], &[0.25]).unwrap();
        let expected = [
            Activation::Tanh,
            Activation::LeakyRelu { alpha: 0.5 },
            Activation::HardSigmoid { alpha: 2.0, beta: 0.25 },
            Activation::Elu { alpha: 1.0 },
            Activation::Affine { alpha: 0.0, beta: 0.0 },
        ];
        assert_eq!(found, expected);
        assert!(Activation::list(["Gelu"], &[], &[]).is_err());
    }

    #[test]
    fn each_function_follows_its_formula() {
        let (alpha, beta) = (0.5, 0.25);
        let cases: [(Activation, [f64; 2]); 11] = [
            (Activation::Affine { alpha, beta }, [1.25, -0.75]),
            (Activation::Elu { alpha }, [2.0, 0.5 * ((-2_f64).exp() - 1.0)]),
            (Activation::HardSigmoid { alpha, beta }, [1.0, 0.0]),
            (Activation::LeakyRelu { alpha }, [2.0, -1.0]),
            (Activation::Relu, [2.0, 0.0]),
            (Activation::ScaledTanh { alpha, beta }, [0.5 * 0.5_f64.tanh(), -0.5 * 0.5_f64.tanh()]),
            (Activation::Sigmoid, [0.880_797_077_977_882_4, 0.119_202_922_022_117_56]),
            (Activation::Softplus, [2.126_928_011_042_972_5, 0.126_928_011_042_972_5]),
            (Activation::Softsign, [2.0 / 3.0, -2.0 / 3.0]),
            (Activation::Tanh, [2_f64.tanh(), -2_f64.tanh()]),
            (Activation::ThresholdedRelu { alpha }, [2.0, 0.0]),
        ];
        for (activation, expected) in cases {
            let found = [2.0, -2.0].map(|x| activation.apply(x));
            for (found, expected) in found.into_iter().zip(expected) {
                assert!((found - expected).abs() <= 2.0 * f64::EPSILON, "{activation:?} {found}");
            }
            assert!(activation.apply(f64::NAN).is_nan(), "{activation:?}");
        }
    }
}
