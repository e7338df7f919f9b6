//! The metadata of a model.

use ort_session::ModelInfo;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

/// onnxruntime's value for a missing version.
const NO_VERSION: i64 = i64::MAX;

/// The metadata of a model.
#[pyclass(frozen, module = "ort_rs.capi.onnxruntime_pybind11_state")]
#[derive(Debug)]
pub(crate) struct ModelMetadata {
    pub(crate) info: ModelInfo,
}

#[pymethods]
impl ModelMetadata {
    /// Custom metadata: strings by name.
    #[getter]
    fn custom_metadata_map<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.info.metadata.iter().map(|(key, value)| (key, value)).into_py_dict(py)
    }

    /// The description of the model.
    #[getter]
    fn description(&self) -> &str {
        &self.info.doc_string
    }

    /// The model's domain.
    #[getter]
    fn domain(&self) -> &str {
        &self.info.domain
    }

    /// The graph's name; empty if the model comes from a `.ort` file, which has none.
    #[getter]
    fn graph_name(&self) -> &str {
        &self.info.graph_name
    }

    /// The description of the graph.
    #[getter]
    fn graph_description(&self) -> &str {
        &self.info.graph_doc_string
    }

    /// The tool that created the model.
    #[getter]
    fn producer_name(&self) -> &str {
        &self.info.producer_name
    }

    /// The model's version; the largest 64-bit integer if it has none.
    #[getter]
    fn version(&self) -> i64 {
        self.info.model_version.unwrap_or(NO_VERSION)
    }

    /// The version of each operator set; the domain of ai.onnx is empty.
    #[getter]
    fn opsets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.info.opsets.iter().map(|(domain, version)| (domain, version)).into_py_dict(py)
    }

    fn __repr__(&self) -> String {
        let ModelInfo { producer_name, domain, .. } = &self.info;
        format!("ModelMetadata(producer_name={producer_name:?}, domain={domain:?})")
    }
}
