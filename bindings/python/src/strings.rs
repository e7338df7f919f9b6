//! String arrays: Python strings are copied in and out.

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use ort_session::{Tensor, TensorView};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::errors::invalid_argument;

/// A tensor from an array of strings, of UTF-8 bytes, or of objects that convert to strings.
pub(crate) fn tensor_of(array: &Bound<'_, PyUntypedArray>) -> PyResult<Tensor> {
    let flat = array.call_method1("astype", ("object",))?.call_method0("ravel")?;
    let texts = flat.call_method0("tolist")?;
    let texts: Vec<String> =
        texts.try_iter()?.map(|item| text_of(&item?)).collect::<PyResult<_>>()?;
    Tensor::from_strings(array.shape(), texts).map_err(invalid_argument)
}

fn text_of(item: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(bytes) = item.cast::<PyBytes>() {
        let text = std::str::from_utf8(bytes.as_bytes());
        return text.map(str::to_owned).map_err(invalid_argument);
    }
    match item.cast::<PyString>() {
        Ok(text) => text.extract(),
        Err(_) => item.str()?.extract(),
    }
}

/// An array of objects, each a string.
pub(crate) fn array_of<'py>(py: Python<'py>, view: TensorView<'_>) -> PyResult<Bound<'py, PyAny>> {
    let texts = PyList::new(py, view.as_strings().map_err(invalid_argument)?)?;
    let array = py.import("numpy")?.call_method1("empty", (view.len(), "object"))?;
    array.set_item(pyo3::types::PySlice::full(py), texts)?;
    array.call_method1("reshape", (pyo3::types::PyTuple::new(py, view.shape())?,))
}
