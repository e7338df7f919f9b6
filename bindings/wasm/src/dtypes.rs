//! Element types: onnxruntime-web's names, which are ONNX's but for two.

use ort_session::DType;
use wasm_bindgen::JsError;

/// JavaScript's name of a type.
pub(crate) const fn name_of(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float32",
        DType::F64 => "float64",
        _ => dtype.name(),
    }
}

/// The type of a name.
pub(crate) fn dtype_of(name: &str) -> Result<DType, JsError> {
    let found = DType::ALL.iter().find(|&&dtype| name_of(dtype) == name);
    found.copied().ok_or_else(|| JsError::new(&format!("`{name}` is no element type")))
}
