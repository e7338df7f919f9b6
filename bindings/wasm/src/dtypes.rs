//! Element types: onnxruntime-web's names, which are ONNX's except for two.

use ort_session::DType;
use wasm_bindgen::JsError;

/// The name of a type in JavaScript.
pub(crate) const fn name_of(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float32",
        DType::F64 => "float64",
        _ => dtype.name(),
    }
}

/// The type with this name.
pub(crate) fn dtype_of(name: &str) -> Result<DType, JsError> {
    let found = DType::ALL.iter().find(|&&dtype| name_of(dtype) == name);
    found.copied().ok_or_else(|| JsError::new(&format!("`{name}` is not an element type")))
}
