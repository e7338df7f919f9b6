//! What the operators make of the sums: scores, and maybe a class.

use std::any::Any;

use ort_ep::KernelError;
use ort_graph::Operator;
use ort_kernels::{Isa, vec};
use ort_ops::labels::ClassLabels;
use ort_ops::linear::LinearModel;
use ort_ops::ops::ml::linear_classifier::LinearClassifier;
use ort_ops::ops::ml::linear_regressor::LinearRegressor;
use ort_ops::ops::ml::svm::{
    Decision, Pairwise, SupportVectors, SvmClasses, SvmClassifier, SvmRegressor, SvmTarget,
};
use ort_ops::scores::{PostTransform, Second, argmax};
use ort_tensor::Number;

use super::support::Real;

/// The most weights of pairs of classes, as a multiple of the coefficients: half the number of classes.
const MOST_ZEROS: usize = 8;
/// Fewer weights may have any number of zeros: 4 MiB of f32.
const FEW: usize = 1 << 20;

/// The scores of a short row, at most.
const SHORT: usize = 16;

/// What is made of the sums.
#[derive(Clone, Copy)]
pub(super) enum Model<'a> {
    Regressor(&'a LinearRegressor),
    Classifier(&'a LinearClassifier),
    SvmRegressor(&'a SvmRegressor),
    SvmClassifier(&'a SvmClassifier),
}

/// The weights of the sums: `[targets, len]`, and an offset for each target.
#[derive(Debug)]
pub(super) struct Weights<T> {
    pub(super) weights: Vec<T>,
    pub(super) offsets: Vec<T>,
}

impl<T: Real> Weights<T> {
    fn new(weights: &[f64], offsets: &[f64]) -> Self {
        // bounded: as long as attributes
        let list = |values: &[f64]| values.iter().map(|&value| T::from_f64(value)).collect();
        Self { weights: list(weights), offsets: list(offsets) }
    }

    fn linear(model: &LinearModel) -> Self {
        Self::new(model.coefficients(), model.intercepts())
    }

    /// The weights of each pair of classes for all support vectors, most of them zeros; `None` if those are too many.
    fn pairwise(pairs: &Pairwise) -> Option<Self> {
        let n_vectors = pairs.support().vectors().len() / pairs.support().n_features().max(1);
        let mut weights = Self::new(&[], pairs.rho());
        let n_coefficients: usize =
            pairs.weights().flatten().map(|(_, weights)| weights.len()).sum();
        let len = n_vectors.checked_mul(pairs.rho().len())?;
        if len > n_coefficients.saturating_mul(MOST_ZEROS).max(FEW) {
            return None;
        }
        // bounded: by the coefficients
        weights.weights = vec![T::default(); len];
        for (row, pair) in weights.weights.chunks_exact_mut(n_vectors).zip(pairs.weights()) {
            for (vectors, values) in pair {
                let places = row[vectors].iter_mut();
                places.zip(values).for_each(|(place, &value)| *place = T::from_f64(value));
            }
        }
        Some(weights)
    }

    /// The weights of features, from those of support vectors.
    pub(super) fn times(self, support: &SupportVectors) -> Self {
        let n_features = support.n_features();
        // bounded: as long as attributes
        let mut sums = vec![0.0; n_features * self.n_targets()];
        let rows = self.weights.chunks_exact(self.len());
        for (sums, weights) in sums.chunks_exact_mut(n_features).zip(rows) {
            for (vector, weight) in support.vectors().chunks_exact(n_features).zip(weights) {
                let weight = weight.to_f64();
                sums.iter_mut().zip(vector).for_each(|(sum, x)| *sum += weight * x);
            }
        }
        // bounded: as long as the sums
        Self { weights: sums.into_iter().map(T::from_f64).collect(), ..self }
    }

    pub(super) const fn n_targets(&self) -> usize {
        self.offsets.len()
    }

    /// The terms of a sum.
    pub(super) const fn len(&self) -> usize {
        self.weights.len() / self.offsets.len()
    }
}

impl<'a> Model<'a> {
    pub(super) fn of(op: &'a dyn Operator) -> Option<Self> {
        let op: &dyn Any = op;
        let linear = op.downcast_ref().map(Self::Regressor);
        linear
            .or_else(|| op.downcast_ref().map(Self::Classifier))
            .or_else(|| op.downcast_ref().map(Self::SvmRegressor))
            .or_else(|| op.downcast_ref().map(Self::SvmClassifier))
    }

    pub(super) fn weights<T: Real>(self) -> Option<Weights<T>> {
        Some(match self {
            Self::Regressor(op) => Weights::linear(&op.model),
            Self::Classifier(op) => Weights::linear(&op.model),
            Self::SvmRegressor(op) => match &op.target {
                SvmTarget::Linear(model) => Weights::linear(model),
                SvmTarget::Kernels { coefficients, rho, .. } => Weights::new(coefficients, &[*rho]),
            },
            Self::SvmClassifier(op) => match &op.classes {
                SvmClasses::Linear { model, .. } => Weights::linear(model),
                SvmClasses::Pairwise(pairs) => Weights::pairwise(pairs)?,
            },
        })
    }

    pub(super) const fn support(self) -> Option<&'a SupportVectors> {
        match self {
            Self::SvmRegressor(op) => match &op.target {
                SvmTarget::Kernels { support, .. } => Some(support),
                SvmTarget::Linear(_) => None,
            },
            Self::SvmClassifier(op) => match &op.classes {
                SvmClasses::Pairwise(pairs) => Some(pairs.support()),
                SvmClasses::Linear { .. } => None,
            },
            _ => None,
        }
    }

    pub(super) const fn n_features(self) -> usize {
        match self {
            Self::Regressor(op) => op.model.n_features(),
            Self::Classifier(op) => op.model.n_features(),
            Self::SvmRegressor(op) => op.target.n_features(),
            Self::SvmClassifier(op) => op.n_features(),
        }
    }

    /// The scores of a sample.
    pub(super) const fn n_columns(self) -> usize {
        match self {
            Self::Regressor(op) => op.model.n_targets(),
            Self::Classifier(op) => op.labels.n_classes(),
            Self::SvmRegressor(_) => 1,
            Self::SvmClassifier(op) => op.n_columns(),
        }
    }

    pub(super) const fn labels(self) -> Option<&'a ClassLabels> {
        match self {
            Self::Classifier(op) => Some(&op.labels),
            Self::SvmClassifier(op) => Some(&op.labels),
            _ => None,
        }
    }

    /// The place of the output that has the scores.
    pub(super) const fn scores_at(self) -> usize {
        if self.labels().is_some() { 1 } else { 0 }
    }

    /// Memory for decisions, if any is needed.
    pub(super) fn decision(self) -> Result<Option<Decision>, KernelError> {
        match self {
            Self::SvmClassifier(op) => Ok(Some(op.decision()?)),
            _ => Ok(None),
        }
    }

    /// The scores, unless `y` is empty, and the classes of samples from their sums, `n_targets` for each.
    pub(super) fn decide<T: Real>(
        self,
        isa: Isa,
        (sums, n_targets): (&[T], usize),
        decision: &mut Option<Decision>,
        (y, classes): (&mut [f32], &mut [usize]),
    ) {
        let n_columns = self.n_columns();
        let rows = sums.chunks_exact(n_targets);
        match self {
            Self::Regressor(op) => {
                y.iter_mut().zip(sums).for_each(|(y, sum)| *y = f32::from_f64(sum.to_f64()));
                transform(isa, op.post_transform, y, n_columns);
            }
            Self::Classifier(op) if n_targets == 1 && n_columns == 2 => {
                let of = |sum: &T| usize::from(sum.to_f64() > 0.0);
                classes.iter_mut().zip(sums).for_each(|(class, sum)| *class = of(sum));
                both(isa, op.post_transform, sums, y);
            }
            Self::Classifier(op) => {
                classes.iter_mut().zip(rows).for_each(|(class, sums)| *class = argmax(sums));
                y.iter_mut().zip(sums).for_each(|(y, sum)| *y = f32::from_f64(sum.to_f64()));
                transform(isa, op.post_transform, y, n_columns);
            }
            Self::SvmRegressor(op) => {
                let of = |sum: &T| f32::from_f64(op.result(sum.to_f64()));
                y.iter_mut().zip(sums).for_each(|(y, sum)| *y = of(sum));
            }
            Self::SvmClassifier(op) => {
                let Some(decision) = decision else { return };
                let mut y = y.chunks_exact_mut(n_columns);
                for (class, sums) in classes.iter_mut().zip(rows) {
                    *class = op.decide(sums, decision, y.next().unwrap_or_default());
                }
            }
        }
    }
}

/// Transforms rows of `len` scores.
fn transform(isa: Isa, how: PostTransform, y: &mut [f32], len: usize) {
    match how {
        PostTransform::Softmax if len > 1 && len <= SHORT => softmax_of_short_rows(isa, y, len),
        PostTransform::Softmax if len > 1 => {
            vec::softmax_rows(isa, vec::Rows { x: None, y, len }, vec::SoftmaxForm::Direct);
        }
        PostTransform::Logistic if len > 1 => vec::sigmoid(isa, y),
        PostTransform::None => {}
        _ => y.chunks_exact_mut(len).for_each(|scores| how.apply(scores)),
    }
}

/// Softmax of rows of `len` scores, whose exponentials are taken together.
fn softmax_of_short_rows(isa: Isa, y: &mut [f32], len: usize) {
    for row in y.chunks_exact_mut(len) {
        let greatest = row.iter().copied().fold(f32::NEG_INFINITY, vec::greater);
        row.iter_mut().for_each(|x| *x -= greatest);
    }
    vec::exp(isa, y);
    for row in y.chunks_exact_mut(len) {
        let factor = 1.0 / row.iter().sum::<f32>();
        row.iter_mut().for_each(|x| *x *= factor);
    }
}

/// The scores of both classes from those of the second.
fn both<T: Real>(isa: Isa, how: PostTransform, sums: &[T], y: &mut [f32]) {
    let (pairs, _) = y.as_chunks_mut::<2>();
    if how == PostTransform::Logistic {
        for (pair, sum) in pairs.iter_mut().zip(sums) {
            let sum = f32::from_f64(sum.to_f64());
            *pair = [-sum, sum];
        }
        return vec::sigmoid(isa, y);
    }
    for (pair, sum) in pairs.iter_mut().zip(sums) {
        *pair = how.both(sum.to_f64(), Second::Complement).map(f32::from_f64);
    }
}
