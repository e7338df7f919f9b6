//! Resolved settings, which turn a file into an optimized graph.

// collects are bounded: as long as the graph's lists

use std::path::Path;
use std::sync::Arc;

use ort_ep::ExecutionProvider;
use ort_format::Limits;
use ort_graph::{Graph, ImportLimits, ImportWarning, Registry, import};
use ort_loader::{Load, LoadError, ModelBytes};
use ort_optimizer::{Options, Report, Visit};
use ort_tensor::{Ending, ended_by, within};
use web_time::{Duration, Instant};

use crate::cancel::Cancel;
use crate::error::{SaveError, SessionError};
use crate::external::External;
use crate::fold::FoldWith;
use crate::free_dims::FreeDims;
use crate::initializers::Initializers;
use crate::load_limits::{LoadLimitError, LoadLimits};
use crate::log::{Log, Severity};
use crate::memory::Origins;
use crate::opened::{How, Opened};
use crate::operators::Custom;
use crate::optimized::{OperatorCounts, Optimized};
use crate::packed::Seal;
use crate::profile::Profiler;
use crate::run_memory::Arena;
use crate::run_options::RunLimits;
use crate::threads::{Pool, ScopedThreads};

/// The resolved settings of a future session.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    pub(crate) options: Options,
    pub(crate) load: Load,
    pub(crate) providers: Arc<[Arc<dyn ExecutionProvider>]>,
    pub(crate) operators: Custom,
    pub(crate) pool: Pool,
    /// The threads that run branches in parallel, if any.
    pub(crate) branches: Option<Pool>,
    pub(crate) limits: Limits,
    pub(crate) import_limits: ImportLimits,
    /// The target of packed constants; `None` if files cannot store them.
    pub(crate) packed_for: Option<String>,
    /// Whether the checksums of packed files are verified.
    pub(crate) checks_sums: bool,
    pub(crate) profiler: Profiler,
    /// Whether kernels may pack constants.
    pub(crate) packs: bool,
    pub(crate) free_dims: FreeDims,
    pub(crate) log: Log,
    pub(crate) arena: Arena,
    pub(crate) activations_cap: usize,
    /// Cancels loading.
    pub(crate) cancel: Option<Cancel>,
    pub(crate) clock: Clock,
    pub(crate) run_limits: RunLimits,
    pub(crate) load_limits: LoadLimits,
    /// The memory that the process may use by default.
    pub(crate) memory_share: Option<usize>,
    pub(crate) external: External,
    pub(crate) initializers: Initializers,
}

impl Resolved {
    /// The bytes of a file.
    pub(crate) fn bytes_of(&self, path: impl AsRef<Path>) -> Result<ModelBytes, LoadError> {
        let load = || self.bounded(|| ModelBytes::from_path(path, self.load));
        self.profiler.during("model_loading_uri", load)
    }

    /// How to open a file: limits, the location of external data, and replaced initializers.
    pub(crate) const fn how(&self) -> How<'_> {
        let Self { limits, external, load, initializers, .. } = self;
        How { limits, external, load: *load, initializers }
    }

    /// The model in `bytes`, optimized unless it is already packed for these settings.
    pub(crate) fn optimized(
        &self,
        bytes: ModelBytes,
        start: Instant,
    ) -> Result<Optimized, SessionError> {
        self.log.event(Severity::Info, format_args!("loaded {} bytes", bytes.len()));
        if let Some(reason) = bytes.fallback() {
            let text = format_args!("the model cannot be mapped and was read instead: {reason}");
            self.log.event(Severity::Warning, text);
        }
        self.check_cancelled("verify")?;
        let profiler = &self.profiler;
        let open = || self.bounded(|| Opened::of(&bytes, self.how()));
        let opened = self.or_cancelled("verify", profiler.during("verify", open))?;
        profiler.during("check_sum", || self.check_sum(bytes.as_slice(), opened.seal))?;
        self.built(opened, &bytes, start)
    }

    /// The same for a model that is open.
    pub(crate) fn built(
        &self,
        opened: Opened<'_>,
        bytes: &ModelBytes,
        start: Instant,
    ) -> Result<Optimized, SessionError> {
        let Opened { model: parsed, seal, external } = opened;
        let profiler = &self.profiler;
        let is_packed =
            seal.is_some_and(|seal| self.packed_for.as_deref() == Some(seal.packed_for));
        self.check_cancelled("build")?;
        self.load_limits.check_file(&parsed.graph)?;
        let origins = Origins::of(&parsed.graph, bytes, &external);
        let registry = self.operators.registry();
        let denotations = self.free_dims.denotations(&parsed.graph);
        let build = || self.bounded(|| import(parsed, &registry, self.import_limits));
        let model =
            self.or_cancelled("build", profiler.during("build", build).map_err(Box::new))?;
        let mut warnings: Vec<_> = model.warnings.iter().map(ImportWarning::to_string).collect();
        let mut packing_warnings = Vec::new();
        let (mut graph, mut report) = (model.graph, Report::default());
        let before = OperatorCounts::of(&graph);
        self.load_limits.check_shapes(&graph)?;
        self.check_cancelled("optimize")?;
        if !is_packed {
            packing_warnings.extend(self.without_forms(&mut graph, seal)?);
            self.free_dims.fix(&mut graph, &denotations)?;
            self.load_limits.check_shapes(&graph)?;
            (graph, report) = self.optimize(graph, &registry, model.info.opset(""))?;
            self.load_limits.check_shapes(&graph)?;
            warnings.extend(report.assumed_block_size.as_ref().map(ToString::to_string));
        }
        for warning in warnings.iter().chain(&packing_warnings) {
            self.log.event(Severity::Warning, format_args!("{warning}"));
        }
        self.log_report(&report, &graph);
        Ok(Optimized {
            graph,
            origins,
            is_packed,
            model: model.info,
            warnings,
            packing_warnings,
            report,
            before,
            settings: self.clone(),
            time: start.elapsed(),
            external,
            bytes: bytes.clone(),
        })
    }

    fn optimize(
        &self,
        graph: Graph,
        registry: &Registry,
        opset: Option<i64>,
    ) -> Result<(Graph, Report), SessionError> {
        let most = self.load_limits.max_bytes.unwrap_or(usize::MAX);
        let max_folded_bytes = self.options.max_folded_bytes.min(most);
        let options = Options { opset, max_folded_bytes, ..self.options.clone() };
        let _in_run = self.pool.run();
        let threads = ScopedThreads { pool: &self.pool, providers: &self.providers };
        let (cancel, max_bytes) = (self.cancel.as_ref(), self.load_limits.max_bytes);
        let eval = FoldWith { threads, cancel, max_bytes };
        let optimize =
            || self.bounded(|| ort_optimizer::optimize(graph, registry, &options, &eval));
        let optimized = self.profiler.during("optimize", optimize).map_err(Box::new);
        let (graph, report) = self.or_cancelled("optimize", optimized)?;
        note_passes(&self.profiler, &report);
        Ok((graph, report))
    }

    /// Calls `body` within the memory limit of loading, and with cancellation.
    pub(crate) fn bounded<R>(&self, body: impl FnOnce() -> R) -> R {
        self.bounded_by(usize::MAX, body)
    }

    /// Calls `save` with cancellation, and with `left` bytes of the limit of loading.
    pub(crate) fn saving<T>(
        &self,
        left: usize,
        save: impl FnOnce() -> Result<T, SaveError>,
    ) -> Result<T, SaveError> {
        let stopped = || match self.check_cancelled("save") {
            Err(SessionError::Cancelled) => Some(SaveError::Cancelled),
            Err(SessionError::Limit(late)) => Some(SaveError::Limit(late)),
            _ => None,
        };
        if let Some(error) = stopped() {
            return Err(error);
        }
        self.bounded_by(left, save).map_err(|error| stopped().unwrap_or(error))
    }

    fn bounded_by<R>(&self, left: usize, body: impl FnOnce() -> R) -> R {
        let most = self.load_limits.max_bytes.unwrap_or(usize::MAX);
        let body = || within(most, left.min(most), body);
        match &self.cancel {
            Some(cancel) => ended_by(&(Arc::new(cancel.clone()) as Arc<dyn Ending>), body),
            None => body(),
        }
    }

    fn log_report(&self, report: &Report, graph: &Graph) {
        for pass in report.passes.iter().filter(|pass| pass.applied > 0) {
            self.log.detail(format_args!("{} rewrote {} places", pass.name, pass.applied));
        }
        let n_rewrites: usize = report.passes.iter().map(|pass| pass.applied).sum();
        let n_nodes = graph.n_nodes();
        let level = self.options.level;
        let text = format_args!("optimized to {level}: {n_rewrites} rewrites, {n_nodes} nodes");
        self.log.event(Severity::Info, text);
    }

    /// Checks that loading was neither cancelled nor timed out during this stage.
    pub(crate) fn check_cancelled(&self, stage: &'static str) -> Result<(), SessionError> {
        match &self.cancel {
            Some(cancel) if cancel.is_explicit() => Err(SessionError::Cancelled),
            Some(cancel) if cancel.is_cancelled() => Err(self.clock.late(stage).into()),
            _ => Ok(()),
        }
    }

    /// The same result; if loading was cancelled or timed out, that error takes precedence.
    pub(crate) fn or_cancelled<T>(
        &self,
        stage: &'static str,
        result: Result<T, impl Into<SessionError>>,
    ) -> Result<T, SessionError> {
        result.map_err(|error| self.check_cancelled(stage).err().unwrap_or_else(|| error.into()))
    }

    /// Verifies the checksum of a packed file.
    fn check_sum(&self, bytes: &[u8], seal: Option<Seal<'_>>) -> Result<(), SessionError> {
        let Some(seal) = seal.filter(|_| self.checks_sums) else { return Ok(()) };
        let threads = ScopedThreads { pool: &self.pool, providers: &self.providers };
        let _in_run = self.pool.run();
        let cancel = self.cancel.as_ref();
        match seal.is_whole(bytes, &threads, &|| !cancel.is_some_and(Cancel::is_cancelled)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(SessionError::Damaged),
            Err(_) => self.or_cancelled("check_sum", Err(SessionError::Damaged)),
        }
    }

    /// Drops packed constants that are for other settings; returns a warning if there were any.
    fn without_forms(
        &self,
        graph: &mut Graph,
        seal: Option<Seal<'_>>,
    ) -> Result<Option<String>, SessionError> {
        let mut is_complete = true;
        graph.edit_constants(&mut |constant, forms| {
            is_complete &= !constant.is_released();
            forms.clear();
        });
        let packed_for = || seal.map_or("another target", |seal| seal.packed_for).to_owned();
        let here = || self.packed_for.clone().unwrap_or_else(|| "this process only".to_owned());
        match (is_complete, seal) {
            (true, None) => Ok(None),
            (true, Some(_)) => Ok(Some(format!(
                "the file's packed weights are for `{}`, and this is `{}`: they are not used; pack \
                 the original model here to have them",
                packed_for(),
                here(),
            ))),
            (false, _) => {
                Err(SessionError::IncompatibleTarget { packed_for: packed_for(), here: here() })
            }
        }
    }
}

/// The start of loading, and its time limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
    limit: Option<Duration>,
}

impl Clock {
    /// A clock that starts now.
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        Self { start: Instant::now(), limit }
    }

    /// The cancellation of loading: the user's, and this clock.
    pub(crate) fn cancel(&self, given: Option<Cancel>) -> Option<Cancel> {
        match self.limit.and_then(|limit| self.start.checked_add(limit)) {
            Some(deadline) => Some(given.unwrap_or_default().until(deadline)),
            None => given,
        }
    }

    fn late(&self, stage: &'static str) -> LoadLimitError {
        let limit = self.limit.unwrap_or_default();
        LoadLimitError::Time { limit, found: self.start.elapsed(), stage }
    }
}

fn note_passes(profiler: &Profiler, report: &Report) {
    for Visit { pass, start, time, applied } in report.visits.iter().copied() {
        profiler.note(pass, (start, start + time), || vec![("rewrites", applied.to_string())]);
    }
}
