//! The module of the npm package `ort-wasm`: sessions and values, as thin as possible.
//!
//! ```text
//! builder    options, one by one, and then the bytes of a model
//! dtypes     element types by their names in JavaScript
//! feeds      inputs of a run, copied into WebAssembly's memory
//! results    outputs to JavaScript's objects
//! session    describes and runs a model
//! ```
//!
//! Names and defaults of onnxruntime-web are in JavaScript, below `js`.

mod builder;
mod dtypes;
mod feeds;
mod results;
mod session;

use std::panic;

use wasm_bindgen::JsError;
use wasm_bindgen::prelude::wasm_bindgen;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = console, js_name = error)]
    fn console_error(text: &str);
}

/// Prints the reason of a panic, which aborts the module.
#[wasm_bindgen(start)]
fn start() {
    panic::set_hook(Box::new(|info| console_error(&info.to_string())));
}

/// The version of the package.
#[wasm_bindgen]
#[must_use]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// JavaScript's `Error` with our message.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn error_of(error: impl ToString) -> JsError {
    JsError::new(&error.to_string())
}
