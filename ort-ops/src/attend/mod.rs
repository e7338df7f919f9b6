//! Scaled dot-product attention, one head after the other.
//!
//! ```text
//! for each batch, head of q and query i:
//!     score[j]  = cap(scale · q[i]·k[j]) + bias[j]
//!     weight    = softmax(score), or zeros if every bias is −∞; a sink takes its share
//!     y[i]      = Σ weight[j] · v[j]
//! ```

pub(crate) mod bias;
pub(crate) mod heads;
pub(crate) mod key_mask;
pub(crate) mod past;
pub(crate) mod rotation;

use ort_graph::OpError;
use ort_tensor::{TensorError, filled, go_on, n_elements};

use crate::ops::softmax::softmax;
use crate::product::dot;

/// The sizes of an attention: `q: [B, Hq, S, D]`, `k: [B, Hkv, T, D]`, `v: [B, Hkv, T, E]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// B.
    pub batch: usize,
    /// Hq, a multiple of Hkv: that many heads share a head of k and v.
    pub q_heads: usize,
    /// Hkv.
    pub kv_heads: usize,
    /// S.
    pub q_len: usize,
    /// T.
    pub kv_len: usize,
    /// D.
    pub size: usize,
    /// E.
    pub v_size: usize,
}

/// The stages at which the scores of a query can be observed.
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

/// How scores are computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scoring<'a> {
    pub(crate) scale: f64,
    /// `cap · tanh(score / cap)`; 0 is none.
    pub(crate) cap: f64,
    /// For each head of q a score without a value; empty for no sinks.
    pub(crate) sinks: &'a [f64],
}

impl Scoring<'_> {
    /// Scores scaled by `scale`, or, if it is absent or 0, by `1/√D`.
    pub(crate) fn scaled(scale: Option<f32>, size: usize) -> Self {
        let given = scale.filter(|&scale| scale != 0.0);
        let scale = given.map_or(1.0 / (size as f64).sqrt(), f64::from);
        Self { scale, cap: 0.0, sinks: &[] }
    }
}

/// One query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) batch: usize,
    pub(crate) head: usize,
    pub(crate) index: usize,
}

impl Sizes {
    /// Checks that queries, keys and values have as many elements as these sizes say.
    fn check(&self, given: [&[f64]; 3]) -> Result<(), OpError> {
        let Self { batch, q_heads, kv_heads, q_len, kv_len, size, v_size } = *self;
        let shapes = [
            [batch, q_heads, q_len, size],
            [batch, kv_heads, kv_len, size],
            [batch, kv_heads, kv_len, v_size],
        ];
        for (given, shape) in given.iter().zip(shapes) {
            if n_elements(&shape) != Some(given.len()) {
                let (left, right) = (vec![given.len()], shape.to_vec());
                return Err(OpError::Shapes { what: "what is attended to", left, right });
            }
        }
        if q_heads > 0 && (kv_heads == 0 || !q_heads.is_multiple_of(kv_heads)) {
            let (left, right) = (vec![q_heads], vec![kv_heads]);
            return Err(OpError::Shapes { what: "heads", left, right });
        }
        Ok(())
    }

    /// The elements of the result.
    pub(crate) fn n_results(&self) -> Result<usize, OpError> {
        let shape = [self.batch, self.q_heads, self.q_len, self.v_size];
        n_elements(&shape).ok_or(OpError::TooLarge)
    }
}

/// The result `[B, Hq, S, E]`. `bias` fills a row of T zeros for a query; a key whose bias is −∞ has no effect, even
/// if it is NaN. `observe` is called with each row of scores at each stage.
pub(crate) fn attend(
    sizes: Sizes,
    [q, k, v]: [&[f64]; 3],
    scoring: Scoring<'_>,
    bias: impl Fn(Query, &mut [f64]),
    mut observe: impl FnMut(Stage, Query, &[f64]),
) -> Result<Vec<f64>, OpError> {
    let Sizes { q_heads, kv_heads, q_len, kv_len, size, v_size, .. } = sizes;
    sizes.check([q, k, v])?;
    let mut y = filled(0.0, sizes.n_results()?)?;
    let (mut biases, mut scores) = (filled(0.0, kv_len)?, filled(0.0, kv_len)?);
    let n_rows = n_elements(&[sizes.batch, q_heads, q_len]).ok_or(OpError::TooLarge)?;
    for row in 0..n_rows {
        go_on()?;
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
            false => weigh(&mut scores, scoring.sinks.get(query.head))?,
        }
        observe(Stage::Softmax, query, &scores);
        let y = &mut y[row * v_size..][..v_size];
        for (j, &weight) in scores.iter().enumerate().filter(|weight| *weight.1 != 0.0) {
            y.iter_mut().zip(&v[j * v_size..]).for_each(|(y, v)| *y += weight * v);
        }
    }
    Ok(y)
}

/// Scores to weights; the share of the sink is lost.
fn weigh(scores: &mut [f64], sink: Option<&f64>) -> Result<(), TensorError> {
    let Some(&sink) = sink else { return softmax(scores) };
    let max = scores.iter().copied().fold(sink, f64::max);
    let mut sum = (sink - max).exp();
    for score in &mut *scores {
        *score = (*score - max).exp();
        sum += *score;
    }
    scores.iter_mut().for_each(|score| *score /= sum);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_masked_is_not_seen() {
        let sizes =
            Sizes { batch: 1, q_heads: 2, kv_heads: 1, q_len: 1, kv_len: 2, size: 1, v_size: 1 };
        let scoring = Scoring { scale: 1.0, cap: 0.0, sinks: &[] };
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
    fn a_sink_takes_its_share() {
        let mut scores = [3_f64.ln(), f64::NEG_INFINITY];
        weigh(&mut scores, Some(&0.0)).unwrap();
        assert_eq!(scores, [0.75, 0.0]);
    }
}
