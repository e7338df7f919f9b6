//! Weighted sums of features: the linear models.

// collects are bounded: as long as the file's lists

use ort_graph::{NodeSpec, OpError};

use crate::product::dot;

/// `y[t] = intercepts[t] + Σ coefficients[t, f] · x[f]`.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearModel {
    coefficients: Vec<f64>,
    intercepts: Vec<f64>,
}

impl LinearModel {
    /// A model of these coefficients, with as many targets as there are intercepts.
    ///
    /// # Errors
    /// If the coefficients are not as many for each target, or there is no target.
    pub(crate) fn new(coefficients: &[f32], intercepts: Vec<f64>) -> Result<Self, OpError> {
        if !coefficients.len().is_multiple_of(intercepts.len()) {
            let found = format!("{} values for {} targets", coefficients.len(), intercepts.len());
            return Err(OpError::AttributeValue { name: "coefficients", found });
        }
        let coefficients = coefficients.iter().copied().map(f64::from).collect();
        Ok(Self { coefficients, intercepts })
    }

    /// The model in the attributes `coefficients` and `intercepts`, by default `n_targets` zeros.
    ///
    /// # Errors
    /// If there are no coefficients, or not as many for each target.
    pub(crate) fn read(spec: &NodeSpec<'_>, n_targets: usize) -> Result<Self, OpError> {
        let coefficients = required_floats(spec, "coefficients")?;
        // There cannot be more targets than coefficients: the attribute alone does not determine an allocation.
        let n_targets = n_targets.min(coefficients.len() + 1);
        let intercepts = match spec.floats("intercepts")?.unwrap_or_default() {
            // bounded: as long as an attribute
            [] => vec![0.0; n_targets],
            intercepts => intercepts.iter().copied().map(f64::from).collect(),
        };
        Self::new(coefficients, intercepts)
    }

    /// How many targets there are.
    pub const fn n_targets(&self) -> usize {
        self.intercepts.len()
    }

    /// How many features a sample has.
    pub const fn n_features(&self) -> usize {
        self.coefficients.len() / self.intercepts.len()
    }

    /// The operations for a sample.
    pub(crate) const fn cost(&self) -> usize {
        self.coefficients.len() + self.intercepts.len()
    }

    /// The coefficients, target by target.
    pub const fn coefficients(&self) -> &[f64] {
        self.coefficients.as_slice()
    }

    /// What is added to the sum of each target.
    pub const fn intercepts(&self) -> &[f64] {
        self.intercepts.as_slice()
    }

    /// The scores of a sample, which has as many features as the model.
    pub(crate) fn scores(&self, sample: &[f64]) -> impl Iterator<Item = f64> {
        let n = self.n_features();
        let weighted = move |i: usize| dot(&self.coefficients[i * n..][..n], sample);
        self.intercepts.iter().enumerate().map(move |(i, intercept)| intercept + weighted(i))
    }
}

/// The attribute `name`: at least one float.
///
/// # Errors
/// If there is none.
pub(crate) fn required_floats<'a>(
    spec: &NodeSpec<'a>,
    name: &'static str,
) -> Result<&'a [f32], OpError> {
    let floats = spec.floats(name)?.filter(|floats| !floats.is_empty());
    floats.ok_or(OpError::MissingAttribute { name })
}
