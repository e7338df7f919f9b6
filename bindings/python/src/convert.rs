//! Flags, numbers and texts as onnxruntime takes them, which is as pybind11 does.

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyString};

/// A truth value: what has one, and `None`.
#[derive(Debug)]
pub(crate) struct Flag(pub(crate) bool);

/// A whole number of 32 bits: anything but a float that is one.
#[derive(Debug)]
pub(crate) struct Number(pub(crate) i32);

/// A text, or the bytes of one.
#[derive(Debug)]
pub(crate) struct Text(pub(crate) String);

fn refused(expected: &str, object: Borrowed<'_, '_, PyAny>) -> PyErr {
    let found = object.get_type();
    PyTypeError::new_err(format!("expected {expected}, not {} of type {found}", &*object))
}

/// Whether its type defines this method itself, or a type above it.
fn has(object: Borrowed<'_, '_, PyAny>, method: &str) -> PyResult<bool> {
    object.get_type().hasattr(method)
}

impl<'py> FromPyObject<'_, 'py> for Flag {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match object.is_none() || has(object, "__bool__")? {
            true => object.is_truthy().map(Self),
            false => Err(refused("a truth value", object)),
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for Number {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let refused = || refused("a whole number of 32 bits", object);
        if object.is_instance_of::<PyFloat>() || !has(object, "__int__")? {
            return Err(refused());
        }
        object.call_method0("__int__")?.extract().map(Self).map_err(|_| refused())
    }
}

impl<'py> FromPyObject<'_, 'py> for Text {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = object.cast::<PyString>() {
            return text.extract().map(Self);
        }
        let bytes = object.cast::<PyBytes>().map_err(|_| refused("a text", object))?;
        let text = std::str::from_utf8(bytes.as_bytes()).map_err(|_| refused("UTF-8", object))?;
        Ok(Self(text.to_owned()))
    }
}

/// The truth value of an object that has one.
#[pyfunction]
pub(crate) fn flag(object: Flag) -> bool {
    object.0
}

/// The whole number that an object is.
#[pyfunction]
pub(crate) fn number(object: Number) -> i32 {
    object.0
}

/// The text that an object is, or has the bytes of.
#[pyfunction]
pub(crate) fn text(object: Text) -> String {
    object.0
}

/// The key and value of an entry, each as long as onnxruntime takes them.
#[pyfunction]
pub(crate) fn entry(key: Text, value: Text) -> PyResult<(String, String)> {
    const MOST: [usize; 2] = [1024, 8192];
    let (Text(key), Text(value)) = (key, value);
    if key.is_empty() || key.len() > MOST[0] || value.len() > MOST[1] {
        let lengths = (key.len(), value.len());
        return Err(PyRuntimeError::new_err(format!(
            "a key has 1 to {} bytes and a value at most {}, and these have {lengths:?}",
            MOST[0], MOST[1]
        )));
    }
    Ok((key, value))
}
