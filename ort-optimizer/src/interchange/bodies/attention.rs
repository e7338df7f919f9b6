//! Attention from version 25 on.
//!
//! ```text
//! y = softmax(where(seen, cap(scale · q·kᵀ) + mask, −∞)) · v
//! ```

mod seen;

use ort_graph::Dim;
use ort_ops::ops::attention::{Attention, Stage};

use super::{Body, Call};
use crate::pass::Refusal;

const MASK: usize = 3;
const PAST_KEY: usize = 4;
const LENGTHS: usize = 6;

/// Heads, scores, what a query sees of the keys, and the sum of values.
pub(super) fn body(call: &Call<'_>) -> Result<Body, Refusal> {
    let attention: &Attention = call.node.operator().ok_or(Refusal("it attends to nothing"))?;
    let mut body = Body::new(
        &["q", "k", "v", "mask", "past_key", "past_value", "lengths"],
        &["y", "key", "value", "scores"],
    );
    heads(call, attention, &mut body);
    scores(call, attention, &mut body)?;
    let is_masked = seen::add(call, attention, &mut body)?;
    probabilities(call, is_masked, &mut body)?;
    body.add("weighted = MatMul-13 (probability, values)");
    body.add(if attention.q_num_heads.is_some() {
        "in_order = Transpose-13 [perm: [0, 2, 1, 3]] (weighted)
         joined = const int64[3] [0, 0, -1]
         y = Reshape-14 (in_order, joined)"
    } else {
        "y = Identity-13 (weighted)"
    });
    body.add(match attention.scores {
        Stage::Raw => "scores = Identity-13 (raw)",
        Stage::Capped => "scores = Identity-13 (capped)",
        Stage::Biased => "scores = Identity-13 (biased)",
        Stage::Softmax => "scores = Identity-13 (probability)",
    });
    Ok(body)
}

/// `queries: [B, Hq, S, D]`, and `keys` and `values` of as many heads, after their past.
fn heads(call: &Call<'_>, attention: &Attention, body: &mut Body) {
    let counts = [attention.q_num_heads, attention.kv_num_heads, attention.kv_num_heads];
    for (name, count) in ["q", "k", "v"].into_iter().zip(counts) {
        body.add(match count {
            Some(count) => format!(
                "split_{name} = const int64[4] [0, 0, {count}, -1]
                 {name}_by_step = Reshape-14 ({name}, split_{name})
                 {name}_heads = Transpose-13 [perm: [0, 2, 1, 3]] ({name}_by_step)"
            ),
            None => format!("{name}_heads = Identity-13 ({name})"),
        });
    }
    body.add(if call.has(PAST_KEY) {
        "key = Concat-13 [axis: 2] (past_key, k_heads)
         value = Concat-13 [axis: 2] (past_value, v_heads)"
    } else {
        "key = Identity-13 (k_heads)
         value = Identity-13 (v_heads)"
    });
    let n_heads = |index| match call.dims(index) {
        Some([_, Dim::Known(n), _, _]) => Some(*n),
        _ => None,
    };
    if n_heads(0).is_some() && n_heads(0) == n_heads(1) {
        return body.add("keys = Identity-13 (key)\n values = Identity-13 (value)");
    }
    dims_of(body, "n_q_heads", ("q_heads", &[1]));
    dims_of(body, "n_kv_heads", ("key", &[1]));
    dims_of(body, "batch", ("key", &[0]));
    body.add(
        "n_in_group = Div-14 (n_q_heads, n_kv_heads)
         two_ones = const int64[2] [1, 1]
         repeats = Concat-13 [axis: 0] (two_ones, n_in_group, two_ones)
         group = const int64[1] [2]",
    );
    for (name, repeated) in [("key", "keys"), ("value", "values")] {
        dims_of(body, &format!("{name}_size"), (name, &[2, 3]));
        body.add(format!(
            "{name}_alone = Unsqueeze-13 ({name}, group)
             {name}_repeated = Expand-13 ({name}_alone, repeats)
             {name}_shape = Concat-13 [axis: 0] (batch, n_q_heads, {name}_size)
             {repeated} = Reshape-14 ({name}_repeated, {name}_shape)"
        ));
    }
}

/// `result`: the dimensions of a value along some axes.
fn dims_of(body: &mut Body, result: &str, (value, axes): (&str, &[i64])) {
    body.add(format!(
        "{result}_axes = const int64[{}] {axes:?}
         {result}_all = Shape-15 ({value})
         {result} = Gather-13 [axis: 0] ({result}_all, {result}_axes)",
        axes.len()
    ));
}

/// `raw` scores, and `capped` ones.
fn scores(call: &Call<'_>, attention: &Attention, body: &mut Body) -> Result<(), Refusal> {
    let dtype = call.dtype(0)?;
    if attention.scale.is_none() {
        dims_of(body, "size", ("q_heads", &[-1]));
    }
    body.add(match attention.scale {
        Some(scale) => format!("scale = const {dtype}[] [{scale:?}]"),
        None => format!(
            "size_as_number = Cast-13 [to: {}] (size)
             root = Sqrt-13 (size_as_number)
             scale = Reciprocal-13 (root)",
            dtype.onnx()
        ),
    });
    body.add(
        "scaled = Mul-14 (q_heads, scale)
         columns = Transpose-13 [perm: [0, 1, 3, 2]] (keys)
         raw = MatMul-13 (scaled, columns)",
    );
    body.add(if attention.softcap == 0.0 {
        "capped = Identity-13 (raw)".to_owned()
    } else {
        format!(
            "cap = const {dtype}[] [{:?}]
             of_cap = Div-14 (raw, cap)
             bent = Tanh-13 (of_cap)
             capped = Mul-14 (bent, cap)",
            attention.softcap
        )
    });
    Ok(())
}

/// The softmax of `biased`; zeros for a query that sees no key.
fn probabilities(call: &Call<'_>, is_masked: bool, body: &mut Body) -> Result<(), Refusal> {
    let dtype = call.dtype(0)?;
    body.add("softmax = Softmax-13 [axis: -1] (biased)");
    if is_masked {
        body.add("of_keys = const int64[1] [-1]");
        body.add(match call.opset {
            ..18 => "highest = ReduceMax-13 [axes: [-1]] (biased)",
            18 | 19 => "highest = ReduceMax-18 (biased, of_keys)",
            _ => "highest = ReduceMax-20 (biased, of_keys)",
        });
    }
    body.add(if is_masked {
        format!(
            "nothing = const {dtype}[] [0]
             lowest = const {dtype}[] [-inf]
             sees_nothing = Equal-13 (highest, lowest)
             probability = Where-16 (sees_nothing, nothing, softmax)"
        )
    } else {
        "probability = Identity-13 (softmax)".to_owned()
    });
    Ok(())
}
