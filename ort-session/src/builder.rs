//! From a path or bytes to a session.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use ort_ep::ExecutionProvider;
use ort_ep_cpu::{CpuOptions, CpuProvider, Denormals, IsaChoice};
use ort_format::Limits;
use ort_graph::{ImportLimits, ImportWarning, import};
use ort_loader::{Load, ModelBytes};
use ort_optimizer::{Level, Options};

use crate::error::SessionError;
use crate::fold::FoldWith;
use crate::packs::MemoryPacks;
use crate::plan::Compiler;
use crate::session::{Metadata, Session};
use crate::threads::{Pool, default_count};

/// Settings of a session to be.
#[derive(Clone, Debug, Default)]
pub struct SessionBuilder {
    level: Option<Level>,
    nchwc_block_size: Option<usize>,
    n_threads: Option<usize>,
    load: Load,
    cpu: CpuOptions,
    providers: Vec<Arc<dyn ExecutionProvider>>,
    limits: Limits,
    import_limits: ImportLimits,
}

impl SessionBuilder {
    /// How far the graph is optimized; all the way by default.
    #[must_use]
    pub fn level(mut self, level: Level) -> Self {
        self.level = Some(level);
        self
    }

    /// How many channels a block of com.microsoft.nchwc nodes has, 8 or 16: a file does not state
    /// it. Only files that give no evidence of it need this.
    #[must_use]
    pub fn nchwc_block_size(mut self, n_channels: usize) -> Self {
        self.nchwc_block_size = Some(n_channels);
        self
    }

    /// How many threads a run uses, the caller included. By default the smallest of the affinity
    /// mask, the cgroup's quota and the number of physical cores.
    #[must_use]
    pub fn threads(mut self, n_threads: usize) -> Self {
        self.n_threads = Some(n_threads);
        self
    }

    /// How [`SessionBuilder::commit_from_file`] gets at the bytes; mapped by default.
    #[must_use]
    pub fn load(mut self, load: Load) -> Self {
        self.load = load;
        self
    }

    /// Whether denormal numbers count as zero while the session computes; they do by default.
    #[must_use]
    pub fn denormals(mut self, denormals: Denormals) -> Self {
        self.cpu.denormals = denormals;
        self
    }

    /// Which instruction set the CPU provider uses; the best there is by default.
    #[must_use]
    pub fn isa(mut self, isa: IsaChoice) -> Self {
        self.cpu.isa = isa;
        self
    }

    /// Adds a provider. Those added first are asked first, and the CPU provider comes last.
    #[must_use]
    pub fn provider(mut self, provider: Arc<dyn ExecutionProvider>) -> Self {
        self.providers.push(provider);
        self
    }

    /// What a file may ask for: depth, tables, size.
    #[must_use]
    pub fn limits(mut self, format: Limits, import: ImportLimits) -> Self {
        (self.limits, self.import_limits) = (format, import);
        self
    }

    /// Builds a session of a file.
    ///
    /// # Errors
    /// If the file cannot be had, is not sound, or holds a model that cannot run here.
    pub fn commit_from_file(self, path: impl AsRef<Path>) -> Result<Session, SessionError> {
        let start = Instant::now();
        let bytes = ModelBytes::from_path(path, self.load)?;
        self.build(bytes, start)
    }

    /// Builds a session of bytes: owned ones, `'static` ones, or those of any owner.
    ///
    /// # Errors
    /// If the bytes are not sound, or hold a model that cannot run here.
    pub fn commit(self, bytes: ModelBytes) -> Result<Session, SessionError> {
        self.build(bytes, Instant::now())
    }

    fn build(mut self, bytes: ModelBytes, start: Instant) -> Result<Session, SessionError> {
        let file = ort_format::open(bytes.as_slice(), &self.limits).map_err(Box::new)?;
        let registry = ort_ops::registry();
        let model = import(file, bytes.bytes(), &registry, self.import_limits).map_err(Box::new)?;
        let n_threads = self.n_threads.unwrap_or_else(default_count);
        self.cpu.max_threads = Some(n_threads);
        self.cpu.fuses = self.level.unwrap_or_default() == Level::All;
        self.providers.push(Arc::new(CpuProvider::new(self.cpu)?));
        let options = Options {
            level: self.level.unwrap_or(Level::All),
            opset: model.info.opset(""),
            nchwc_block_size: self.nchwc_block_size,
            ..Options::default()
        };
        let eval = FoldWith(&self.providers);
        let optimized = ort_optimizer::optimize(model.graph, &registry, &options, &eval);
        let (graph, report) = optimized.map_err(Box::new)?;
        let mut packs = MemoryPacks::default();
        let mut compiler = Compiler { providers: &self.providers, packs: &mut packs };
        let plan = compiler.compile(graph)?;
        let pool = Pool::new(n_threads)
            .map_err(|error| SessionError::Threads { n_threads, reason: error.to_string() })?;
        let names = plan.graph.outputs().iter().map(|&id| plan.graph.value(id).name.clone());
        let output_names = names.collect();
        let metadata = Metadata {
            model: model.info,
            warnings: model.warnings.iter().map(ImportWarning::to_string).collect(),
            optimized: report,
            load_time: start.elapsed(),
        };
        let (providers, packed_bytes) = (self.providers, packs.n_bytes());
        Ok(Session { plan, providers, pool, bytes, metadata, packed_bytes, output_names })
    }
}
