//! SVMRegressor: a weighted sum of kernels.

// collects are bounded: as long as the file's lists, or into room that was asked for

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Pace};

use super::kernel::{Kernel, SupportVectors};
use crate::features::{Rows, is_feature, n_rows};
use crate::floats;
use crate::linear::{LinearModel, required_floats};
use crate::product::dot;
use crate::scores::PostTransform;

/// `y[n] = ρ₀ + Σ coefficients[v] · K(x[n], support[v])`, or `ρ₀ + Σ coefficients[f] · x[n, f]`
/// without support vectors.
///
/// `x`: `[N, F]` or `[F]`; `y`: `[N, 1]` float. As in ONNX Runtime, `post_transform` has no effect here.
///
/// Source: ONNX ML operator set, `SVMRegressor-1`.
#[derive(Clone, Debug, PartialEq)]
pub struct SvmRegressor {
    /// What is summed.
    pub target: SvmTarget,
    /// Whether the result is the side of the border that a sample is on, 1 above zero and -1 else.
    pub is_one_class: bool,
}

/// What a support vector machine with one target sums.
#[derive(Clone, Debug, PartialEq)]
pub enum SvmTarget {
    /// Features.
    Linear(LinearModel),
    /// Kernels.
    Kernels {
        /// The vectors.
        support: SupportVectors,
        /// The weight of each.
        coefficients: Vec<f64>,
        /// What is added.
        rho: f64,
    },
}

impl SvmRegressor {
    pub(super) fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        PostTransform::read(spec)?;
        let kernel = Kernel::read(spec)?;
        let rho = f64::from(required_floats(spec, "rho")?[0]);
        let coefficients = required_floats(spec, "coefficients")?;
        let n_supports = spec.int("n_supports")?.unwrap_or(0);
        let target = match usize::try_from(n_supports) {
            Ok(0) => {
                spec.ignore("support_vectors");
                SvmTarget::Linear(LinearModel::new(coefficients, vec![rho])?)
            }
            Ok(n) if n == coefficients.len() => SvmTarget::Kernels {
                support: SupportVectors::read(spec, n, kernel)?,
                coefficients: coefficients.iter().copied().map(f64::from).collect(),
                rho,
            },
            _ => {
                let found = n_supports.to_string();
                return Err(OpError::AttributeValue { name: "n_supports", found });
            }
        };
        let is_one_class = spec.int("one_class")?.unwrap_or(0) != 0;
        Ok(Arc::new(Self { target, is_one_class }))
    }
}

impl SvmRegressor {
    /// The result of a sample from its score: for one class, 1 within it and −1 outside.
    pub const fn result(&self, score: f64) -> f64 {
        match self.is_one_class {
            true if score > 0.0 => 1.0,
            true => -1.0,
            false => score,
        }
    }
}

impl SvmTarget {
    /// How many features a sample has.
    pub const fn n_features(&self) -> usize {
        match self {
            Self::Linear(model) => model.n_features(),
            Self::Kernels { support, .. } => support.n_features(),
        }
    }

    fn score(&self, row: &[f64], products: &mut Vec<f64>) -> f64 {
        match self {
            Self::Linear(model) => model.scores(row).sum(),
            Self::Kernels { support, coefficients, rho } => {
                products.clear();
                products.extend(support.products(row));
                rho + dot(coefficients, products)
            }
        }
    }
}

impl Operator for SvmRegressor {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        Ok(vec![Fact::tensor(DType::F32, [n_rows(inputs, is_feature)?, Dim::Known(1)])])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let rows = Rows::read(inputs)?;
        rows.expect_features(self.target.n_features())?;
        let mut results = rows.results(1)?;
        let mut products = Vec::new();
        for row in rows.iter(Pace::STEP) {
            let row = row?;
            results.push(self.result(self.target.score(row, &mut products)));
        }
        floats::write(outputs, 0, DType::F32, &[rows.n, 1], &results)
    }
}
