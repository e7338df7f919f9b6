//! SVMClassifier: the class that wins most pairwise decisions, or has the largest weighted sum.

// collects are bounded: as long as the file's lists, or into room that was asked for

use std::ops::Range;
use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output, Pace, Room, filled, with_room};

use super::coupling::Coupling;
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

    /// How many scores a sample has.
    pub const fn n_columns(&self) -> usize {
        match &self.classes {
            SvmClasses::Pairwise(pairs) if pairs.probabilities.is_none() => match pairs.rho.len() {
                1 => 2,
                n => n,
            },
            _ => self.labels.n_classes(),
        }
    }

    /// How many features a sample has.
    pub const fn n_features(&self) -> usize {
        match &self.classes {
            SvmClasses::Linear { model, .. } => model.n_features(),
            SvmClasses::Pairwise(pairs) => pairs.support.n_features(),
        }
    }

    /// Memory for decisions.
    ///
    /// # Errors
    /// If there is none.
    pub fn decision(&self) -> Result<Decision, OpError> {
        let n = self.labels.n_classes();
        let (n_wins, n_coupled) = match &self.classes {
            SvmClasses::Linear { .. } => (0, 0),
            SvmClasses::Pairwise(pairs) if pairs.probabilities.is_none() => (n, 0),
            SvmClasses::Pairwise(_) => (n, n),
        };
        Ok(Decision { wins: Room::filled(0.0, n_wins)?, coupling: Coupling::new(n_coupled)? })
    }

    /// The class of a sample from its sums, one for each class or for each pair of classes: of these, the class that
    /// wins most, the first of equals. Its scores go to `y`, unless that is empty.
    pub fn decide<T: Number, Y: Number>(
        &self,
        sums: &[T],
        decision: &mut Decision,
        y: &mut [Y],
    ) -> usize {
        let write = |y: &mut [Y], scores: &mut dyn Iterator<Item = f64>| {
            y.iter_mut().zip(scores).for_each(|(y, score)| *y = Y::from_f64(score));
        };
        let mut sums_as_f64 = sums.iter().map(|sum| sum.to_f64());
        let (class, is_coupled) = match &self.classes {
            SvmClasses::Linear { border, .. } => (border.winner(sums), false),
            SvmClasses::Pairwise(pairs) => {
                (pairs.decide(sums, decision), pairs.probabilities.is_some())
            }
        };
        match sums {
            _ if y.is_empty() => return class,
            _ if is_coupled => write(y, &mut decision.coupling.couple().iter().copied()),
            [score] if self.n_columns() == 2 => {
                let is_raw = self.post_transform == PostTransform::None;
                let second = if is_raw { Second::Negated } else { Second::Complement };
                let both = self.post_transform.both(score.to_f64(), second);
                write(y, &mut both.into_iter());
                return class;
            }
            _ => write(y, &mut sums_as_f64),
        }
        self.post_transform.apply(y);
        class
    }

    /// The sums of a sample.
    fn sums(&self, row: &[f64], products: &mut Vec<f64>, sums: &mut Vec<f64>) {
        sums.clear();
        match &self.classes {
            SvmClasses::Linear { model, .. } => sums.extend(model.scores(row)),
            SvmClasses::Pairwise(pairs) => {
                products.clear();
                products.extend(pairs.support.products(row));
                pairs.sums(products, sums);
            }
        }
    }
}

/// Memory for the decision about a sample.
#[derive(Debug)]
pub struct Decision {
    /// The decisions that each class won.
    wins: Room<f64>,
    coupling: Coupling,
}

impl Border {
    fn winner<T: Number>(self, scores: &[T]) -> usize {
        let best = argmax(scores);
        let greatest = scores[best].to_f64();
        let is_past = match self {
            Self::None => false,
            Self::Zero => greatest > 0.0,
            Self::Half => greatest >= 0.5,
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

    /// The support vectors.
    pub const fn support(&self) -> &SupportVectors {
        &self.support
    }

    /// The offset of each pair of classes.
    pub const fn rho(&self) -> &[f64] {
        self.rho.as_slice()
    }

    /// The weights of each pair of classes: the vectors of the first class, and those of the second.
    pub fn weights(&self) -> impl Iterator<Item = [(Range<usize>, &[f64]); 2]> {
        let weights = |of: usize, row: usize| {
            let vectors = self.starts[of]..self.starts[of + 1];
            let first = row * self.starts[self.starts.len() - 1];
            (vectors.clone(), &self.coefficients[first + vectors.start..first + vectors.end])
        };
        class_pairs(self.starts.len() - 1).map(move |(i, j)| [weights(i, j - 1), weights(j, i)])
    }

    /// The sum of each pair of classes, from the products with the support vectors.
    fn sums(&self, products: &[f64], sums: &mut Vec<f64>) {
        sums.extend(self.weights().zip(&self.rho).map(|([first, second], rho)| {
            let weighted =
                |(vectors, weights): (Range<usize>, &[f64])| dot(weights, &products[vectors]);
            weighted(first) + weighted(second) + rho
        }));
    }

    /// The class that wins most decisions, the first of equals; the probabilities of pairs, if there are any, go to the
    /// coupling.
    fn decide<T: Number>(&self, sums: &[T], decision: &mut Decision) -> usize {
        let n_classes = decision.wins.len();
        decision.wins.fill(0.0);
        for ((i, j), sum) in class_pairs(n_classes).zip(sums) {
            decision.wins[if sum.to_f64() > 0.0 { i } else { j }] += 1.0;
        }
        let Some(probabilities) = &self.probabilities else { return argmax(&decision.wins) };
        let r = &mut decision.coupling.r;
        for ((i, j), (sum, (a, b))) in class_pairs(n_classes).zip(sums.iter().zip(probabilities)) {
            let p = logistic(-(sum.to_f64() * a + b)).clamp(1e-7, 1.0 - 1e-7);
            (r[i * n_classes + j], r[j * n_classes + i]) = (p, 1.0 - p);
        }
        argmax(&decision.wins)
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
        rows.expect_features(self.n_features())?;
        let width = self.n_columns();
        let mut results = Room::filled(0.0, rows.n.checked_mul(width).ok_or(OpError::TooLarge)?)?;
        let mut classes = with_room(rows.n)?;
        let (mut products, mut sums, mut decision) = (Vec::new(), Vec::new(), self.decision()?);
        for (i, row) in rows.iter(Pace::STEP).enumerate() {
            self.sums(row?, &mut products, &mut sums);
            classes.push(self.decide(&sums, &mut decision, &mut results[i * width..][..width]));
        }
        floats::write(outputs, 1, DType::F32, &[rows.n, width], &results)?;
        self.labels.write(outputs, &classes)
    }
}
