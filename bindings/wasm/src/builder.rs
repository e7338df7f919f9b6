//! Builds a session: options one by one, then the bytes of a model.

use ort_session::{Level, ModelBytes, SessionBuilder};
use wasm_bindgen::JsError;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::error_of;
use crate::session::Session;

/// The options of a session.
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct Builder {
    builder: SessionBuilder,
}

#[wasm_bindgen]
impl Builder {
    /// No options set.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The optimization level: `disabled`, `basic`, `extended`, `layout` or `all`.
    ///
    /// # Errors
    /// If there is no such level.
    pub fn level(&mut self, name: &str) -> Result<(), JsError> {
        let level = name.parse::<Level>().map_err(error_of)?;
        self.set(|builder| builder.level(level));
        Ok(())
    }

    /// Sets a key of `docs/options.md`.
    ///
    /// # Errors
    /// If there is no such key, or the value is invalid.
    pub fn config(&mut self, key: &str, value: &str) -> Result<(), JsError> {
        self.builder = self.builder.clone().config(key, value).map_err(error_of)?;
        Ok(())
    }

    /// Fixes the size of an input dimension that is only named.
    #[wasm_bindgen(js_name = freeDimension)]
    pub fn free_dimension(&mut self, name: String, size: usize) {
        self.set(|builder| builder.free_dimension(name, size));
    }

    /// An external file of the model, by its name in the model.
    #[wasm_bindgen(js_name = externalData)]
    pub fn external_data(&mut self, name: String, bytes: Vec<u8>) {
        self.set(|builder| builder.external_data(name, ModelBytes::from_vec(bytes)));
    }

    /// Consumes the builder and loads the bytes of a `.ort` or `.onnx` file.
    ///
    /// # Errors
    /// If the bytes are not a model, or the model cannot run.
    pub fn load(self, model: Vec<u8>) -> Result<Session, JsError> {
        let session = self.builder.commit(ModelBytes::from_vec(model)).map_err(error_of)?;
        Ok(Session::new(session))
    }

    fn set(&mut self, set: impl FnOnce(SessionBuilder) -> SessionBuilder) {
        self.builder = set(std::mem::take(&mut self.builder));
    }
}
