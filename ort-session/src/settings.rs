//! Further settings of the builder that correspond to ONNX Runtime's session options.

use std::path::PathBuf;
use std::sync::Arc;

use ort_graph::{OpDef, OperatorSource};

use crate::builder::SessionBuilder;
use crate::error::SessionError;
use crate::log::Severity;
use crate::optimized::Optimized;

/// Where the optimized model is saved, and in which format.
#[derive(Clone, Debug, Default)]
pub(crate) struct SavedModel {
    pub(crate) path: Option<PathBuf>,
    /// Whether it is an `.ort` file regardless of its extension.
    pub(crate) is_ort: bool,
}

impl SavedModel {
    /// The path, if its extension matches the format.
    ///
    /// # Errors
    /// The path, if it does not.
    pub(crate) fn checked(self) -> Result<Option<PathBuf>, PathBuf> {
        let says_ort = |path: &PathBuf| path.extension().is_some_and(|it| it == "ort");
        match self.path {
            Some(path) if !self.is_ort && !says_ort(&path) => Err(path),
            path => Ok(path),
        }
    }
}

impl SessionBuilder {
    /// Whether kernels may pack constants; they may by default. Without packing, they read weights as
    /// the file has them: less memory, but slower. Kernels that require packing leave their nodes to
    /// slower ones; results agree up to rounding. (Filters that the optimizer converts to NCHWc, from
    /// level `layout` on, are constants of its graph and not affected.)
    ///
    /// A packed file or a cache folder is used with packing only if it was made with packing.
    #[must_use]
    pub fn prepacking(mut self, is_on: bool) -> Self {
        self.skips_packing = !is_on;
        self
    }

    /// Adds operators of a custom domain. Standard operators cannot be replaced. Their nodes run by
    /// [`Operator::eval`](crate::provider::Operator::eval) unless a provider claims them.
    ///
    /// Constants that the optimizer computes with them become part of saved models and of cached files:
    /// an operator with changed semantics needs another cache folder.
    #[must_use]
    pub fn operators(mut self, operators: &[OpDef]) -> Self {
        // bounded: as many as the caller gives
        self.operators.defs.extend(operators);
        self
    }

    /// Adds operators that are known at run time only. As for [`SessionBuilder::operators`].
    #[must_use]
    pub fn operator_source(mut self, source: Arc<dyn OperatorSource>) -> Self {
        self.operators.sources.push(source);
        self
    }

    /// Writes the optimized model to this file when this builder builds a session. The name must end
    /// with `.ort`, or building the session fails: it is the only format written.
    /// ([`SessionBuilder::optimize`] returns the model, with
    /// [`Optimized::write`](crate::Optimized::write).)
    #[must_use]
    pub fn optimized_model(mut self, path: impl Into<PathBuf>) -> Self {
        self.saved.path = Some(path.into());
        self
    }

    /// Fixes a named dimension of inputs before the graph is optimized, so that the optimizer can use
    /// it. A run with any other size is an error. It is an error when the session is built if no input
    /// has such a dimension.
    #[must_use]
    pub fn free_dimension(mut self, name: impl Into<String>, size: usize) -> Self {
        self.free_dims.by_name.insert(name.into(), size);
        self
    }

    /// The same for all dimensions of inputs with this denotation, such as `DATA_BATCH`. It is an error
    /// when the session is built if one of them already has another size.
    #[must_use]
    pub fn free_dimension_by_denotation(
        mut self,
        denotation: impl Into<String>,
        size: usize,
    ) -> Self {
        self.free_dims.by_denotation.insert(denotation.into(), size);
        self
    }

    /// The maximum size of all folded constants together, in bytes; 1 GiB by default.
    #[must_use]
    pub fn max_folded_bytes(mut self, n_bytes: usize) -> Self {
        self.options.max_folded_bytes = n_bytes;
        self
    }

    /// The minimum severity of events that the session emits through `tracing`; all by default, since
    /// subscribers filter as well.
    #[must_use]
    pub fn log_severity(mut self, least: Severity) -> Self {
        self.log.choice.severity = Some(least);
        self
    }

    /// The maximum verbosity of verbose events: with 0, optimizer passes emit none; all by default.
    #[must_use]
    pub fn log_verbosity(mut self, most: u32) -> Self {
        self.log.choice.verbosity = Some(most);
        self
    }

    /// The name of the session in events, as the field `session`.
    #[must_use]
    pub fn log_id(mut self, id: impl Into<String>) -> Self {
        self.log.id = Some(id.into().into());
        self
    }

    /// The chosen optimization level.
    pub const fn chosen_level(&self) -> ort_optimizer::Level {
        self.options.level
    }

    /// How files are loaded.
    pub const fn chosen_load(&self) -> ort_loader::Load {
        self.load
    }

    /// The options of the CPU provider.
    pub const fn cpu_options(&self) -> ort_ep_cpu::CpuOptions {
        self.cpu
    }

    /// The model that `optimized` returns for this builder, written to a file if the builder says so.
    pub(crate) fn saving(
        mut self,
        optimized: impl FnOnce(Self) -> Result<Optimized, SessionError>,
    ) -> Result<Optimized, SessionError> {
        let saved = std::mem::take(&mut self.saved).checked();
        let saved = saved.map_err(|path| SessionError::SavedFormat { path })?;
        let optimized = optimized(self)?;
        if let Some(path) = &saved {
            optimized.settings.or_cancelled("save", optimized.write(path))?;
        }
        Ok(optimized)
    }
}
