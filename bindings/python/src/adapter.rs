//! LoRA adapters: values for inputs of a model, from a file, for the runs whose options have them.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use ort_session::{Adapter, Value};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::runtime;
use crate::value::OrtValue;

/// Versions of the format, of the adapter and of the model, and the parameters by name.
type Contents<'py> = (i32, i32, i32, Bound<'py, PyDict>);

/// Values for some inputs of a model. Until a file is loaded there are none.
#[pyclass(frozen, module = "ort_rs.capi.onnxruntime_pybind11_state")]
#[derive(Debug, Default)]
pub(crate) struct LoraAdapter {
    parameters: Mutex<Option<Py<PyDict>>>,
}

impl LoraAdapter {
    /// Adds its parameters to a feed, replacing existing ones, as onnxruntime does.
    pub(crate) fn put(&self, feed: &Bound<'_, PyDict>) -> PyResult<()> {
        let parameters = self.parameters.lock().unwrap_or_else(PoisonError::into_inner);
        match &*parameters {
            Some(parameters) => feed.update(parameters.bind(feed.py()).as_mapping()),
            None => Ok(()),
        }
    }
}

#[pymethods]
impl LoraAdapter {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Maps the file of an adapter.
    #[pyo3(name = "Load")]
    fn load(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let (.., parameters) = read_adapter(py, path)?;
        let mut place = self.parameters.lock().unwrap_or_else(PoisonError::into_inner);
        *place = Some(parameters.unbind());
        Ok(())
    }
}

/// The contents of an adapter file.
#[pyfunction]
pub(crate) fn read_adapter(py: Python<'_>, path: PathBuf) -> PyResult<Contents<'_>> {
    let adapter = py.detach(|| Adapter::from_path(path)).map_err(runtime)?;
    let parameters = PyDict::new(py);
    for (name, tensor) in adapter.parameters() {
        let value = OrtValue::of_value(py, Value::Tensor(tensor.clone()))?;
        parameters.set_item(name, Py::new(py, value)?)?;
    }
    let (format, own, model) =
        (adapter.format_version(), adapter.adapter_version, adapter.model_version);
    Ok((format, own, model, parameters))
}

/// Writes an adapter file.
#[pyfunction]
pub(crate) fn write_adapter(
    path: PathBuf,
    adapter_version: i32,
    model_version: i32,
    parameters: &Bound<'_, PyDict>,
) -> PyResult<()> {
    let py = parameters.py();
    let tensors = parameters.iter().map(|(name, value)| {
        let value = value.cast_into::<OrtValue>()?;
        Ok((name.extract::<String>()?, value.get().lent(py)?))
    });
    let tensors = tensors.collect::<PyResult<Vec<_>>>()?;
    let adapter = Adapter::new(adapter_version, model_version, tensors);
    py.detach(|| adapter.save(path)).map_err(runtime)
}
