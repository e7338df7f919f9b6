//! Converts the feeds of a run to inputs: arrays are borrowed in place, other objects are converted.

use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use ort_session::provider::Shape;
use ort_session::{DType, InputValue, Map, Tensor, TensorView, Type, Value};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::array::bytes_of;
use crate::dtypes::{are_bits, descr_of, dtype_of};
use crate::errors::{invalid_argument, no_memory};
use crate::strings;
use crate::value::OrtValue;

/// One input, kept until the run is over.
#[derive(Debug)]
pub(crate) enum Fed<'py> {
    /// An array whose elements are read in place.
    Array { array: Bound<'py, PyUntypedArray>, dtype: DType, shape: Shape },
    /// A converted object.
    Value(Value),
    /// A value from an earlier run, or over memory of the caller.
    Held(Bound<'py, OrtValue>),
}

impl<'py> Fed<'py> {
    /// An object as an input of this name and type; `None` if it is left out.
    pub(crate) fn new(
        name: &str,
        object: &Bound<'py, PyAny>,
        expected: &Type,
    ) -> PyResult<Option<Self>> {
        if let Type::Optional(inner) = expected
            && !object.is_none()
        {
            return Self::of_optional(name, object, inner).map(Some);
        }
        if let Ok(array) = object.cast::<PyUntypedArray>() {
            return Self::of_array(name, array, expected).map(Some);
        }
        if let Ok(value) = object.cast::<OrtValue>() {
            return Ok(Some(Fed::Held(value.clone())));
        }
        if let Ok(inner) = object.getattr("_ortvalue") {
            return Ok(Some(Fed::Held(inner.cast_into()?)));
        }
        if object.is_none() {
            let is_optional = matches!(expected, Type::Optional(_));
            return Ok(is_optional.then_some(Fed::Value(Value::Optional(None))));
        }
        converted(name, object, expected).map(|value| Some(Fed::Value(value)))
    }

    /// A value for an optional input; one that is an optional already is kept.
    fn of_optional(name: &str, object: &Bound<'py, PyAny>, inner: &Type) -> PyResult<Self> {
        let fed = Fed::new(name, object, inner)?.ok_or_else(|| unhandled(name, object))?;
        Ok(Fed::Value(match fed.into_value()? {
            value @ Value::Optional(_) => value,
            value => Value::Optional(Some(Box::new(value))),
        }))
    }

    fn of_array(name: &str, array: &Bound<'py, PyUntypedArray>, expected: &Type) -> PyResult<Self> {
        let descr = array.dtype();
        let Some(found) = dtype_of(&descr) else {
            return Err(invalid_argument(format!("input `{name}`: ONNX has no type for {descr}")));
        };
        if found == DType::String {
            return Ok(Fed::Value(strings::tensor_of(array)?.into()));
        }
        if descr.is_native_byteorder() == Some(false) {
            let text = format!("input `{name}`: {descr} is not in this machine's byte order");
            return Err(invalid_argument(text));
        }
        let dtype = match element_of(expected) {
            Some(of) if are_bits(found, of) => of,
            _ => found,
        };
        let array = match bytes_of(array) {
            Some(_) => array.clone(),
            None => array.call_method1("copy", ("C",))?.cast_into()?,
        };
        let shape = Shape::from_slice(array.shape());
        if !dtype.is_packed() {
            return Ok(Fed::Array { array, dtype, shape });
        }
        let mut tensor = Tensor::zeros(dtype, &shape).map_err(invalid_argument)?;
        let elements = bytes_of(&array).unwrap_or_default();
        tensor.view_mut().pack(elements).map_err(invalid_argument)?;
        Ok(Fed::Value(tensor.into()))
    }

    /// As an input of a run.
    pub(crate) fn input(&self) -> PyResult<InputValue<'_>> {
        match self {
            Fed::Array { array, dtype, shape } => {
                let bytes = bytes_of(array).unwrap_or_default();
                let view = TensorView::from_bytes(*dtype, shape, bytes);
                Ok(view.map_err(invalid_argument)?.into())
            }
            Fed::Value(value) => Ok(value.into()),
            Fed::Held(value) => value.get().input(),
        }
    }

    /// An owned value.
    pub(crate) fn into_value(self) -> PyResult<Value> {
        match self {
            Fed::Value(value) => Ok(value),
            Fed::Held(value) => value.get().to_value(),
            fed => match fed.input()? {
                InputValue::View(view) => view.to_value().map_err(no_memory),
                InputValue::Owned(value) => Ok(value),
            },
        }
    }
}

/// The element type of a tensor.
fn element_of(ty: &Type) -> Option<DType> {
    match ty {
        Type::Tensor(tensor) => Some(tensor.dtype),
        _ => None,
    }
}

/// Converts lists, dictionaries and numbers to the expected type.
fn converted(name: &str, object: &Bound<'_, PyAny>, expected: &Type) -> PyResult<Value> {
    let py = object.py();
    let is_list = object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>();
    match expected {
        Type::Tensor(tensor) if is_list => {
            let descr = descr_of(py, tensor.dtype)?;
            let array = py.import("numpy")?.call_method1("asarray", (object, descr));
            let array = array.map_err(|error| {
                let text = format!("Could not create tensor from given input list `{name}`");
                PyRuntimeError::new_err(format!("{text}: {}", error.value(py)))
            })?;
            Fed::of_array(name, array.cast()?, expected)?.into_value()
        }
        Type::Sequence(inner) if is_list => {
            let items = object.try_iter()?.map(|item| item_of(name, &item?, inner));
            Ok(Value::Sequence(items.collect::<PyResult<_>>()?))
        }
        Type::Map { key, value } => {
            let dict = object.cast::<PyDict>().map_err(|_| unhandled(name, object))?;
            let part = |list: Bound<'_, PyList>, dtype: DType| {
                let array =
                    py.import("numpy")?.call_method1("asarray", (list, descr_of(py, dtype)?))?;
                let fed = Fed::of_array(name, array.cast()?, &Type::Unknown)?.into_value()?;
                fed.as_tensor().cloned().map_err(invalid_argument)
            };
            let values = element_of(value).ok_or_else(|| unhandled(name, object))?;
            let (keys, values) = (part(dict.keys(), *key)?, part(dict.values(), values)?);
            Ok(Value::Map(Map { keys, values }))
        }
        _ => Err(unhandled(name, object)),
    }
}

/// An item of a sequence.
fn item_of(name: &str, item: &Bound<'_, PyAny>, ty: &Type) -> PyResult<Value> {
    match Fed::new(name, item, ty)? {
        Some(fed) => fed.into_value(),
        None => Err(unhandled(name, item)),
    }
}

fn unhandled(name: &str, object: &Bound<'_, PyAny>) -> PyErr {
    let found = object.get_type();
    PyRuntimeError::new_err(format!("Unable to handle object of type {found} for input '{name}'"))
}
