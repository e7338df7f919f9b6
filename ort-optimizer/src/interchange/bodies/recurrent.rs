//! LinearAttention and CausalConvWithState: ONNX Runtime's CPU provider has the operators of com.microsoft.

use super::{Body, Call};
use crate::pass::Refusal;

/// The operator of com.microsoft with the same attributes.
#[expect(clippy::unnecessary_wraps, reason = "the type of every body")]
pub(super) fn body(call: &Call<'_>) -> Result<Body, Refusal> {
    let names: &[&str] = &["a", "b", "c", "d", "e", "f"];
    let mut body = Body::new(names, &["y", "state"]);
    let operands = names.iter().take(call.node.inputs.len()).enumerate();
    let operands = operands.map(|(index, name)| if call.has(index) { name } else { "_" });
    let operands = operands.collect::<Vec<_>>().join(", ");
    let (name, attrs) = (&call.node.op_type, call.attrs());
    let targets = call.targets(body.outputs);
    body.add(format!("{targets} = com.microsoft:{name}-1 {attrs} ({operands})"));
    Ok(body)
}
