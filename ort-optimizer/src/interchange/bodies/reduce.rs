//! ReduceLogSum and ReduceLogSumExp from version 28 on.

use ort_tensor::DType;

use super::{Body, Call};
use crate::pass::Refusal;

/// The logarithm of a sum; exponentials are summed in f64.
pub(super) fn body(call: &Call<'_>) -> Result<Body, Refusal> {
    let mut body = Body::new(&["x", "axes"], &["y"]);
    let (dtype, wide) = (call.dtype(0)?, DType::F64.onnx());
    let is_exp = call.node.op_type == "ReduceLogSumExp";
    body.add(if is_exp {
        format!(
            "wide = Cast-13 [to: {wide}] (x)
             terms = Exp-13 (wide)"
        )
    } else {
        "terms = Identity-13 (x)".to_owned()
    });
    let operands = if call.has(1) { "terms, axes" } else { "terms" };
    body.add(format!(
        "sum = ReduceSum-13 {} ({operands})
         logarithm = Log-13 (sum)
         y = Cast-13 [to: {}] (logarithm)",
        call.attrs(),
        dtype.onnx()
    ));
    Ok(body)
}
