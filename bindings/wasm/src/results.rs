//! Converts outputs to JavaScript.
//!
//! ```text
//! tensor        { type, dims, data }: data are the bytes of numbers, or an array of strings
//! sequence      an array
//! map           { keys, values }
//! optional      its value, or null
//! ```

use js_sys::{Array, Object, Reflect, Uint8Array};
use ort_session::{TensorView, Value};
use wasm_bindgen::{JsError, JsValue};

use crate::dtypes::name_of;
use crate::error_of;

/// A value as a JavaScript object, with the property names of `js/values.js`.
pub(crate) fn object_of(value: &Value) -> Result<JsValue, JsError> {
    match value {
        Value::Tensor(tensor) => tensor_of(tensor.view()),
        Value::Sequence(items) => {
            let array = Array::new();
            for item in items {
                array.push(&object_of(item)?);
            }
            Ok(array.into())
        }
        Value::Map(map) => {
            let (keys, values) = (tensor_of(map.keys.view())?, tensor_of(map.values.view())?);
            object([("keys", keys), ("values", values)])
        }
        Value::Optional(Some(value)) => object_of(value),
        Value::Optional(None) => Ok(JsValue::NULL),
        other => Err(JsError::new(&format!("no JavaScript type for a {}", other.kind()))),
    }
}

fn tensor_of(view: TensorView<'_>) -> Result<JsValue, JsError> {
    let data = match view.as_bytes() {
        Some(bytes) => Uint8Array::from(bytes).into(),
        None => {
            let texts = view.as_strings().map_err(error_of)?;
            texts.iter().map(|text| JsValue::from_str(text)).collect::<Array>().into()
        }
    };
    object([
        ("type", name_of(view.dtype()).into()),
        ("dims", numbers(view.shape())),
        ("data", data),
    ])
}

/// An array of sizes.
pub(crate) fn numbers(sizes: &[usize]) -> JsValue {
    sizes.iter().map(|&size| JsValue::from(size)).collect::<Array>().into()
}

/// An object with these properties.
pub(crate) fn object<const N: usize>(of: [(&str, JsValue); N]) -> Result<JsValue, JsError> {
    let object = Object::new();
    for (name, value) in of {
        Reflect::set(&object, &name.into(), &value)
            .map_err(|_| JsError::new("cannot set a property of a new object"))?;
    }
    Ok(object.into())
}
