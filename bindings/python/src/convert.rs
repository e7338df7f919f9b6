//! Converts booleans, integers and strings as onnxruntime does, which means as pybind11 does.

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyString};

/// A boolean: any object with a truth value, or `None`.
#[derive(Debug)]
pub(crate) struct Flag(pub(crate) bool);

/// A 32-bit integer: any object that converts to one, except floats.
#[derive(Debug)]
pub(crate) struct Number(pub(crate) i32);

/// A string, or its bytes.
#[derive(Debug)]
pub(crate) struct Text(pub(crate) String);

fn rejected(expected: &str, object: Borrowed<'_, '_, PyAny>) -> PyErr {
    let found = object.get_type();
    PyTypeError::new_err(format!("expected {expected}, not {} of type {found}", &*object))
}

/// Whether its type or a base type defines this method.
fn has(object: Borrowed<'_, '_, PyAny>, method: &str) -> PyResult<bool> {
    object.get_type().hasattr(method)
}

impl<'py> FromPyObject<'_, 'py> for Flag {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match object.is_none() || has(object, "__bool__")? {
            true => object.is_truthy().map(Self),
            false => Err(rejected("a boolean", object)),
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for Number {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let rejected = || rejected("a 32-bit integer", object);
        if object.is_instance_of::<PyFloat>() || !has(object, "__int__")? {
            return Err(rejected());
        }
        object.call_method0("__int__")?.extract().map(Self).map_err(|_| rejected())
    }
}

impl<'py> FromPyObject<'_, 'py> for Text {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = object.cast::<PyString>() {
            return text.extract().map(Self);
        }
        let bytes = object.cast::<PyBytes>().map_err(|_| rejected("a string", object))?;
        let text = std::str::from_utf8(bytes.as_bytes()).map_err(|_| rejected("UTF-8", object))?;
        Ok(Self(text.to_owned()))
    }
}

/// The truth value of an object.
#[pyfunction]
pub(crate) fn flag(object: Flag) -> bool {
    object.0
}

/// The integer value of an object.
#[pyfunction]
pub(crate) fn number(object: Number) -> i32 {
    object.0
}

/// The string value of an object.
#[pyfunction]
pub(crate) fn text(object: Text) -> String {
    object.0
}

/// The key and value of an entry, within onnxruntime's limits on their lengths.
#[pyfunction]
pub(crate) fn entry(key: Text, value: Text) -> PyResult<(String, String)> {
    const MOST: [usize; 2] = [1024, 8192];
    let (Text(key), Text(value)) = (key, value);
    if key.is_empty() || key.len() > MOST[0] || value.len() > MOST[1] {
        let lengths = (key.len(), value.len());
        return Err(PyRuntimeError::new_err(format!(
            "a key must have 1 to {} bytes and a value at most {}, these have {lengths:?}",
            MOST[0], MOST[1]
        )));
    }
    Ok((key, value))
}
