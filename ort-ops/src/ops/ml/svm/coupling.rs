//! Pairwise coupling: probabilities of classes from those of pairs.

use ort_tensor::{Room, TensorError};

/// Memory for the coupling of `n` classes.
#[derive(Debug)]
pub(super) struct Coupling {
    n: usize,
    /// `r[i * n + j]` is the probability of class `i` if it is one of `i` and `j`; 0 where `i = j`.
    pub(super) r: Room<f64>,
    q: Room<f64>,
    p: Room<f64>,
    qp: Room<f64>,
}

impl Coupling {
    /// # Errors
    /// If there is no memory for it.
    pub(super) fn new(n: usize) -> Result<Self, TensorError> {
        let of = |len| Room::filled(0.0, len);
        let square = n.saturating_mul(n);
        Ok(Self { n, r: of(square)?, q: of(square)?, p: of(n)?, qp: of(n)? })
    }

    /// The probabilities `p` of the classes for which `Σᵢ Σⱼ (rⱼᵢ pᵢ - rᵢⱼ pⱼ)²` is least: at most 100 rounds, until no
    /// component of the gradient exceeds 0.005 / n.
    ///
    /// Source: T.-F. Wu, C.-J. Lin, R. C. Weng, "Probability estimates for multi-class classification
    /// by pairwise coupling", 2004, algorithm 2; the limits are those of LIBSVM and ONNX Runtime.
    pub(super) fn couple(&mut self) -> &[f64] {
        self.set_quadratic_form();
        let Self { n, q, p, qp, .. } = self;
        let n_as_float = p.iter().map(|_| 1.0).sum::<f64>();
        p.fill(1.0 / n_as_float);
        for _ in 0..100 {
            for (qp, q) in qp.iter_mut().zip(q.chunks_exact(*n)) {
                *qp = q.iter().zip(&*p).map(|(q, p)| q * p).sum();
            }
            let mut pqp: f64 = p.iter().zip(&*qp).map(|(p, qp)| p * qp).sum();
            if qp.iter().all(|qp| (qp - pqp).abs() < 0.005 / n_as_float) {
                break;
            }
            for (i, q) in q.chunks_exact(*n).enumerate() {
                let step = (pqp - qp[i]) / q[i];
                let scale = 1.0 + step;
                p[i] += step;
                pqp = (pqp + step * (step * q[i] + 2.0 * qp[i])) / (scale * scale);
                for ((qp, p), q) in qp.iter_mut().zip(p.iter_mut()).zip(q) {
                    *qp = (*qp + step * q) / scale;
                    *p /= scale;
                }
            }
        }
        p
    }

    /// `Qᵢᵢ = Σ_{j≠i} rⱼᵢ²`, `Qᵢⱼ = -rⱼᵢ rᵢⱼ`.
    fn set_quadratic_form(&mut self) {
        let Self { n, r, q, .. } = self;
        let n = *n;
        for i in 0..n {
            q[i * n + i] = 0.0;
            for j in (0..n).filter(|&j| j != i) {
                q[i * n + i] += r[j * n + i] * r[j * n + i];
                q[i * n + j] = -r[j * n + i] * r[i * n + j];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_that_fit_together_come_back() {
        let expected = [0.5, 0.3, 0.2];
        let pair = |i: usize, j: usize| expected[i] / (expected[i] + expected[j]);
        let mut coupling = Coupling::new(3).unwrap();
        coupling.r.iter_mut().zip(0..).for_each(|(r, at)| *r = pair(at / 3, at % 3));
        // The limit on the gradient allows about the same error in the result.
        for (found, expected) in coupling.couple().iter().zip(expected) {
            assert!((found - expected).abs() < 0.005, "{found} is not {expected}");
        }
    }
}
