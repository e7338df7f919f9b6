//! Bernoulli.

use ort_ops::ops::random::Bernoulli;

use super::{Body, Call};
use crate::pass::Refusal;

/// Whether a random number in [0, 1) is less than the probability.
pub(super) fn body(call: &Call<'_>) -> Result<Body, Refusal> {
    let bernoulli: &Bernoulli = call.node.operator().ok_or(Refusal("it draws nothing"))?;
    let to = bernoulli.dtype.map_or_else(|| call.dtype(0), Ok)?.onnx();
    let seed = bernoulli.seed.map(|seed| format!("[seed: {seed:?}] ")).unwrap_or_default();
    let mut body = Body::new(&["x"], &["y"]);
    body.add(format!(
        "random = RandomUniformLike-1 {seed}(x)
         is_one = Less-13 (random, x)
         y = Cast-13 [to: {to}] (is_one)"
    ));
    Ok(body)
}
