//! Which tokens go to which experts, and the weight of each expert.

use ort_tensor::{Room, TensorError, collected};

/// How tokens are routed: each goes to the `k` experts with the largest logits, the last of equal ones, as in ONNX
/// Runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routing {
    /// How many experts a token goes to, at least 1.
    pub k: usize,
    /// Whether the weights of these experts are divided by their sum.
    pub is_normalized: bool,
}

/// A token that an expert works on, and the weight of the result.
pub type Route = (usize, f64);

impl Routing {
    /// The routes to each expert. `logits` and, if they are given, `weights` are
    /// `[tokens, n_experts]`; without weights they are the softmax of the logits. Experts without a positive weight
    /// are skipped.
    ///
    /// # Errors
    /// If memory is short.
    pub fn routes(
        self,
        logits: &[f64],
        weights: Option<&[f64]>,
        n_experts: usize,
    ) -> Result<Vec<Room<Route>>, TensorError> {
        let mut routes = collected((0..n_experts).map(|_| Room::new()))?;
        let (mut powers, mut experts) =
            (Room::filled(0.0, n_experts)?, Room::filled(0, n_experts)?);
        for (token, logits) in logits.chunks_exact(n_experts.max(1)).enumerate() {
            let weights = match weights {
                Some(weights) => &weights[token * n_experts..][..n_experts],
                None => {
                    softmax(logits, &mut powers);
                    &powers
                }
            };
            experts.iter_mut().enumerate().for_each(|(i, expert)| *expert = i);
            experts.sort_unstable_by(|&a, &b| logits[b].total_cmp(&logits[a]).then(b.cmp(&a)));
            let experts = &experts[..self.k.min(n_experts)];
            let sum: f64 = experts.iter().map(|&expert| weights[expert]).sum();
            let divisor = if self.is_normalized { sum } else { 1.0 };
            for &expert in experts {
                let weight = weights[expert] / divisor;
                if weight > 0.0 {
                    routes[expert].push((token, weight))?;
                }
            }
        }
        Ok(routes)
    }
}

fn softmax(logits: &[f64], y: &mut [f64]) {
    let greatest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    y.iter_mut().zip(logits).for_each(|(y, logit)| *y = (logit - greatest).exp());
    let sum: f64 = y.iter().sum();
    y.iter_mut().for_each(|y| *y /= sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_go_to_the_largest_logits_and_of_equal_ones_to_the_last() {
        let half = std::f64::consts::LN_2;
        let logits = [0.0, half, 0.0, half, half, half];
        let routes = |is_normalized, logits: &[f64], weights| -> Vec<Vec<Route>> {
            let routes = Routing { k: 2, is_normalized }.routes(logits, weights, 3).unwrap();
            routes.into_iter().map(Room::into_vec).collect()
        };
        let third = 1.0 / 3.0;
        let expected = vec![vec![], vec![(0, 0.5), (1, third)], vec![(0, 0.25), (1, third)]];
        assert_eq!(routes(false, &logits, None), expected);
        let weights = [0.5_f64, 1.0, 3.0, 0.5, -1.0, 0.0];
        let expected = vec![vec![], vec![(0, 0.25)], vec![(0, 0.75)]];
        assert_eq!(routes(true, &logits, Some(&weights))[..1], expected[..1]);
        assert_eq!(routes(true, &logits[..3], Some(&weights)), expected);
        let expected = vec![vec![], vec![(0, 1.0)], vec![(0, 3.0)]];
        assert_eq!(routes(false, &logits, Some(&weights)), expected);
    }
}
