//! A model with an optimized graph, to inspect and to save.

use std::path::PathBuf;

use ort_session::{Optimized as Model, Pack};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::builder::of_save;

/// A model with an optimized graph.
#[pyclass(frozen, module = "ort_rs")]
#[derive(Debug)]
pub(crate) struct Optimized {
    pub(crate) model: Model,
}

#[pymethods]
impl Optimized {
    /// The graph as text.
    fn text(&self) -> String {
        self.model.text()
    }

    /// The number of nodes of each operator before and after: `(domain, operator, before, after)`.
    fn operators(&self) -> Vec<(String, String, usize, usize)> {
        let operators = self.model.operators().into_iter();
        operators.map(|it| (it.domain, it.op_type, it.before, it.after)).collect()
    }

    /// Writes a `.ort` file; returns its size in bytes.
    fn write(&self, py: Python<'_>, path: PathBuf) -> PyResult<usize> {
        py.detach(|| self.model.write(path)).map_err(of_save)
    }

    /// The bytes of a `.onnx` file.
    fn to_onnx_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.model.to_onnx_bytes()).map_err(of_save)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Writes a `.onnx` file; returns its size in bytes.
    fn write_onnx(&self, py: Python<'_>, path: PathBuf) -> PyResult<usize> {
        py.detach(|| self.model.write_onnx(path)).map_err(of_save)
    }

    /// Writes a `.ort` file with weights packed for this machine's kernels: a session of it loads quickly, and
    /// shares them with every process. `replace` leaves the originals out: then it runs only on machines it was
    /// packed for. Returns the sizes of the file, of packed weights, and of those left out, in bytes.
    #[pyo3(signature = (path, *, replace = false))]
    fn write_packed(
        &self,
        py: Python<'_>,
        path: PathBuf,
        replace: bool,
    ) -> PyResult<(usize, usize, usize)> {
        let pack = if replace { Pack::Replace } else { Pack::KeepOriginals };
        let size = py.detach(|| self.model.write_packed(path, pack)).map_err(of_save)?;
        Ok((size.file_bytes, size.packed_bytes, size.left_out_bytes))
    }

    fn __repr__(&self) -> String {
        let (before, after) = self
            .model
            .operators()
            .iter()
            .fold((0, 0), |(before, after), it| (before + it.before, after + it.after));
        format!("Optimized({before} nodes before, {after} after)")
    }
}
