//! ReduceLogSum and ReduceLogSumExp from version 28 on.

use super::{Body, Call};
use crate::pass::Refusal;

/// The logarithm of a sum. That of exponentials is in range wherever `x` is:
///
/// ```text
/// ln Σ exp(x) = ln Σ exp(x − m) + m      m: the largest x, or 0 if that is infinite
/// ```
pub(super) fn body(call: &Call<'_>) -> Result<Body, Refusal> {
    let mut body = Body::new(&["x", "axes"], &["y"]);
    let axes = if call.has(1) { ", axes" } else { "" };
    let attrs = call.attrs();
    if call.node.op_type == "ReduceLogSum" {
        body.add(format!(
            "sum = ReduceSum-13 {attrs} (x{axes})
             y = Log-13 (sum)"
        ));
        return Ok(body);
    }
    body.add(format!("zero = const {}[] [0]", call.dtype(0)?));
    let kept = format!("[noop_with_empty_axes: {}]", call.int("noop_with_empty_axes"));
    for (name, attrs) in [("shift", &kept), ("back", &attrs)] {
        body.add(format!(
            "{name}_largest = ReduceMax-20 {attrs} (x{axes})
             {name}_is_infinite = IsInf-20 ({name}_largest)
             {name} = Where-16 ({name}_is_infinite, zero, {name}_largest)"
        ));
    }
    body.add(format!(
        "shifted = Sub-14 (x, shift)
         terms = Exp-13 (shifted)
         sum = ReduceSum-13 {attrs} (terms{axes})
         logarithm = Log-13 (sum)
         y = Add-14 (logarithm, back)"
    ));
    Ok(body)
}
