//! Inputs of one integer.

use ort_graph::{Facts, OpError};
use ort_tensor::{DType, Inputs};

/// The only integer of the input at `index`, int32 or int64; `None` if it is absent.
///
/// # Errors
/// If the input is present, but is not one such integer.
pub fn read_scalar(inputs: Inputs<'_>, index: usize) -> Result<Option<i64>, OpError> {
    let Some(view) = inputs.optional_tensor(index)? else { return Ok(None) };
    let found = match view.dtype() {
        DType::I32 => <[i32; 1]>::try_from(view.as_slice()?).map(|[value]| value.into()),
        _ => <[i64; 1]>::try_from(view.as_slice()?).map(|[value]| value),
    };
    found.map(Some).map_err(|_| OpError::InputValue { index, what: "takes one integer" })
}

/// The only integer of the input at `index`, if it is known.
///
/// # Errors
/// If it is known that there is not exactly one integer, or that it is of another type.
pub fn known_scalar(inputs: &Facts<'_>, index: usize) -> Result<Option<i64>, OpError> {
    let Some(fact) = inputs.get(index) else { return Ok(None) };
    inputs.dtype(index, DType::is_index)?;
    match fact.ints().as_deref() {
        None => Ok(None),
        Some(&[value]) => Ok(Some(value)),
        Some(_) => Err(OpError::InputValue { index, what: "takes one integer" }),
    }
}
