//! The types of maps.

use ort_graph::{Facts, OpError, Type};
use ort_tensor::DType;

/// The element types of the keys and of the values of the map at `index`, which `allowed` must
/// accept.
///
/// # Errors
/// If the input is absent, not a map, or one of other types.
pub fn map_types(
    inputs: &Facts<'_>,
    index: usize,
    allowed: fn(key: DType, value: DType) -> bool,
) -> Result<(DType, DType), OpError> {
    let ty = &inputs.fact(index)?.ty;
    match ty {
        Type::Map { key, value } => match &**value {
            Type::Tensor(value) if allowed(*key, value.dtype) => Some((*key, value.dtype)),
            _ => None,
        },
        _ => None,
    }
    .ok_or_else(|| OpError::InputType { index, found: Box::new(ty.clone()) })
}
