//! SVMClassifier: the class that wins most pairwise decisions, or has the largest weighted sum.

// collects are bounded: as long as the file's lists, or into room that was asked for

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Pace, Room, filled, with_room};

use super::coupling::couple;
use super::kernel::{Kernel, SupportVectors};
use crate::features::{Rows, is_feature, n_rows};
use crate::floats;
use crate::labels::ClassLabels;
use crate::linear::{LinearModel, required_floats};
use crate::product::dot;
use crate::scores::{PostTransform, Second, argmax, logistic};

/// `y[n]` = the label of the winner, `z[n]` = the scores, transformed.
///
/// `x`: `[N, F]` or `[F]`; `y`: `[N]`, integers or strings; `z`: float, `[N, C]` with weighted sums
/// or probabilities. Without probabilities, two classes have `[-s, s]` (`[1 - s, s]` under a
/// transform) and more than two have a score for each pair, in the order 0-1, 0-2, …, 1-2, ….
///
/// Source: ONNX ML operator set, `SVMClassifier-1`; where it is silent, as in ONNX Runtime.
#[derive(Clone, Debug, PartialEq)]
pub struct SvmClassifier {
    /// The model.
    pub classes: SvmClasses,
    /// The labels of the classes.
    pub labels: ClassLabels,
    /// The transform of the scores.
    pub post_transform: PostTransform,
}

/// How classes are distinguished.
#[derive(Clone, Debug, PartialEq)]
pub enum SvmClasses {
    /// By a weighted sum of the features for each.
    Linear {
        /// The weights.
        model: LinearModel,
        /// Of two classes the second wins if either score is past this border.
        border: Border,
    },
    /// By pairwise decisions.
    Pairwise(Pairwise),
}

/// The border that a score of two classes must pass for the second to win.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Border {
    /// No border: the larger score wins.
    None,
    /// Above zero.
    Zero,
    /// At least a half: no coefficient is negative, so that scores are probabilities.
    Half,
}

/// One-vs-one decisions by kernels.
#[derive(Clone, Debug, PartialEq)]
pub struct Pairwise {
    support: SupportVectors,
    /// `[C - 1, V]`: in row `j - 1` (or `j` if `j` is before the class of the vector), the weight of a vector in the
    /// decision between its class and class `j`.
    coefficients: Vec<f64>,
    /// The starts of the vectors of each class, and the end of the last.
    starts: Vec<usize>,
    /// The offset of each decision.
    rho: Vec<f64>,
    /// For each decision, factor and offset of the score in the logit of its probability.
    probabilities: Option<Vec<(f64, f64)>>,
}

impl SvmClassifier {
    pub(super) fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let labels = ClassLabels::read(spec, "classlabels_ints", "classlabels_strings")?;
        let kernel = Kernel::read(spec)?;
        let coefficients = required_floats(spec, "coefficients")?;
        let starts = starts(spec.ints("vectors_per_class")?.unwrap_or_default())?;
        let classes = match starts.last() {
            Some(&n) if n > 0 => {
                SvmClasses::Pairwise(Pairwise::read(spec, starts, labels.n_classes(), kernel)?)
            }
            _ => {
                spec.ignore("support_vectors");
                let rho = f64::from(required_floats(spec, "rho")?[0]);
                let border = match has_probabilities(spec)? {
                    true => Border::None,
                    false if coefficients.iter().all(|&x| x >= 0.0) => Border::Half,
                    false => Border::Zero,
                };
                let model = LinearModel::new(coefficients, filled(rho, labels.n_classes())?)?;
                SvmClasses::Linear { model, border }
            }
        };
        Ok(Arc::new(Self { classes, labels, post_transform: PostTransform::read(spec)? }))
    }

    const fn n_columns(&self) -> usize {
        match &self.classes {
            SvmClasses::Pairwise(pairs) if pairs.probabilities.is_none() => match pairs.rho.len() {
                1 => 2,
                n => n,
            },
            _ => self.labels.n_classes(),
        }
    }

    /// The class of a sample; its scores go to `results`.
    fn classify(&self, row: &[f64], results: &mut Vec<f64>) -> Result<usize, OpError> {
        let (class, mut scores) = match &self.classes {
            SvmClasses::Linear { model, border } => {
                let scores: Vec<f64> = model.scores(row).collect();
                (border.winner(&scores), scores)
            }
            SvmClasses::Pairwise(pairs) => pairs.classify(row, self.labels.n_classes())?,
        };
        match scores[..] {
            [score] if self.n_columns() == 2 => {
                let is_raw = self.post_transform == PostTransform::None;
                let second = if is_raw { Second::Negated } else { Second::Complement };
                results.extend(self.post_transform.both(score, second));
            }
            _ => {
                self.post_transform.apply(&mut scores);
                results.append(&mut scores);
            }
        }
        Ok(class)
    }
}

impl Border {
    fn winner(self, scores: &[f64]) -> usize {
        let best = argmax(scores);
        let is_past = match self {
            Self::None => false,
            Self::Zero => scores[best] > 0.0,
            Self::Half => scores[best] >= 0.5,
        };
        if scores.len() == 2 && is_past { 1 } else { best }
    }
}

impl Pairwise {
    fn read(
        spec: &NodeSpec<'_>,
        starts: Vec<usize>,
        n_classes: usize,
        kernel: Kernel,
    ) -> Result<Self, OpError> {
        let n_vectors = starts.last().copied().unwrap_or(0);
        if starts.len() != n_classes + 1 || n_classes < 2 {
            let found = format!("{} values for {n_classes} classes", starts.len() - 1);
            return Err(OpError::AttributeValue { name: "vectors_per_class", found });
        }
        let support = SupportVectors::read(spec, n_vectors, kernel)?;
        let n_coefficients = n_vectors.checked_mul(n_classes - 1).ok_or(OpError::TooLarge)?;
        let n_pairs = n_classes.checked_mul(n_classes - 1).ok_or(OpError::TooLarge)? / 2;
        let coefficients = at_least(spec, "coefficients", n_coefficients)?;
        let rho = at_least(spec, "rho", n_pairs)?;
        let probabilities = if has_probabilities(spec)? {
            let offsets = at_least(spec, "prob_b", n_pairs)?;
            Some(at_least(spec, "prob_a", n_pairs)?.into_iter().zip(offsets).collect())
        } else {
            None
        };
        Ok(Self { support, coefficients, starts, rho, probabilities })
    }

    /// The class that wins most decisions, the first of equals; the scores of the decisions, or the probabilities of
    /// the classes.
    fn classify(&self, row: &[f64], n_classes: usize) -> Result<(usize, Vec<f64>), OpError> {
        let products: Vec<f64> = self.support.products(row).collect();
        let n_vectors = products.len();
        let mut wins = Room::filled(0.0, n_classes)?;
        let mut scores = Vec::new();
        let weighted = |of: usize, row: usize| {
            let vectors = self.starts[of]..self.starts[of + 1];
            let coefficients = &self.coefficients[row * n_vectors..][..n_vectors];
            dot(&coefficients[vectors.clone()], &products[vectors])
        };
        for ((i, j), rho) in class_pairs(n_classes).zip(&self.rho) {
            let score = weighted(i, j - 1) + weighted(j, i) + rho;
            wins[if score > 0.0 { i } else { j }] += 1.0;
            scores.push(score);
        }
        if let Some(probabilities) = &self.probabilities {
            let mut r = Room::filled(0.0, n_classes * n_classes)?;
            for ((i, j), (score, (a, b))) in
                class_pairs(n_classes).zip(scores.iter().zip(probabilities))
            {
                let p = logistic(-(score * a + b)).clamp(1e-7, 1.0 - 1e-7);
                (r[i * n_classes + j], r[j * n_classes + i]) = (p, 1.0 - p);
            }
            scores = couple(&r, n_classes)?.to_vec();
        }
        Ok((argmax(&wins), scores))
    }
}

/// Whether scores are to become probabilities.
fn has_probabilities(spec: &NodeSpec<'_>) -> Result<bool, OpError> {
    let given = [spec.floats("prob_a")?, spec.floats("prob_b")?];
    Ok(given.iter().flatten().any(|values| !values.is_empty()))
}

/// Each pair of classes in order.
fn class_pairs(n_classes: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n_classes).flat_map(move |i| (i + 1..n_classes).map(move |j| (i, j)))
}

/// The starts of the vectors of each class, and the end of the last.
fn starts(vectors_per_class: &[i64]) -> Result<Vec<usize>, OpError> {
    let mut starts = vec![0_usize];
    for &n in vectors_per_class {
        let end = usize::try_from(n).ok().and_then(|n| starts[starts.len() - 1].checked_add(n));
        let wrong = || OpError::AttributeValue { name: "vectors_per_class", found: n.to_string() };
        starts.push(end.ok_or_else(wrong)?);
    }
    Ok(starts)
}

/// The first `n` floats of the attribute `name`.
fn at_least(spec: &NodeSpec<'_>, name: &'static str, n: usize) -> Result<Vec<f64>, OpError> {
    let values = spec.floats(name)?.unwrap_or_default();
    let found = || format!("{} values where {n} are needed", values.len());
    let values = values.get(..n).ok_or_else(|| OpError::AttributeValue { name, found: found() })?;
    Ok(values.iter().copied().map(f64::from).collect())
}

impl Operator for SvmClassifier {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let n = n_rows(inputs, is_feature)?;
        let labels = Fact::tensor(self.labels.dtype(), [n.clone()]);
        Ok(vec![labels, Fact::tensor(DType::F32, [n, Dim::Known(self.n_columns())])])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let rows = Rows::read(inputs)?;
        rows.expect_features(match &self.classes {
            SvmClasses::Linear { model, .. } => model.n_features(),
            SvmClasses::Pairwise(pairs) => pairs.support.n_features(),
        })?;
        let mut results = rows.results(self.n_columns())?;
        let mut classes = with_room(rows.n)?;
        for row in rows.iter(Pace::STEP) {
            let row = row?;
            classes.push(self.classify(row, &mut results)?);
        }
        floats::write(outputs, 1, DType::F32, &[rows.n, self.n_columns()], &results)?;
        self.labels.write(outputs, &classes)
    }
}
