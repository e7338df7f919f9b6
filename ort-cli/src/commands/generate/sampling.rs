//! Chooses the next token from a model's logits.
//!
//! ```text
//! logits of tokens that already occur are divided by the penalty (multiplied, if negative)
//! temperature 0: the token with the highest logit, the first of equal ones
//! otherwise:     logits / temperature; of the top_k highest, the likeliest that together have the
//!                probability top_p; one of them at random
//! ```
//!
//! Source: the logits processors of Hugging Face transformers: RepetitionPenalty, Temperature, TopK, TopP.

use std::cmp::Ordering;

use crate::random::SplitMix64;

/// How tokens are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sampling {
    pub(super) temperature: f32,
    /// 0 for all.
    pub(super) top_k: usize,
    /// 1 for all.
    pub(super) top_p: f32,
    pub(super) repetition_penalty: f32,
}

impl Sampling {
    /// The next token; `scores` are overwritten. NaN is chosen only if there is nothing else.
    pub(super) fn choose(
        &self,
        scores: &mut [f32],
        before: &[usize],
        random: &mut SplitMix64,
    ) -> usize {
        self.penalize(scores, before);
        for score in &mut *scores {
            if score.is_nan() {
                *score = f32::NEG_INFINITY;
            }
        }
        if self.temperature <= 0.0 {
            return highest(scores);
        }
        let mut order: Vec<usize> = (0..scores.len()).collect();
        let by_score = |&a: &usize, &b: &usize| scores[b].total_cmp(&scores[a]).then(a.cmp(&b));
        if self.top_k > 0 && self.top_k < order.len() {
            order.select_nth_unstable_by(self.top_k, by_score);
            order.truncate(self.top_k);
        }
        order.sort_unstable_by(by_score);
        let top = order.first().map_or(0.0, |&token| scores[token]);
        let weight = |&token: &usize| f64::from((scores[token] - top) / self.temperature).exp();
        let weights: Vec<f64> = order.iter().map(weight).collect();
        let n = kept(&weights, f64::from(self.top_p));
        let sum: f64 = weights[..n].iter().sum();
        let mut left = random.unit() * sum;
        let found = weights[..n].iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        order.get(found.unwrap_or(0)).copied().unwrap_or(0)
    }

    fn penalize(&self, scores: &mut [f32], before: &[usize]) {
        if self.repetition_penalty == 1.0 {
            return;
        }
        let mut seen: Vec<usize> = before.to_vec();
        seen.sort_unstable();
        seen.dedup();
        for token in seen {
            if let Some(score) = scores.get_mut(token) {
                let is_positive = *score > 0.0;
                let penalty = self.repetition_penalty;
                *score = if is_positive { *score / penalty } else { *score * penalty };
            }
        }
    }
}

fn highest(scores: &[f32]) -> usize {
    let better = |best: usize, i: usize| match scores[i].total_cmp(&scores[best]) {
        Ordering::Greater => i,
        _ => best,
    };
    (0..scores.len()).reduce(better).unwrap_or(0)
}

/// How many of the weights, in descending order, reach the share `top_p` of their sum; at least one.
fn kept(weights: &[f64], top_p: f64) -> usize {
    if top_p >= 1.0 {
        return weights.len();
    }
    let enough = weights.iter().sum::<f64>() * top_p;
    let sums = weights.iter().scan(0.0, |sum, weight| {
        *sum += weight;
        Some(*sum)
    });
    (sums.take_while(|sum| *sum < enough).count() + 1).min(weights.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREEDY: Sampling =
        Sampling { temperature: 0.0, top_k: 0, top_p: 1.0, repetition_penalty: 1.0 };

    fn chosen(sampling: Sampling, scores: &[f32]) -> Vec<usize> {
        let mut random = SplitMix64::new(7);
        (0..2000).map(|_| sampling.choose(&mut scores.to_vec(), &[], &mut random)).collect()
    }

    #[test]
    fn without_temperature_the_first_of_the_highest_is_chosen() {
        let choose = |scores: &[f32], before: &[usize], repetition_penalty| {
            let sampling = Sampling { repetition_penalty, ..GREEDY };
            sampling.choose(&mut scores.to_vec(), before, &mut SplitMix64::new(0))
        };
        assert_eq!(choose(&[1.0, 3.0, 3.0, 2.0], &[], 1.0), 1);
        assert_eq!(choose(&[f32::NAN, -3.0, f32::NEG_INFINITY], &[], 1.0), 1);
        assert_eq!(choose(&[1.0, 3.0, 2.5], &[1, 1, 9], 2.0), 2);
        assert_eq!(choose(&[-1.0, -0.75], &[1], 2.0), 0);
    }

    #[test]
    fn tokens_come_as_often_as_their_probabilities() {
        let scores = [0.0, 2.0_f32.ln(), f32::NEG_INFINITY, 5.0_f32.ln()];
        let sampled = chosen(Sampling { temperature: 1.0, ..GREEDY }, &scores);
        let share = |token| sampled.iter().filter(|&&it| it == token).count() as f64 / 2000.0;
        for (token, expected) in [(0, 0.125), (1, 0.25), (2, 0.0), (3, 0.625)] {
            assert!((share(token) - expected).abs() < 0.05, "{token}: {}", share(token));
        }
        assert_eq!(sampled, chosen(Sampling { temperature: 1.0, ..GREEDY }, &scores));
    }

    #[test]
    fn top_k_and_top_p_leave_the_others_out() {
        let scores = [0.0, 2.0_f32.ln(), 1.0_f32.ln(), 5.0_f32.ln()];
        let all = |sampling| {
            let mut all = chosen(sampling, &scores);
            all.sort_unstable();
            all.dedup();
            all
        };
        let warm = Sampling { temperature: 1.0, ..GREEDY };
        assert_eq!(all(Sampling { top_k: 1, ..warm }), [3]);
        assert_eq!(all(Sampling { top_k: 2, ..warm }), [1, 3]);
        assert_eq!(all(Sampling { top_k: 9, ..warm }), [0, 1, 2, 3]);
        assert_eq!(all(Sampling { top_p: 0.5, ..warm }), [3]);
        assert_eq!(all(Sampling { top_p: 0.6, ..warm }), [1, 3]);
        assert_eq!(all(Sampling { top_p: 0.0, ..warm }), [3]);
    }
}
