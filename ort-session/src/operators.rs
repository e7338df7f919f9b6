//! Custom operators.

use ort_graph::OpDef;

use crate::SessionError;

/// Checks that none of the operators has the name of a standard one.
///
/// # Errors
/// If one has: the optimizer and the providers rely on the semantics of standard operators.
pub(crate) fn checked(operators: Vec<OpDef>) -> Result<Vec<OpDef>, SessionError> {
    if operators.is_empty() {
        return Ok(operators);
    }
    let standard = ort_ops::registry().defs();
    let is_standard = |def: &OpDef| {
        let domain = if def.domain == "ai.onnx" { "" } else { def.domain };
        standard.iter().any(|own| (own.domain, own.name) == (domain, def.name))
    };
    match operators.iter().find(|def| is_standard(def)) {
        Some(&OpDef { domain, name, .. }) => {
            let domain = if domain.is_empty() { "ai.onnx" } else { domain };
            Err(SessionError::StandardOperator { domain, name })
        }
        None => Ok(operators),
    }
}
