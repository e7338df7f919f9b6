//! A model whose graph is optimized: to look at, and to save.

use std::path::PathBuf;

use ort_session::{Optimized as Model, Pack};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::builder::of_save;

/// A model whose graph is optimized.
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

    /// How often nodes applied each operator, and how often they do now: `(domain, operator, before, after)`.
    fn operators(&self) -> Vec<(String, String, usize, usize)> {
        let operators = self.model.operators().into_iter();
        operators.map(|it| (it.domain, it.op_type, it.before, it.after)).collect()
    }

    /// Writes a `.ort` file; its length.
    fn write(&self, py: Python<'_>, path: PathBuf) -> PyResult<usize> {
        py.detach(|| self.model.write(path)).map_err(of_save)
    }

    /// The bytes of a `.onnx` file.
    fn to_onnx_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.model.to_onnx_bytes()).map_err(of_save)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Writes a `.onnx` file; its length.
    fn write_onnx(&self, py: Python<'_>, path: PathBuf) -> PyResult<usize> {
        py.detach(|| self.model.write_onnx(path)).map_err(of_save)
    }

    /// Writes a `.ort` file in which weights also stand as this machine's kernels want them: a session of it is
    /// ready at once, and shares them with every process. `replace` leaves the plain ones out: then it runs only
    /// where it was packed for. Returns the bytes of the file, of packed weights, and of those left out.
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
