//! Selu as before operator set 6: other defaults.

use std::sync::Arc;

use ort_graph::{NodeSpec, OpDef, OpError, Operator};
use ort_tensor::DType;

use super::activation::Activation;
use crate::elementwise::ignore_consumed_inputs;

/// The definitions of this file.
pub const DEFS: &[OpDef] =
    &[OpDef { domain: "", name: "Selu", versions: (1, 5), types: DType::is_float, build }];

/// [`Activation::Selu`] with `α` = 1.6732 and `γ` = 1.0507, by default.
///
/// Source: ONNX operator set, Selu-1.
fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
    ignore_consumed_inputs(spec);
    let alpha = spec.float("alpha")?.unwrap_or(1.6732);
    let gamma = spec.float("gamma")?.unwrap_or(1.0507);
    Ok(Arc::new(Activation::Selu { alpha, gamma }))
}
