//! A model between optimizing and planning: it can be inspected, saved, or turned into a session.

// collects are bounded: as long as the graph's lists

mod counts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ort_ep::Threads;
use ort_graph::{Graph, ImportError, ModelInfo};
use ort_loader::{Kind, ModelBytes};
use ort_optimizer::{Report, lower_for_onnx_runtime};
use web_time::{Duration, Instant};

pub(crate) use self::counts::OperatorCounts;
use crate::cancel::Cancel;
use crate::error::SessionError;
use crate::external::paths_of;
use crate::load_limits::Budget;
use crate::log::Severity;
use crate::memory::Origins;
use crate::packs::{PackedConstant, Packs};
use crate::plan::{Compiler, Plan, PlanError};
use crate::resolved::Resolved;
use crate::run_memory::RunMemory;
use crate::session::{CacheUse, Metadata, Session};
use crate::threads::{Pool, ScopedThreads, scoped};
use crate::unread_pages::release_pages;

/// Attributes that only this runtime has. Without them, ONNX Runtime loads the file, and this runtime
/// infers their values from other nodes.
pub(crate) const PRIVATE: &[(&str, &str)] = &[("com.microsoft.nchwc", "block_size")];

/// The size of a packed file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackedSize {
    /// The file's size.
    pub file_bytes: usize,
    /// The size of its packed constants.
    pub packed_bytes: usize,
    /// The size of elements that the model had and the file leaves out.
    pub left_out_bytes: usize,
}

/// A model with an optimized graph. Nothing is planned or compiled yet.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use ort_session::{Level, Session};
///
/// let builder = Session::builder().level(Level::Extended);
/// let optimized = builder.optimize_from_file("model.ort")?;
/// optimized.write("optimized.ort")?; // what ONNX Runtime calls optimized_model_filepath
/// let session = optimized.commit()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Optimized {
    pub(crate) graph: Graph,
    pub(crate) bytes: ModelBytes,
    /// The model's external data files.
    pub(crate) external: Vec<ModelBytes>,
    pub(crate) origins: Origins,
    /// Whether the file has the constants packed for its kernels.
    pub(crate) is_packed: bool,
    pub(crate) model: ModelInfo,
    pub(crate) warnings: Vec<String>,
    /// Why the file's packed constants are not used.
    pub(crate) packing_warnings: Vec<String>,
    pub(crate) report: Report,
    pub(crate) before: OperatorCounts,
    pub(crate) settings: Resolved,
    /// The time from the path to here.
    pub(crate) time: Duration,
}

/// Which elements of constants a packed file keeps in addition to packed ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pack {
    /// All elements of the model: sessions with other settings pack again.
    #[default]
    KeepOriginals,
    /// Only the elements that some kernel reads: the file is smaller, but only runs with the settings that it
    /// was packed for.
    Replace,
}

/// The number of an operator's nodes, before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperatorChange {
    /// Its domain; empty for ai.onnx.
    pub domain: String,
    /// Its name.
    pub op_type: String,
    /// The number of nodes before.
    pub before: usize,
    /// The number of nodes now.
    pub after: usize,
}

impl PackedSize {
    /// The size of a file without packed constants.
    pub const fn unpacked(file_bytes: usize) -> Self {
        Self { file_bytes, packed_bytes: 0, left_out_bytes: 0 }
    }
}

impl Optimized {
    /// The optimizer's report.
    pub const fn report(&self) -> &Report {
        &self.report
    }

    /// The bytes of the original model.
    pub const fn bytes(&self) -> &ModelBytes {
        &self.bytes
    }

    /// The metadata of the original model.
    pub const fn model(&self) -> &ModelInfo {
        &self.model
    }

    /// The graph as text, in the syntax of the optimizer's tests.
    pub fn text(&self) -> String {
        self.graph.text().with_facts().to_string()
    }

    /// Every operator with nodes before or now, including those in subgraphs, sorted by domain and
    /// name.
    pub fn operators(&self) -> Vec<OperatorChange> {
        let after = OperatorCounts::of(&self.graph);
        let mut both: BTreeMap<_, (usize, usize)> = BTreeMap::new();
        self.before.0.iter().for_each(|(operator, &n)| both.entry(operator).or_default().0 = n);
        after.0.iter().for_each(|(operator, &n)| both.entry(operator).or_default().1 = n);
        let change = |((domain, op_type), (before, after)): (&(String, String), _)| {
            OperatorChange { domain: domain.clone(), op_type: op_type.clone(), before, after }
        };
        both.into_iter().map(change).collect()
    }

    /// Converts the graph to nodes that ONNX Runtime's CPU provider has kernels for. ONNX Runtime does so for a `.onnx` file,
    /// but not for a `.ort` file. Functions such as HardSwish are inlined, and casts inserted around
    /// nodes that it does not support in float16. Returns the remaining unsupported operators.
    ///
    /// # Errors
    /// If the graph has a cycle.
    pub fn lower_for_onnx_runtime(&mut self) -> Result<BTreeSet<String>, SessionError> {
        let (graph, opset) = (std::mem::take(&mut self.graph), self.model.opset(""));
        let lowered = lower_for_onnx_runtime(graph, &ort_ops::registry(), opset);
        let (graph, left) = lowered.map_err(Box::new)?;
        self.graph = graph;
        Ok(left)
    }

    /// Whether the file is packed for these settings: then it was already optimized, and the optimizer
    /// did not run.
    pub const fn is_packed(&self) -> bool {
        self.is_packed
    }

    /// Why the file's packed constants are not used.
    pub fn packing_warnings(&self) -> &[String] {
        &self.packing_warnings
    }

    /// The bytes that a file may take, besides what loading took and `budget` counts.
    pub(crate) fn room(&self, budget: &Budget) -> usize {
        let most = self.settings.load_limits.max_bytes.unwrap_or(usize::MAX);
        let left = left_by(budget, self.settings.memory_share, &self.bytes, &self.external);
        most.saturating_sub(budget.taken()).min(left.unwrap_or(usize::MAX))
    }

    pub(crate) fn threads(&self) -> ScopedThreads<'_> {
        ScopedThreads { pool: &self.settings.pool, providers: &self.settings.providers }
    }

    /// The plan of a graph with this model's constants, and the packed constants.
    pub(crate) fn compiled(
        &self,
        graph: Graph,
        budget: &Arc<Budget>,
    ) -> Result<(Plan, Vec<PackedConstant>), PlanError> {
        let (may_pack, profiler) = (self.settings.packs, self.settings.profiler.clone());
        let forms = self.is_packed;
        let budget = budget.clone();
        let packs = if may_pack { Packs::new(forms, profiler, budget) } else { Packs::declining() };
        let threads = self.threads();
        let providers = &self.settings.providers;
        let cancel = self.settings.cancel.as_ref();
        let n_branches = self.settings.branches.as_ref().map_or(1, Pool::n_threads);
        let compiler = Compiler { providers, packs: &packs, threads: &threads, n_branches, cancel };
        let _in_run = self.settings.pool.run();
        let (mut graph, mut plan) = (Some(graph), None);
        scoped(providers, &mut || plan = graph.take().map(|graph| compiler.compile(graph)));
        // The scope calls its body, so the plan is always there.
        let plan = plan.unwrap_or_else(|| compiler.compile(graph.unwrap_or_default()))?;
        Ok((plan, packs.into_packs()))
    }

    /// Copies or computes the constants of a plan that runs read.
    fn materialize(&self, plan: &Plan, budget: &Budget) -> Result<(), ImportError> {
        let (threads, cancel) = (self.threads(), self.settings.cancel.as_ref());
        let is_cancelled = || cancel.is_some_and(Cancel::is_cancelled);
        let _in_run = self.settings.pool.run();
        plan.materialize(budget, |n, part| {
            threads.for_each(n, &|i| {
                if !is_cancelled() {
                    part(i);
                }
            });
        })
    }

    /// Builds a session of the current model. Memory without readers is released: the
    /// elements of constants that all kernels have packed, and the pages of the file that held them.
    ///
    /// # Errors
    /// If no provider runs some node.
    pub fn commit(mut self) -> Result<Session, SessionError> {
        let start = Instant::now();
        let (graph, profiler) = (std::mem::take(&mut self.graph), self.settings.profiler.clone());
        let budget = Arc::new(self.settings.load_limits.budget(&graph));
        let compile = || self.settings.bounded(|| self.compiled(graph, &budget));
        let compiled = profiler.during("compile", compile);
        budget.check()?;
        let (mut plan, packs) = self.settings.or_cancelled("compile", compiled)?;
        plan.release(&plan.unread());
        let materialized = profiler.during("materialize", || self.materialize(&plan, &budget));
        budget.check()?;
        self.settings.or_cancelled("compile", materialized.map_err(Box::new))?;
        profiler.during("release_pages", || {
            for file in std::iter::once(&self.bytes).chain(&self.external) {
                release_pages(file, (&plan, &packs), &self.settings.log);
            }
        });
        self.settings.log.event(
            Severity::Info,
            format_args!("compiled {} steps, {} packed constants", plan.steps.len(), packs.len()),
        );
        let Self { bytes, external, origins, model, warnings, packing_warnings, report, .. } = self;
        let Self { settings, time, .. } = self;
        let outputs = plan.graph.outputs().iter();
        let output_names = outputs.map(|&id| plan.graph.value(id).name.clone()).collect();
        let load_time = time + start.elapsed();
        let (cache, optimized) = (CacheUse::Unused, report);
        let metadata = Metadata {
            model,
            warnings,
            optimized,
            load_time,
            cache,
            packing_warnings,
            external_files: paths_of(&external),
        };
        let Resolved { providers, pool, branches, arena, activations_cap, .. } = settings;
        let Resolved { run_limits, memory_share, log, .. } = settings;
        let default_run_bytes = left_by(&budget, memory_share, &bytes, &external);
        let run_memory = RunMemory::new(arena, activations_cap);
        profiler.note_whole("session_initialization");
        Ok(Session {
            plan,
            providers,
            pool,
            branches,
            bytes,
            external,
            origins,
            metadata,
            packs,
            run_memory,
            run_limits,
            default_run_bytes,
            output_names,
            profiler,
            log,
        })
    }
}

/// What loading has left of the memory that the process may use by default.
fn left_by(
    budget: &Budget,
    share: Option<usize>,
    bytes: &ModelBytes,
    external: &[ModelBytes],
) -> Option<usize> {
    let is_copy = |it: &&ModelBytes| matches!(it.kind(), Kind::Heap | Kind::Sealed);
    let copies = std::iter::once(bytes).chain(external).filter(is_copy);
    let taken = copies.fold(budget.taken(), |sum, copy| sum.saturating_add(copy.len()));
    share.map(|share| share.saturating_sub(taken))
}
