//! Converts outputs to Python objects: arrays over their memory, lists, dictionaries, `None`.

use ort_session::provider::Shape;
use ort_session::{DType, Map, Tensor, TensorView, Value};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::array::Block;
use crate::dtypes::descr_of;
use crate::errors::invalid_argument;
use crate::strings;

/// A value as a Python object.
pub(crate) fn object_of(py: Python<'_>, value: Value) -> PyResult<Bound<'_, PyAny>> {
    match value {
        Value::Tensor(tensor) => array_of(py, tensor),
        Value::Sequence(items) => {
            let (list, mut keys) = (PyList::empty(py), None);
            for item in items {
                list.append(match item {
                    Value::Map(map) => dict_of(py, map, &mut keys)?,
                    item => object_of(py, item)?,
                })?;
            }
            Ok(list.into_any())
        }
        Value::Map(map) => dict_of(py, map, &mut None),
        Value::Optional(Some(value)) => object_of(py, *value),
        _ => Ok(py.None().into_bound(py)),
    }
}

/// An array that owns the tensor's memory. Elements below 8 bits get a byte each.
pub(crate) fn array_of(py: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyAny>> {
    let (dtype, shape) = (tensor.dtype(), Shape::from_slice(tensor.shape()));
    let tensor = match dtype {
        DType::String => return strings::array_of(py, tensor.view()),
        dtype if dtype.is_packed() => unpacked(tensor.view())?,
        _ => tensor,
    };
    Block::array(&Bound::new(py, Block::of_tensor(tensor))?, descr_of(py, dtype)?, &shape)
}

/// One byte per element, as in `ml_dtypes`: integers are sign-extended.
pub(crate) fn unpacked(view: TensorView<'_>) -> PyResult<Tensor> {
    let mut elements = view.unpacked().map_err(invalid_argument)?;
    if matches!(view.dtype(), DType::I4 | DType::I2) {
        let shift = 8 - view.dtype().bits();
        for element in &mut elements {
            *element = ((*element << shift).cast_signed() >> shift).cast_unsigned();
        }
    }
    Tensor::from_slice(view.shape(), &elements).map_err(invalid_argument)
}

/// The keys of a map, and the same as objects.
type Keys<'py> = Option<(Tensor, Bound<'py, PyList>)>;

/// A map as a dictionary. `keys` are those of the previous map, which maps of one sequence mostly share.
fn dict_of<'py>(py: Python<'py>, map: Map, keys: &mut Keys<'py>) -> PyResult<Bound<'py, PyAny>> {
    let known = keys.take().filter(|(known, _)| are_shared(known, &map.keys));
    let (_, objects) = match known {
        Some(known) => keys.insert(known),
        None => keys.insert((map.keys.clone(), list_of(py, map.keys)?)),
    };
    let (dict, objects) = (PyDict::new(py), objects.iter());
    if let Ok(values) = map.values.view().as_slice::<f32>() {
        for (key, value) in objects.zip(values) {
            dict.set_item(key, value)?;
        }
    } else {
        for (key, value) in objects.zip(list_of(py, map.values)?) {
            dict.set_item(key, value)?;
        }
    }
    Ok(dict.into_any())
}

/// Whether the elements are the same memory.
fn are_shared(a: &Tensor, b: &Tensor) -> bool {
    let (a, b) = (a.view(), b.view());
    match (a.as_strings(), b.as_strings()) {
        (Ok(a), Ok(b)) => std::ptr::eq(a, b),
        _ => {
            a.dtype() == b.dtype()
                && a.as_bytes().zip(b.as_bytes()).is_some_and(|(a, b)| std::ptr::eq(a, b))
        }
    }
}

/// The elements as Python's numbers and strings.
fn list_of(py: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyList>> {
    let view = tensor.view();
    if let Ok(numbers) = view.as_slice::<f32>() {
        PyList::new(py, numbers)
    } else if let Ok(numbers) = view.as_slice::<i64>() {
        PyList::new(py, numbers)
    } else if let Ok(texts) = view.as_strings() {
        PyList::new(py, texts)
    } else {
        Ok(array_of(py, tensor)?.call_method0("tolist")?.cast_into()?)
    }
}
