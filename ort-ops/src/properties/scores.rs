//! The final transforms of classical models' scores.

use ort_graph::Attr;

use super::Draw;

/// `post_transform` as a string, and as the number of TreeEnsemble.
pub(super) const TRANSFORMS: [&str; 5] = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"];

/// A transform, and its attribute.
pub(super) fn transform(draw: &mut Draw) -> (&'static str, Option<Attr>) {
    let transform = draw.pick(&TRANSFORMS);
    let is_written = transform != "NONE" || draw.one_in(2);
    (transform, is_written.then(|| Attr::String(transform.to_owned())))
}

/// The transformed scores of a sample. A single score is not a distribution over classes: only the probit changes it.
pub(super) fn transformed(transform: &str, scores: &[f64]) -> Vec<f64> {
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let softmax = |part: &dyn Fn(f64) -> bool| {
        let powers = scores.iter().map(|&x| if part(x) { (x - max).exp() } else { 0.0 });
        let sum: f64 = powers.clone().sum();
        powers.map(|power| power / sum).collect()
    };
    match transform {
        "PROBIT" => scores.iter().map(|&x| probit(x)).collect(),
        _ if scores.len() == 1 => scores.to_vec(),
        "SOFTMAX" => softmax(&|_| true),
        "SOFTMAX_ZERO" => softmax(&|x| x != 0.0),
        "LOGISTIC" => scores.iter().map(|&x| logistic(x)).collect(),
        _ => scores.to_vec(),
    }
}

/// The scores of both classes from that of the second: it is a probability, or its distance from
/// the border. Its probit is in the first column alone.
pub(super) fn of_both(transform: &str, score: f64, is_probability: bool) -> Vec<f64> {
    match transform {
        "PROBIT" => vec![probit(score), 0.0],
        "LOGISTIC" => vec![logistic(-score), logistic(score)],
        _ if is_probability => vec![1.0 - score, score],
        _ => vec![-score, score],
    }
}

pub(super) fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// `√2 · erf⁻¹(2x − 1)` with ONNX Runtime's approximation, with the constant 0.147.
fn probit(x: f64) -> f64 {
    let z = 2.0 * x - 1.0;
    let log = (1.0 - z * z).ln();
    let a = 2.0 / (std::f64::consts::PI * 0.147) + log / 2.0;
    std::f64::consts::SQRT_2 * ((a * a - log / 0.147).sqrt() - a).sqrt().copysign(z)
}

/// The first of the largest.
pub(super) fn first_largest(scores: &[f64]) -> usize {
    (0..scores.len()).rev().max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap_or(0)
}
