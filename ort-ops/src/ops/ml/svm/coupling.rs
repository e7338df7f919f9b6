//! Pairwise coupling: probabilities of classes from those of pairs.

use ort_tensor::{Room, TensorError};

/// The probabilities `p` of `n` classes for which `Σᵢ Σⱼ (rⱼᵢ pᵢ - rᵢⱼ pⱼ)²` is least, where
/// `r[i * n + j]` is that of class `i` if it is one of `i` and `j`: at most 100 rounds, until no component of the
/// gradient exceeds 0.005 / n.
///
/// Source: T.-F. Wu, C.-J. Lin, R. C. Weng, "Probability estimates for multi-class classification
/// by pairwise coupling", 2004, algorithm 2; the limits are those of LIBSVM and ONNX Runtime.
pub(super) fn couple(r: &[f64], n: usize) -> Result<Room<f64>, TensorError> {
    let q = quadratic_form(r, n)?;
    let n_as_float = q.chunks(n.max(1)).map(|_| 1.0).sum::<f64>();
    let mut p = Room::filled(1.0 / n_as_float, n)?;
    let mut qp = Room::filled(0.0, n)?;
    for _ in 0..100 {
        for (qp, q) in qp.iter_mut().zip(q.chunks_exact(n)) {
            *qp = q.iter().zip(&p).map(|(q, p)| q * p).sum();
        }
        let mut pqp: f64 = p.iter().zip(&qp).map(|(p, qp)| p * qp).sum();
        if qp.iter().all(|qp| (qp - pqp).abs() < 0.005 / n_as_float) {
            break;
        }
        for (i, q) in q.chunks_exact(n).enumerate() {
            let step = (pqp - qp[i]) / q[i];
            let scale = 1.0 + step;
            p[i] += step;
            pqp = (pqp + step * (step * q[i] + 2.0 * qp[i])) / (scale * scale);
            for ((qp, p), q) in qp.iter_mut().zip(&mut p).zip(q) {
                *qp = (*qp + step * q) / scale;
                *p /= scale;
            }
        }
    }
    Ok(p)
}

/// `Qᵢᵢ = Σ_{j≠i} rⱼᵢ²`, `Qᵢⱼ = -rⱼᵢ rᵢⱼ`.
fn quadratic_form(r: &[f64], n: usize) -> Result<Room<f64>, TensorError> {
    let mut q = Room::filled(0.0, n * n)?;
    for i in 0..n {
        for j in (0..n).filter(|&j| j != i) {
            q[i * n + i] += r[j * n + i] * r[j * n + i];
            q[i * n + j] = -r[j * n + i] * r[i * n + j];
        }
    }
    Ok(q)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_that_fit_together_come_back() {
        let expected = [0.5, 0.3, 0.2];
        let pair = |i: usize, j: usize| expected[i] / (expected[i] + expected[j]);
        let r: Vec<f64> = (0..9).map(|at| pair(at / 3, at % 3)).collect();
        // The limit on the gradient allows about the same error in the result.
        for (found, expected) in couple(&r, 3).unwrap().into_iter().zip(expected) {
            assert!((found - expected).abs() < 0.005, "{found} is not {expected}");
        }
    }
}
