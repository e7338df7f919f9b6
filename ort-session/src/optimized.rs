//! A model between optimizing and planning: it can be inspected, saved, or turned into a session.

// collects are bounded: as long as the graph's lists

mod counts;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;

use ort_ep::Threads;
use ort_format::KernelTypeStrResolver;
use ort_graph::{Export, Graph, ImportError, ModelInfo, export};
use ort_loader::{Kind, ModelBytes};
use ort_optimizer::{Report, lower_for_onnx_runtime};
use web_time::{Duration, Instant};

pub(crate) use self::counts::OperatorCounts;
use crate::cancel::Cancel;
use crate::error::{SaveError, SessionError};
use crate::external::paths_of;
use crate::load_limits::Budget;
use crate::log::Severity;
use crate::memory::Origins;
use crate::packed::{seal, texts, unsealed};
use crate::packs::{ConstantId, PackedConstant, Packs, forms};
use crate::plan::{Compiler, Plan, PlanError, Released};
use crate::resolved::Resolved;
use crate::run_memory::RunMemory;
use crate::save::write_whole;
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

    /// The current model as the bytes of a `.ort` file. Equal models give equal bytes.
    /// A [packed](Self::is_packed) model stays packed, and released elements stay released.
    ///
    /// # Errors
    /// If the graph has something that the format cannot represent, or is too big for it.
    pub fn to_bytes(&self) -> Result<Vec<u8>, SaveError> {
        match &self.settings.packed_for {
            Some(packed_for) if self.is_packed => self.sealed(&self.graph, packed_for, None),
            _ => self.exported(&self.graph, unsealed(&self.model.metadata), PRIVATE),
        }
    }

    /// Writes the current model to a `.ort` file. The file appears completely or not at all. Mappings of a replaced
    /// file, even of this model, stay valid. Returns its length.
    ///
    /// # Errors
    /// As [`Optimized::to_bytes`], or if the system cannot write the file.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<usize, SaveError> {
        let bytes = self.to_bytes()?;
        write_whole(path.as_ref(), &bytes)?;
        Ok(bytes.len())
    }

    /// The bytes of a `.ort` file in which every constant is also packed for the kernels: a session
    /// of it, with the same settings on such a processor, neither optimizes nor packs. Other sessions report
    /// its target. ONNX Runtime (1.31) loads it if [`Pack::KeepOriginals`] keeps all elements and the
    /// level is no higher than `extended`.
    ///
    /// # Errors
    /// As [`Optimized::to_bytes`], and if a provider packs for this process only.
    pub fn to_packed_bytes(&self, pack: Pack) -> Result<Vec<u8>, SaveError> {
        Ok(self.packed(pack, None)?.0)
    }

    /// Writes [`Optimized::to_packed_bytes`] as [`Optimized::write`] does.
    ///
    /// # Errors
    /// As for both.
    pub fn write_packed(
        &self,
        path: impl AsRef<Path>,
        pack: Pack,
    ) -> Result<PackedSize, SaveError> {
        let (bytes, size) = self.packed(pack, None)?;
        write_whole(path.as_ref(), &bytes)?;
        Ok(size)
    }

    /// The bytes of a packed file for the model identified by `of`.
    pub(crate) fn packed(
        &self,
        pack: Pack,
        of: Option<&str>,
    ) -> Result<(Vec<u8>, PackedSize), SaveError> {
        let packed_for = self.settings.packed_for.as_deref().ok_or(SaveError::NotPackable)?;
        let budget = Arc::new(self.settings.load_limits.budget(&self.graph));
        let compiled = self.compiled(self.graph.clone(), &budget);
        budget.check()?;
        let (plan, packs) = compiled.map_err(Box::new)?;
        let unread = match pack {
            Pack::KeepOriginals => HashSet::new(),
            Pack::Replace => plan.unread(),
        };
        let (mut graph, mut released) = (self.graph.clone(), Released::default());
        let packed_bytes = packs.iter().map(|pack| pack.packed.bytes().len()).sum();
        let mut left_out_bytes = 0;
        let forms = forms(&packs);
        graph.edit_constants(&mut |constant, packed| {
            *packed = forms.get(&ConstantId::of(constant)).cloned().unwrap_or_default();
            left_out_bytes += released.replace(constant, &unread);
        });
        let bytes = self.sealed(&graph, packed_for, of)?;
        let size = PackedSize { file_bytes: bytes.len(), packed_bytes, left_out_bytes };
        Ok((bytes, size))
    }

    /// The bytes of a file of `graph`, which has packed constants.
    fn sealed(
        &self,
        graph: &Graph,
        packed_for: &str,
        of: Option<&str>,
    ) -> Result<Vec<u8>, SaveError> {
        let metadata = texts(&self.model.metadata, packed_for, of);
        let mut bytes = self.exported(graph, metadata, &[])?;
        seal(&mut bytes, &self.threads());
        Ok(bytes)
    }

    fn exported(
        &self,
        graph: &Graph,
        metadata: Vec<(String, String)>,
        private: &[(&str, &str)],
    ) -> Result<Vec<u8>, SaveError> {
        let info = &ModelInfo { metadata, ..self.model.clone() };
        let file = ort_format::open(self.bytes.as_slice(), &self.settings.limits);
        let resolver = file.ok().and_then(|file| file.kernel_type_str_resolver());
        let resolver = resolver.map(KernelTypeStrResolver::to_record);
        let file = export(graph, Export { info, resolver, private }).map_err(Box::new)?;
        Ok(ort_format::write(&file).map_err(Box::new)?)
    }

    fn threads(&self) -> ScopedThreads<'_> {
        ScopedThreads { pool: &self.settings.pool, providers: &self.settings.providers }
    }

    /// The plan of a graph with this model's constants, and the packed constants.
    fn compiled(
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
        let external_files = paths_of(&external);
        let metadata = Metadata {
            model,
            warnings,
            optimized,
            load_time,
            cache,
            packing_warnings,
            external_files,
        };
        let Resolved { providers, pool, branches, arena, activations_cap, .. } = settings;
        let Resolved { run_limits, memory_share, log, .. } = settings;
        let run_limits = run_limits.or_share(left_by(&budget, memory_share, &bytes, &external));
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
