//! Which keys a query sees: at position `p`, those from `p − before` to `p + after`, none after `p` where it is causal,
//! none beyond the length of its batch, and of these what the mask allows.

use ort_ops::ops::attention::Attention;
use ort_tensor::DType;

use super::{LENGTHS, MASK, PAST_KEY, dims_of};
use crate::interchange::bodies::{Body, Call};
use crate::pass::Refusal;

/// Adds the statements that compute `biased` from `capped`; returns whether keys may be masked.
pub(super) fn add(
    call: &Call<'_>,
    attention: &Attention,
    body: &mut Body,
) -> Result<bool, Refusal> {
    body.add("each_batch = const int64[4] [-1, 1, 1, 1]");
    dims_of(body, "n_keys", ("key", &[2]));
    let mut bounds = Vec::new();
    let [before, after] = attention.window;
    if attention.is_causal || before.or(after).is_some() || call.has(LENGTHS) {
        positions(call, body);
    }
    if let Some(before) = before {
        body.add(format!(
            "before = const int64[] [{before}]
             first = Sub-14 (p, before)
             not_before = GreaterOrEqual-16 (j, first)"
        ));
        bounds.push("not_before");
    }
    if let Some(after) = after.filter(|&after| !attention.is_causal || after == 0) {
        body.add(format!(
            "after = const int64[] [{after}]
             final = Add-14 (p, after)
             not_after = LessOrEqual-16 (j, final)"
        ));
        bounds.push("not_after");
    } else if attention.is_causal {
        body.add("not_after = LessOrEqual-16 (j, p)");
        bounds.push("not_after");
    }
    if call.has(LENGTHS) {
        body.add(
            "lengths_by_batch = Reshape-14 (lengths, each_batch)
             exists = Less-13 (j, lengths_by_batch)",
        );
        bounds.push("exists");
    }
    let is_masked = call.has(MASK);
    let is_bool = is_masked && call.dtype(MASK)? == DType::Bool;
    if is_masked {
        mask(call, is_bool, body)?;
    }
    if is_bool {
        bounds.push("whole_mask");
    }
    body.add(if is_masked && !is_bool {
        "added = Add-14 (capped, whole_mask)"
    } else {
        "added = Identity-13 (capped)"
    });
    seen(call, &bounds, body)?;
    Ok(is_masked || !bounds.is_empty())
}

/// The position of each query, `[S, 1]` or `[B, 1, S, 1]`, and the index of each key, `[T]`.
fn positions(call: &Call<'_>, body: &mut Body) {
    body.add(
        "zero = const int64[] [0]
         one = const int64[] [1]
         last = const int64[1] [1]",
    );
    dims_of(body, "n_queries", ("q_heads", &[2]));
    if call.has(PAST_KEY) {
        dims_of(body, "n_past", ("past_key", &[2]));
    }
    body.add(if call.has(PAST_KEY) {
        "offset = Identity-13 (n_past)"
    } else if call.has(LENGTHS) {
        "before_queries = Sub-14 (lengths, n_queries)
         offset = Reshape-14 (before_queries, each_batch)"
    } else {
        "offset = Identity-13 (zero)"
    });
    body.add(
        "end_query = Squeeze-13 (n_queries)
         end_key = Squeeze-13 (n_keys)
         query = Range-11 (zero, end_query, one)
         j = Range-11 (zero, end_key, one)
         i = Unsqueeze-13 (query, last)
         p = Add-14 (i, offset)",
    );
}

/// `whole_mask`: the mask for all keys, also those beyond its end.
fn mask(call: &Call<'_>, is_bool: bool, body: &mut Body) -> Result<(), Refusal> {
    let mask = call.dims(MASK).ok_or(Refusal("the rank of its mask is not known"))?;
    let is_whole = match (mask, call.dims(1)) {
        ([.., n], Some([_, _, keys, _])) => n.equals(keys) && !call.has(PAST_KEY),
        _ => false,
    };
    if is_whole || mask.is_empty() {
        body.add("whole_mask = Identity-13 (mask)");
        return Ok(());
    }
    let dtype = call.dtype(MASK)?;
    let masked = if is_bool { "false" } else { "-inf" };
    dims_of(body, "n_in_mask", ("mask", &[-1]));
    body.add(format!(
        "masked = const {dtype}[] [{masked}]
         n_beyond = Sub-14 (n_keys, n_in_mask)
         none = const int64[{}] fill 0
         pads = Concat-13 [axis: 0] (none, n_beyond)
         whole_mask = Pad-18 (mask, pads, masked)",
        mask.len() * 2 - 1
    ));
    Ok(())
}

/// `biased`: `added` where every bound holds, and −∞ elsewhere.
fn seen(call: &Call<'_>, bounds: &[&str], body: &mut Body) -> Result<(), Refusal> {
    let [first, others @ ..] = bounds else {
        body.add("biased = Identity-13 (added)");
        return Ok(());
    };
    body.add(format!("seen_0 = Identity-13 ({first})"));
    for (n, bound) in others.iter().enumerate() {
        body.add(format!("seen_{} = And-7 (seen_{n}, {bound})", n + 1));
    }
    let (dtype, n) = (call.dtype(0)?, others.len());
    body.add(format!(
        "unseen = const {dtype}[] [-inf]
         biased = Where-16 (seen_{n}, added, unseen)"
    ));
    Ok(())
}
