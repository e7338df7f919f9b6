//! The kernels of a sample with each support vector.

// collects are bounded: as long as the file's lists

use ort_graph::{NodeSpec, OpError};

use crate::product::dot;

/// A kernel: a product of two vectors in another space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kernel {
    /// Its formula.
    pub kind: KernelKind,
    /// The parameter γ.
    pub gamma: f64,
    /// The parameter c.
    pub coef0: f64,
    /// The parameter d.
    pub degree: f64,
}

/// The formula of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelKind {
    /// `x·v`.
    Linear,
    /// `(γ x·v + c)^d`.
    Poly,
    /// `exp(-γ |x - v|²)`.
    Rbf,
    /// `tanh(γ x·v + c)`.
    Sigmoid,
}

/// The support vectors of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct SupportVectors {
    vectors: Vec<f64>,
    n_features: usize,
    kernel: Kernel,
}

impl Kernel {
    /// The kernel in the attributes `kernel_type` and `kernel_params`; linear if they are absent.
    ///
    /// # Errors
    /// If there is no such kernel, or there are not three parameters.
    pub(super) fn read(spec: &NodeSpec<'_>) -> Result<Self, OpError> {
        let kind = match spec.string("kernel_type")?.unwrap_or("LINEAR") {
            "LINEAR" => KernelKind::Linear,
            "POLY" => KernelKind::Poly,
            "RBF" => KernelKind::Rbf,
            "SIGMOID" => KernelKind::Sigmoid,
            other => {
                let found = other.to_owned();
                return Err(OpError::AttributeValue { name: "kernel_type", found });
            }
        };
        let [gamma, coef0, degree] = match spec.floats("kernel_params")?.unwrap_or_default() {
            [] => [0.0; 3],
            &[gamma, coef0, degree] => [gamma, coef0, degree].map(f64::from),
            other => {
                let found = format!("{other:?}");
                return Err(OpError::AttributeValue { name: "kernel_params", found });
            }
        };
        Ok(Self { kind, gamma, coef0, degree })
    }

    fn apply(&self, x: &[f64], vector: &[f64]) -> f64 {
        match self.kind {
            KernelKind::Linear => dot(x, vector),
            KernelKind::Poly => (self.gamma * dot(x, vector) + self.coef0).powf(self.degree),
            KernelKind::Sigmoid => (self.gamma * dot(x, vector) + self.coef0).tanh(),
            KernelKind::Rbf => {
                let distance: f64 = x.iter().zip(vector).map(|(x, v)| (x - v) * (x - v)).sum();
                (-self.gamma * distance).exp()
            }
        }
    }
}

impl SupportVectors {
    /// The `n > 0` vectors in the attribute `support_vectors`.
    ///
    /// # Errors
    /// If there are none, or not as many features for each.
    pub(super) fn read(spec: &NodeSpec<'_>, n: usize, kernel: Kernel) -> Result<Self, OpError> {
        let name = "support_vectors";
        let values = spec.floats(name)?.unwrap_or_default();
        if values.is_empty() || !values.len().is_multiple_of(n) {
            let found = format!("{} values for {n} vectors", values.len());
            return Err(OpError::AttributeValue { name, found });
        }
        let vectors = values.iter().copied().map(f64::from).collect();
        Ok(Self { vectors, n_features: values.len() / n, kernel })
    }

    /// How many features a sample has.
    pub const fn n_features(&self) -> usize {
        self.n_features
    }

    /// The vectors, one after another.
    pub const fn vectors(&self) -> &[f64] {
        self.vectors.as_slice()
    }

    /// The kernel.
    pub const fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// The kernel of a sample, which has as many features, with each vector.
    pub(super) fn products(&self, sample: &[f64]) -> impl Iterator<Item = f64> {
        let vectors = self.vectors.chunks_exact(self.n_features);
        vectors.map(move |vector| self.kernel.apply(sample, vector))
    }
}
