//! The final transforms of the scores of classical models.

use ort_graph::{NodeSpec, OpError};
use ort_tensor::Number;

/// The final transform of the scores of a sample.
///
/// Source: ONNX ML operator set, `post_transform` of `LinearClassifier-1` and others; the formulas,
/// which it does not give, are those of ONNX Runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostTransform {
    /// Nothing.
    None,
    /// `exp(xᵢ - max x) / Σ exp(xⱼ - max x)`.
    Softmax,
    /// `1 / (1 + exp(-x))`.
    Logistic,
    /// [`PostTransform::Softmax`] over the scores that are not zero; zeros stay zero.
    SoftmaxZero,
    /// The inverse of the normal distribution, to three digits.
    Probit,
}

/// How the score of one of two classes becomes a score of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Second {
    /// It is a probability: `[1 - x, x]`.
    Complement,
    /// It is a distance from the border: `[-x, x]`.
    Negated,
}

impl PostTransform {
    /// The attribute `post_transform` as a string; none if it is absent.
    ///
    /// # Errors
    /// If there is no such transform.
    pub(crate) fn read(spec: &NodeSpec<'_>) -> Result<Self, OpError> {
        Ok(match spec.string("post_transform")?.unwrap_or("NONE") {
            "NONE" => Self::None,
            "SOFTMAX" => Self::Softmax,
            "LOGISTIC" => Self::Logistic,
            "SOFTMAX_ZERO" => Self::SoftmaxZero,
            "PROBIT" => Self::Probit,
            other => return Err(wrong(other)),
        })
    }

    /// The attribute `post_transform` as a number; none if it is absent.
    ///
    /// # Errors
    /// If there is no such transform.
    pub(crate) fn read_number(spec: &NodeSpec<'_>) -> Result<Self, OpError> {
        Ok(match spec.int("post_transform")?.unwrap_or(0) {
            0 => Self::None,
            1 => Self::Softmax,
            2 => Self::Logistic,
            3 => Self::SoftmaxZero,
            4 => Self::Probit,
            other => return Err(wrong(other)),
        })
    }

    /// Transforms the scores of a sample. A single score is not a distribution over classes: as in ONNX Runtime, only
    /// [`PostTransform::Probit`] changes it.
    pub fn apply<T: Number>(self, scores: &mut [T]) {
        let each = |scores: &mut [T], f: fn(f64) -> f64| {
            scores.iter_mut().for_each(|x| *x = T::from_f64(f(x.to_f64())));
        };
        match self {
            Self::Probit => each(scores, probit),
            _ if scores.len() == 1 => {}
            Self::None => {}
            Self::Logistic => each(scores, logistic),
            Self::Softmax => softmax(scores, |_| true),
            Self::SoftmaxZero => softmax(scores, |x| x.abs() > NEARLY_ZERO),
        }
    }

    /// The scores of both classes from that of the second. As in ONNX Runtime no softmax is taken,
    /// and a probit is a single score: the other column, which ONNX Runtime leaves unwritten, is zero.
    pub fn both(self, score: f64, second: Second) -> [f64; 2] {
        match (self, second) {
            (Self::Probit, _) => [probit(score), 0.0],
            (Self::Logistic, _) => [logistic(-score), logistic(score)],
            (_, Second::Complement) => [1.0 - score, score],
            (_, Second::Negated) => [-score, score],
        }
    }
}

/// Scores up to this count as zero for [`PostTransform::SoftmaxZero`] (ONNX Runtime's constant).
const NEARLY_ZERO: f64 = 1e-7;

fn wrong(found: impl ToString) -> OpError {
    OpError::AttributeValue { name: "post_transform", found: found.to_string() }
}

/// `1 / (1 + exp(-x))`.
pub(crate) fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// `√2 · erf⁻¹(2x - 1)` by the closed form of S. Winitzki, "A handy approximation for the error
/// function and its inverse", 2008, with a = 0.147: with a relative error of at most 2e-3. NaN outside
/// of 0 to 1, infinite at both.
fn probit(x: f64) -> f64 {
    const A: f64 = 0.147;
    let x = 2.0 * x - 1.0;
    let log = ((1.0 - x) * (1.0 + x)).ln();
    let half = 2.0 / (std::f64::consts::PI * A) + 0.5 * log;
    let square = (half * half - log / A).sqrt() - half;
    (2.0 * square).sqrt().copysign(x)
}

/// Softmax over the scores that take part; the others get their multiple of `exp(-max)`, which is zero for zero.
/// Without any participating score the result is NaN.
fn softmax<T: Number>(scores: &mut [T], takes_part: impl Fn(f64) -> bool) {
    let max = scores.iter().map(|x| x.to_f64()).fold(f64::NEG_INFINITY, f64::max);
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        let x = score.to_f64();
        let is_part = takes_part(x);
        let x = if is_part { (x - max).exp() } else { x * (-max).exp() };
        *score = T::from_f64(x);
        sum += if is_part { x } else { 0.0 };
    }
    scores.iter_mut().for_each(|x| *x = T::from_f64(x.to_f64() / sum));
}

/// The first of the largest; 0 if there is none.
pub fn argmax<T: Copy + PartialOrd>(scores: &[T]) -> usize {
    let mut scores = scores.iter().copied().enumerate();
    let Some(mut best) = scores.next() else { return 0 };
    for (i, score) in scores {
        if score > best.1 {
            best = (i, score);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_transform_is_its_formula() {
        let apply = |transform: PostTransform, scores: &[f64]| {
            let mut scores = scores.to_vec();
            transform.apply(&mut scores);
            scores.iter().map(|x| (x * 1e4).round() / 1e4).collect::<Vec<_>>()
        };
        let third = 0.3333;
        assert_eq!(apply(PostTransform::None, &[1.5, -2.0]), [1.5, -2.0]);
        assert_eq!(apply(PostTransform::Softmax, &[7.0; 3]), [third; 3]);
        assert_eq!(apply(PostTransform::SoftmaxZero, &[2.0, 0.0, 2.0]), [0.5, 0.0, 0.5]);
        assert_eq!(apply(PostTransform::Logistic, &[0.0, 1.0]), [0.5, 0.7311]);
        assert_eq!(apply(PostTransform::Probit, &[0.0, 0.5, 1.0])[1], 0.0);
        // The exact value is 1.2816.
        assert_eq!(apply(PostTransform::Probit, &[0.9]), [1.2817]);
        assert!(apply(PostTransform::Probit, &[2.0])[0].is_nan());
        assert!(apply(PostTransform::SoftmaxZero, &[0.0, 0.0])[0].is_nan());
    }

    #[test]
    fn a_lone_score_knows_only_the_probit() {
        for transform in [PostTransform::Softmax, PostTransform::Logistic] {
            let mut score = [3.0];
            transform.apply(&mut score);
            assert_eq!(score, [3.0]);
        }
    }
}
