//! The inputs of a run, copied into WebAssembly's memory once.

// collects are bounded: by what the caller passes

use ort_session::provider::Shape;
use ort_session::{RunInputs, Tensor, Value};
use wasm_bindgen::JsError;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::dtypes::dtype_of;
use crate::error_of;

/// Inputs, by name.
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct Feeds {
    entries: Vec<(String, Value)>,
}

#[wasm_bindgen]
impl Feeds {
    /// No inputs.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A numeric tensor, from the little-endian bytes of its elements.
    ///
    /// # Errors
    /// If there is no such type, or the number of bytes does not match the shape.
    pub fn numbers(
        &mut self,
        name: String,
        dtype: &str,
        bytes: Vec<u8>,
        dims: &[u64],
    ) -> Result<(), JsError> {
        let (dtype, shape) = (dtype_of(dtype)?, shape_of(dims)?);
        let tensor = Tensor::from_bytes(dtype, &shape, bytes.into()).map_err(error_of)?;
        self.entries.push((name, Value::Tensor(tensor)));
        Ok(())
    }

    /// A string tensor.
    ///
    /// # Errors
    /// If their number does not match the shape.
    pub fn strings(
        &mut self,
        name: String,
        texts: Vec<String>,
        dims: &[u64],
    ) -> Result<(), JsError> {
        let tensor = Tensor::from_strings(&shape_of(dims)?, texts).map_err(error_of)?;
        self.entries.push((name, Value::Tensor(tensor)));
        Ok(())
    }
}

impl Feeds {
    pub(crate) fn into_inputs(self) -> RunInputs<'static> {
        self.entries.into_iter().collect()
    }
}

/// A shape whose dimensions fit in `usize`.
fn shape_of(dims: &[u64]) -> Result<Shape, JsError> {
    let dim = |&dim| usize::try_from(dim).map_err(|_| too_large(dim));
    dims.iter().map(dim).collect()
}

fn too_large(dim: u64) -> JsError {
    JsError::new(&format!("dimension {dim} exceeds the 32-bit maximum of {}", u32::MAX))
}
