//! Builds a session: options one by one, then a file or bytes.

use std::path::PathBuf;

use ort_session::{
    Cancel, LoadError, ModelBytes, Optimized as Model, SaveError, SessionBuilder, SessionError,
    config_keys,
};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::errors::{fail, invalid_argument, of_config, of_session};
use crate::optimized::Optimized;
use crate::session::Session;
use crate::value::OrtValue;

/// The options of a session.
#[pyclass(module = "ort_rs._native")]
#[derive(Debug, Default)]
pub(crate) struct Builder {
    builder: SessionBuilder,
    cancel: Cancel,
}

/// A model: its bytes, or the path of its file.
#[derive(Debug, FromPyObject)]
enum Source {
    Bytes(PyBackedBytes),
    File(PathBuf),
}

impl Builder {
    fn builder(&self) -> SessionBuilder {
        self.builder.clone().cancel(&self.cancel)
    }

    fn set(&mut self, set: impl FnOnce(SessionBuilder) -> SessionBuilder) {
        self.builder = set(std::mem::take(&mut self.builder));
    }

    fn optimized(&self, source: Source) -> Result<Model, SessionError> {
        match source {
            Source::Bytes(bytes) => self.builder().optimize(ModelBytes::from_owner(bytes)),
            Source::File(path) => self.builder().optimize_from_file(path),
        }
    }
}

#[pymethods]
impl Builder {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Whether there is such a key.
    fn knows(&self, key: &str) -> bool {
        config_keys().any(|known| known.name == key)
    }

    /// Sets a key of `docs/options.md`.
    fn config(&mut self, key: &str, value: &str) -> PyResult<()> {
        let set = self.builder.clone().config(key, value);
        self.builder = set.map_err(|error| of_config(&error))?;
        Ok(())
    }

    /// Caches packed models in this folder.
    fn cache_dir(&mut self, folder: PathBuf) {
        self.set(|builder| builder.cache_dir(folder));
    }

    /// Disables these optimizer passes.
    fn disable_optimizers(&mut self, names: Vec<String>) {
        self.set(|builder| builder.disable_optimizers(names));
    }

    /// Fixes the size of an input dimension that is only named.
    fn free_dimension(&mut self, name: String, size: usize) {
        self.set(|builder| builder.free_dimension(name, size));
    }

    /// Fixes the size of all input dimensions with this denotation.
    fn free_dimension_by_denotation(&mut self, denotation: String, size: usize) {
        self.set(|builder| builder.free_dimension_by_denotation(denotation, size));
    }

    /// An external file of the model, by its name in the model: bytes, which are kept and not copied.
    fn external_data(&mut self, name: String, value: &Bound<'_, OrtValue>) -> PyResult<()> {
        let lent = value.get().lent(value.py())?;
        let bytes = lent.shared_bytes().cloned();
        let bytes = bytes.ok_or_else(|| invalid_argument(format!("file `{name}` is not bytes")))?;
        self.set(|builder| builder.external_data(name, ModelBytes::from_owner(bytes)));
        Ok(())
    }

    /// The value of an initializer, whose memory is kept and not copied, and whether it must be external in the model.
    fn initializer(
        &mut self,
        name: String,
        value: &Bound<'_, OrtValue>,
        is_external: bool,
    ) -> PyResult<()> {
        let tensor = value.get().lent(value.py())?;
        self.set(|builder| match is_external {
            true => builder.external_initializer(name, tensor),
            false => builder.initializer(name, tensor),
        });
        Ok(())
    }

    /// A handle that cancels loading from another thread.
    fn cancel(&self) -> LoadCancel {
        LoadCancel { cancel: self.cancel.clone() }
    }

    /// Loads a session from a file, or from bytes, which are kept and not copied.
    fn load(&self, py: Python<'_>, model: Source) -> PyResult<Session> {
        if matches!(&model, Source::Bytes(bytes) if bytes.is_empty()) {
            return Err(invalid_argument("No graph was found: the model has no bytes"));
        }
        let builder = self.builder();
        let session = match model {
            Source::Bytes(bytes) => py.detach(|| builder.commit(ModelBytes::from_owner(bytes))),
            Source::File(path) => {
                let session = py.detach(|| builder.commit_from_file(&path));
                if let Err(SessionError::Load(LoadError::Missing { path: missing })) = &session
                    && *missing != path
                {
                    return Err(fail(format!(
                        "the model needs {}: no such file",
                        missing.display()
                    )));
                }
                session
            }
        };
        Ok(Session::new(session.map_err(|error| of_session(&error))?))
    }

    /// The model with its graph optimized.
    fn optimize(&self, py: Python<'_>, model: Source) -> PyResult<Optimized> {
        let optimized = py.detach(|| self.optimized(model));
        Ok(Optimized { model: optimized.map_err(|error| of_session(&error))? })
    }

    /// Writes the model with its graph optimized: a `.ort` file if the path has that extension, otherwise a `.onnx` file.
    fn save(&self, py: Python<'_>, model: Source, path: PathBuf) -> PyResult<usize> {
        let written = py.detach(|| {
            let optimized = self.optimized(model)?;
            match path.extension().is_some_and(|it| it == "ort") {
                true => optimized.write(&path),
                false => optimized.write_onnx(&path),
            }
            .map_err(SessionError::from)
        });
        written.map_err(|error| of_session(&error))
    }
}

/// Cancels loading from any thread.
#[pyclass(frozen, module = "ort_rs._native")]
#[derive(Debug)]
pub(crate) struct LoadCancel {
    cancel: Cancel,
}

#[pymethods]
impl LoadCancel {
    fn cancel(&self) {
        self.cancel.cancel();
    }
}

/// The exception for a model that was not saved.
pub(crate) fn of_save(error: SaveError) -> PyErr {
    of_session(&SessionError::from(error))
}
