//! From a path or bytes to a session.

// collects are bounded: as many as the caller gives

mod packed_for;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ort_ep::{ExecutionProvider, Layout};
use ort_ep_cpu::{CpuOptions, CpuProvider, Denormals, IsaChoice};
use ort_format::Limits;
use ort_graph::ImportLimits;
use ort_loader::{Load, ModelBytes};
use ort_optimizer::{Exactness, Level, Options};
use ort_tensor::reusing;
use web_time::Instant;

use crate::cache::{self, Source};
use crate::cancel::Cancel;
use crate::error::SessionError;
use crate::external::External;
use crate::free_dims::FreeDims;
use crate::initializers::Initializers;
use crate::load_limits::LoadLimits;
use crate::log::Log;
use crate::nearest::nearest;
use crate::operators::Custom;
use crate::optimized::Optimized;
use crate::profile::{Profiler, Profiling};
use crate::resolved::{Clock, Resolved};
use crate::run_memory::{Arena, DEFAULT_CAP};
use crate::run_options::RunLimits;
use crate::session::Session;
use crate::settings::SavedModel;
use crate::threads::{BranchOptions, PoolOptions, memory_share};

/// The settings of a future session.
#[derive(Clone, Debug, Default)]
pub struct SessionBuilder {
    pub(crate) options: Options,
    /// Optimizer passes that configuration keys enable or disable.
    pub(crate) passes: BTreeMap<&'static str, bool>,
    pub(crate) n_threads: Option<usize>,
    pub(crate) max_threads: Option<usize>,
    pub(crate) pool: PoolOptions,
    pub(crate) branches: BranchOptions,
    pub(crate) load: Load,
    pub(crate) cpu: CpuOptions,
    providers: Vec<Arc<dyn ExecutionProvider>>,
    /// Operators in addition to those of ort-ops.
    pub(crate) operators: Custom,
    pub(crate) limits: Limits,
    import_limits: ImportLimits,
    pub(crate) arena: Arena,
    /// The values of ONNX Runtime's keys `enable_cpu_mem_arena` and `enable_mem_pattern`.
    pub(crate) arena_keys: [Option<bool>; 2],
    activations_cap: Option<usize>,
    cache_dir: Option<PathBuf>,
    skips_sums: bool,
    pub(crate) profiling: Profiling,
    pub(crate) skips_packing: bool,
    pub(crate) saved: SavedModel,
    pub(crate) free_dims: FreeDims,
    pub(crate) log: Log,
    cancel: Option<Cancel>,
    run_limits: RunLimits,
    pub(crate) load_limits: LoadLimits,
    pub(crate) external: External,
    pub(crate) initializers: Initializers,
}

impl SessionBuilder {
    /// The optimization level; `all` by default.
    #[must_use]
    pub fn level(mut self, level: Level) -> Self {
        self.options.level = level;
        self
    }

    /// Disables these optimizer passes. An unknown name is an error when the graph is optimized.
    /// (NchwcLowering cannot be disabled.)
    #[must_use]
    pub fn disable_optimizers(
        mut self,
        names: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.options.disabled.extend(names.into_iter().map(Into::into));
        self
    }

    /// Also enables these optimizer passes, which change results by more than rounding, such as
    /// GeluApproximation. An unknown name is an error when the graph is optimized.
    #[must_use]
    pub fn enable_optimizers(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.options.enabled.extend(names.into_iter().map(Into::into));
        self
    }

    /// Stops the optimizer after this number of rewrites. Bisecting over it finds the rewrite that
    /// breaks a model; [`Report::last`](ort_optimizer::Report::last) names it.
    #[must_use]
    pub fn stop_after(mut self, n_rewrites: usize) -> Self {
        self.options.stop_after = Some(n_rewrites);
        self
    }

    /// The block size of com.microsoft.nchwc nodes, 8 or 16 channels, which a file does not state. If
    /// it cannot be inferred, the likelier size is assumed, or the one that the first provider prefers,
    /// with a warning in [`Metadata::warnings`](crate::Metadata::warnings).
    #[must_use]
    pub fn nchwc_block_size(mut self, n_channels: usize) -> Self {
        self.options.nchwc_block_size = Some(n_channels);
        self
    }

    /// The number of threads of a run, the caller included. By default the smallest of the affinity
    /// mask, the quotas of the control groups and the number of physical cores.
    #[must_use]
    pub fn threads(mut self, n_threads: usize) -> Self {
        self.n_threads = Some(n_threads);
        self
    }

    /// How [`SessionBuilder::commit_from_file`] loads the file; mapped by default.
    #[must_use]
    pub fn load(mut self, load: Load) -> Self {
        self.load = load;
        self
    }

    /// Whether denormal numbers are flushed to zero while the session computes; they are by default.
    #[must_use]
    pub fn denormals(mut self, denormals: Denormals) -> Self {
        self.cpu.denormals = denormals;
        self
    }

    /// The instruction set of the CPU provider; the best available by default.
    #[must_use]
    pub fn isa(mut self, isa: IsaChoice) -> Self {
        self.cpu.isa = isa;
        self
    }

    /// Whether the CPU provider may compute convolutions of 2 or 3 taps along one or two axes, or 5 along one, by
    /// Winograd's algorithm where that is faster; it may by default. Their errors are then two to three times
    /// as large, and the transformed filters take up to six times the memory of the filters.
    #[must_use]
    pub fn winograd(mut self, is_on: bool) -> Self {
        self.cpu.winograd = is_on;
        self
    }

    /// The `accuracy_level` of the MatMulNBits that replaces a product with dequantized weights: 0, the default, for
    /// floats; 4 permits rounding its left operand to 8 bits, by blocks. Above 4, weights become floats.
    #[must_use]
    pub fn matmul_nbits_accuracy_level(mut self, level: u8) -> Self {
        self.options.matmul_nbits_accuracy_level = level;
        self
    }

    /// Whether MatMulNBits of `accuracy_level` 4 quantizes activations to 8 bits by block; it does by
    /// default.
    #[must_use]
    pub fn int8_blocks(mut self, is_on: bool) -> Self {
        self.cpu.int8_blocks = is_on;
        self
    }

    /// The retention policy for the memory of a finished run; by default it is retained while it is
    /// needed.
    #[must_use]
    pub fn arena(mut self, arena: Arena) -> Self {
        self.arena = arena;
        self
    }

    /// The maximum of run memory, in bytes, that the session retains between runs; 1 GiB by default.
    /// Memory beyond it is released as soon as its run ends.
    #[must_use]
    pub fn activations_cap(mut self, n_bytes: usize) -> Self {
        self.activations_cap = Some(n_bytes);
        self
    }

    /// Adds a provider. Providers claim nodes in the order in which they were added, and the CPU
    /// provider comes last.
    #[must_use]
    pub fn provider(mut self, provider: Arc<dyn ExecutionProvider>) -> Self {
        self.providers.push(provider);
        self
    }

    /// Structural limits of a file: depth, tables, size. [`SessionBuilder::load_limits`] bound the
    /// resources of a model.
    #[must_use]
    pub fn limits(mut self, format: Limits, import: ImportLimits) -> Self {
        (self.limits, self.import_limits) = (format, import);
        self
    }

    /// The resource limits of loading; exceeding one is a [`SessionError::Limit`].
    #[must_use]
    pub fn load_limits(mut self, limits: LoadLimits) -> Self {
        self.load_limits = limits;
        self
    }

    /// The resource limits of every run of the session; those of the run's options override them.
    #[must_use]
    pub fn run_limits(mut self, limits: RunLimits) -> Self {
        self.run_limits = limits;
        self
    }

    /// Stores the optimized model in this folder, in a file with every constant packed for the kernels.
    /// The next session of the same model, for the same processor and options, maps that file: it packs
    /// nothing, and its weights are shared with every process that does the same.
    ///
    /// A file that is damaged, or of another version of this crate, is replaced. A folder that is not
    /// writable costs a warning. Write access to the folder is control over what is computed.
    #[must_use]
    pub fn cache_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache_dir = Some(folder.into());
        self
    }

    /// Whether the bytes of a packed file are compared with its checksum before it is used; they are by
    /// default. The check reads the whole file, at memory bandwidth. Files of a cache folder that were
    /// verified before and have not changed since are not read again.
    #[must_use]
    pub fn check_sums(mut self, is_on: bool) -> Self {
        self.skips_sums = !is_on;
        self
    }

    /// Ends loading with [`SessionError::Cancelled`], and saving with [`SaveError::Cancelled`](crate::SaveError::Cancelled), as
    /// soon as `cancel` is cancelled. It does not end runs of the session: those have [`RunOptions::cancel`](crate::RunOptions::cancel).
    #[must_use]
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.cancel = Some(cancel.clone());
        self
    }

    /// Profiles the session from now until [`Session::end_profiling`]: the stages of loading, and every
    /// step of every run. The trace is written to a file `PREFIX_2026-01-31_23-59-59_999.json` (in
    /// UTC), which Perfetto, `chrome://tracing` and ONNX Runtime's own tools read; see
    /// `docs/profiling.md`. Dropping the session writes it, too; a process that ends without either
    /// writes no file.
    #[must_use]
    pub fn enable_profiling(mut self, prefix: impl Into<PathBuf>) -> Self {
        self.profiling = Profiling::Write(prefix.into());
        self
    }

    /// Records the same for [`Session::take_trace`], without a file.
    #[must_use]
    pub fn collect_trace(mut self) -> Self {
        self.profiling = Profiling::Collect;
        self
    }

    /// Builds a session from a file.
    ///
    /// The file is mapped by default, so it must not be written or truncated while the session lives:
    /// replace it by renaming another file over it. If that cannot be guaranteed, [`Load::Read`] and
    /// [`Load::Sealed`] make a copy. See [`Load::Mapped`] and [`SessionBuilder::load`].
    ///
    /// # Errors
    /// If the file cannot be read or is invalid, or the model is unsupported.
    pub fn commit_from_file(self, path: impl AsRef<Path>) -> Result<Session, SessionError> {
        reusing(|| self.committed(Source::File(path.as_ref())))
    }

    /// Builds a session from bytes: owned, `'static`, or those of any owner.
    ///
    /// # Errors
    /// If the bytes are invalid, or the model is unsupported.
    pub fn commit(self, bytes: ModelBytes) -> Result<Session, SessionError> {
        reusing(|| self.committed(Source::Bytes(bytes)))
    }

    fn committed(mut self, source: Source<'_>) -> Result<Session, SessionError> {
        let start = Instant::now();
        let optimized = |builder: Self| -> Result<Optimized, SessionError> {
            let settings = builder.resolved()?;
            settings.check_cancelled("model_loading_uri")?;
            settings.optimized(source.load(&settings)?, start)
        };
        let Some(folder) = self.cache_dir.take() else { return self.saving(optimized)?.commit() };
        // A cached file has packed constants, which the saved model must not have. The trace belongs to
        // the session.
        let saves = self.saved.path.is_some();
        let saver = saves.then(|| Self { profiling: Profiling::Off, ..self.clone() });
        self.saved = SavedModel::default();
        let session = cache::session(&folder, &source, self)?;
        saver.map(|saver| saver.saving(optimized)).transpose()?;
        Ok(session)
    }

    /// Optimizes the graph of a file, to save it, inspect it, or build a session from it. ONNX
    /// Runtime (1.31) runs models saved at levels up to `layout`, that level only on machines with the same
    /// vector width; level `all` uses node types that only this runtime has.
    ///
    /// # Errors
    /// If the file cannot be read or is invalid, or the model is unsupported.
    pub fn optimize_from_file(self, path: impl AsRef<Path>) -> Result<Optimized, SessionError> {
        let start = Instant::now();
        let settings = self.resolved()?;
        settings.check_cancelled("model_loading_uri")?;
        settings.optimized(settings.bytes_of(path)?, start)
    }

    /// The same with a model in memory.
    ///
    /// # Errors
    /// If the bytes are invalid, or the model is unsupported.
    pub fn optimize(self, bytes: ModelBytes) -> Result<Optimized, SessionError> {
        let start = Instant::now();
        self.resolved()?.optimized(bytes, start)
    }

    /// The settings, with all derived ones.
    pub(crate) fn resolved(mut self) -> Result<Resolved, SessionError> {
        let clock = Clock::new(self.load_limits.max_time);
        let profiler = Profiler::new(std::mem::take(&mut self.profiling));
        self.options.disabled.iter().try_for_each(|name| known(name, ort_optimizer::names))?;
        let own = || ort_optimizer::passes().map(|(name, ..)| name);
        self.options.enabled.iter().try_for_each(|name| known(name, own))?;
        for (name, _, exactness) in ort_optimizer::passes() {
            // A key that requests the default has no effect.
            match (self.passes.get(name), exactness) {
                (Some(true), Exactness::Approximate) => self.options.enabled.push(name.to_owned()),
                (Some(true) | None, _) | (Some(false), Exactness::Approximate) => {}
                (Some(false), _) => self.options.disabled.push(name.to_owned()),
            }
        }
        let requested = self.pool.n_given().or(self.n_threads);
        let n_threads = requested.unwrap_or_else(|| self.thread_count().n_threads());
        self.cpu.max_threads = Some(n_threads);
        self.cpu.fuses = self.options.level == Level::All;
        self.providers.push(Arc::new(CpuProvider::new(self.cpu)?));
        self.options.layout_block = layout_block(&self.providers);
        let pool = self.pool.pool(n_threads)?;
        let branches = self.branches.pool(&self.pool, &pool)?;
        let memory_share = memory_share();
        Ok(Resolved {
            packed_for: self.packed_for(),
            options: self.options,
            load: self.load,
            providers: self.providers.into(),
            operators: self.operators.checked()?,
            pool,
            branches,
            limits: self.limits,
            import_limits: self.import_limits,
            checks_sums: !self.skips_sums,
            profiler,
            packs: !self.skips_packing,
            free_dims: self.free_dims,
            log: self.log,
            arena: self.arena,
            activations_cap: self.activations_cap.unwrap_or(DEFAULT_CAP),
            cancel: clock.cancel(self.cancel),
            clock,
            load_limits: self.load_limits.or_share(memory_share),
            memory_share,
            external: self.external,
            initializers: self.initializers,
            run_limits: self.run_limits,
        })
    }
}

/// The preferred block size of the first provider that prefers NCHWc.
fn layout_block(providers: &[Arc<dyn ExecutionProvider>]) -> Option<usize> {
    providers.iter().find_map(|provider| match provider.preferred_layout() {
        Layout::Nchw => None,
        Layout::Nchwc { block } => Some(block),
    })
}

/// Fails unless each of these is the name of an optimizer pass.
fn known<I: Iterator<Item = &'static str>>(
    name: &str,
    names: impl Fn() -> I,
) -> Result<(), SessionError> {
    if names().any(|known| known == name) {
        return Ok(());
    }
    Err(SessionError::UnknownOptimizer { name: name.to_owned(), nearest: nearest(name, names()) })
}
