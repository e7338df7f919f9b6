//! Scaled dot-product attention, one head after the other.
//!
//! ```text
//! for each batch, head of q and query i:
//!     score[j]  = cap(scale · q[i]·k[j]) + bias[j]
//!     weight    = softmax(score), or zeros if every bias is −∞
//!     y[i]      = Σ weight[j] · v[j]
//! ```

use ort_graph::OpError;
use ort_tensor::n_elements;

use crate::ops::softmax::softmax;
use crate::product::dot;

/// The sizes of an attention: `q: [B, Hq, S, D]`, `k: [B, Hkv, T, D]`, `v: [B, Hkv, T, E]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) batch: usize,
    /// Hq, a multiple of Hkv: so many heads share a head of k and v.
    pub(crate) q_heads: usize,
    pub(crate) kv_heads: usize,
    /// S.
    pub(crate) q_len: usize,
    /// T.
    pub(crate) kv_len: usize,
    /// D.
    pub(crate) size: usize,
    /// E.
    pub(crate) v_size: usize,
}

/// What the scores of one query can be seen as, besides the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// `scale · q·k`.
    Raw,
    /// After the cap.
    Capped,
    /// After the bias.
    Biased,
    /// After the softmax.
    Softmax,
}

/// How scores are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scoring {
    pub(crate) scale: f64,
    /// `cap · tanh(score / cap)`; 0 is none.
    pub(crate) cap: f64,
}

/// One query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) batch: usize,
    pub(crate) head: usize,
    pub(crate) index: usize,
}

impl Sizes {
    /// The elements of the result.
    pub(crate) fn n_results(&self) -> Result<usize, OpError> {
        let shape = [self.batch, self.q_heads, self.q_len, self.v_size];
        n_elements(&shape).ok_or(OpError::TooLarge)
    }
}

/// The result `[B, Hq, S, E]`. `bias` fills a row of T zeros for a query; a key whose bias is −∞ is
/// not seen at all, not even as NaN. `observe` is called with each row of scores at each stage.
pub(crate) fn attend(
    sizes: Sizes,
    [q, k, v]: [&[f64]; 3],
    scoring: Scoring,
    bias: impl Fn(Query, &mut [f64]),
    mut observe: impl FnMut(Stage, Query, &[f64]),
) -> Result<Vec<f64>, OpError> {
    let Sizes { q_heads, kv_heads, q_len, kv_len, size, v_size, .. } = sizes;
    let mut y = vec![0.0; sizes.n_results()?];
    let (mut biases, mut scores) = (vec![0.0; kv_len], vec![0.0; kv_len]);
    let n_rows = n_elements(&[sizes.batch, q_heads, q_len]).ok_or(OpError::TooLarge)?;
    for row in 0..n_rows {
        let (head, index) = (row / q_len, row % q_len);
        let query = Query { batch: head / q_heads, head: head % q_heads, index };
        let kv = query.batch * kv_heads + query.head / (q_heads / kv_heads);
        let (k, v) = (&k[kv * kv_len * size..], &v[kv * kv_len * v_size..]);
        let q = &q[row * size..][..size];
        for (j, score) in scores.iter_mut().enumerate() {
            *score = scoring.scale * dot(q, &k[j * size..][..size]);
        }
        observe(Stage::Raw, query, &scores);
        if scoring.cap != 0.0 {
            scores.iter_mut().for_each(|x| *x = scoring.cap * (*x / scoring.cap).tanh());
        }
        observe(Stage::Capped, query, &scores);
        biases.fill(0.0);
        bias(query, &mut biases);
        for (score, &bias) in scores.iter_mut().zip(&biases) {
            *score = if bias == f64::NEG_INFINITY { bias } else { *score + bias };
        }
        observe(Stage::Biased, query, &scores);
        match biases.iter().all(|&bias| bias == f64::NEG_INFINITY) {
            true => scores.fill(0.0),
            false => softmax(&mut scores),
        }
        observe(Stage::Softmax, query, &scores);
        let y = &mut y[row * v_size..][..v_size];
        for (j, &weight) in scores.iter().enumerate().filter(|weight| *weight.1 != 0.0) {
            y.iter_mut().zip(&v[j * v_size..]).for_each(|(y, v)| *y += weight * v);
        }
    }
    Ok(y)
}

/// `[B, H, S, D]` from `[B, S, H, D]`, or, with S for H, the way back.
pub(crate) fn swap_heads(x: &[f64], [batch, len, heads, size]: [usize; 4]) -> Vec<f64> {
    let mut y = Vec::with_capacity(x.len());
    for b in 0..batch {
        for h in 0..heads {
            for s in 0..len {
                y.extend_from_slice(&x[((b * len + s) * heads + h) * size..][..size]);
            }
        }
    }
    y
}

/// The past and what is new of each head: `[heads, P, D]` and `[heads, S, D]` to `[heads, P + S, D]`.
pub(crate) fn append(past: &[f64], new: &[f64], heads: usize) -> Vec<f64> {
    if past.is_empty() || heads == 0 {
        return new.to_vec();
    }
    let mut all = Vec::with_capacity(past.len() + new.len());
    let (past_len, new_len) = (past.len() / heads, new.len() / heads);
    for head in 0..heads {
        all.extend_from_slice(&past[head * past_len..][..past_len]);
        all.extend_from_slice(&new[head * new_len..][..new_len]);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_masked_is_not_seen() {
        let sizes =
            Sizes { batch: 1, q_heads: 2, kv_heads: 1, q_len: 1, kv_len: 2, size: 1, v_size: 1 };
        let scoring = Scoring { scale: 1.0, cap: 0.0 };
        let mask = |query: Query, bias: &mut [f64]| {
            // Head 0 sees key 0 alone, head 1 sees none.
            bias[1] = f64::NEG_INFINITY;
            if query.head == 1 {
                bias[0] = f64::NEG_INFINITY;
            }
        };
        let operands = [&[1.0, 1.0][..], &[2.0, f64::NAN], &[5.0, f64::NAN]];
        let y = attend(sizes, operands, scoring, mask, |_, _, _| {}).unwrap();
        assert_eq!(y, [5.0, 0.0]);
    }

    #[test]
    fn heads_swap_and_the_past_comes_first() {
        let x = [0., 1., 2., 3., 4., 5.];
        let swapped = swap_heads(&x, [1, 3, 2, 1]);
        assert_eq!(swapped, [0., 2., 4., 1., 3., 5.]);
        assert_eq!(swap_heads(&swapped, [1, 2, 3, 1]), x);
        assert_eq!(append(&[7., 8.], &[1., 2., 3., 4.], 2), [7., 1., 2., 8., 3., 4.]);
        assert_eq!(append(&[], &[1.], 1), [1.]);
    }
}
