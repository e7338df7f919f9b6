//! A model between optimizing and planning: to be looked at, saved, or made a session.

// collects are bounded: as long as the graph's lists

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use ort_format::KernelTypeStrResolver;
use ort_graph::{Export, Graph, ModelInfo, export};
use ort_loader::ModelBytes;
use ort_optimizer::{Report, lower_for_onnx_runtime};
use web_time::{Duration, Instant};

use crate::error::{SaveError, SessionError};
use crate::load_limits::Budget;
use crate::log::{Log, Severity};
use crate::memory::Origins;
use crate::packed::{seal, texts, unsealed};
use crate::packs::{ConstantId, PackedConstant, Packs, forms};
use crate::plan::{Compiler, Plan, PlanError, Released};
use crate::resolved::Resolved;
use crate::run_memory::RunMemory;
use crate::save::write_whole;
use crate::session::{CacheUse, Metadata, Session};
use crate::threads::{Pool, ScopedThreads, scoped};

/// Attributes that only we know. A file without them is read as it is by ONNX Runtime, and by us once
/// its other nodes tell what they said.
pub(crate) const PRIVATE: &[(&str, &str)] = &[("com.microsoft.nchwc", "block_size")];

/// How large a packed file is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackedSize {
    /// All of it.
    pub file_bytes: usize,
    /// Its packed forms of constants.
    pub packed_bytes: usize,
    /// The elements of constants that the model had and the file leaves out.
    pub left_out_bytes: usize,
}

/// A model whose graph is optimized. Nothing is planned or compiled yet.
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
    /// The other files of the model.
    pub(crate) external: Vec<ModelBytes>,
    pub(crate) origins: Origins,
    /// Whether the file has the forms of constants that its kernels want.
    pub(crate) is_packed: bool,
    pub(crate) model: ModelInfo,
    pub(crate) warnings: Vec<String>,
    /// Why packed forms that the file has are not used.
    pub(crate) packing_warnings: Vec<String>,
    pub(crate) report: Report,
    pub(crate) before: OperatorCounts,
    pub(crate) settings: Resolved,
    /// How long it took from the path to here.
    pub(crate) time: Duration,
}

/// What a packed file keeps of constants besides their packed forms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pack {
    /// All elements that the model has: whoever cannot use the packed forms packs anew.
    #[default]
    KeepOriginals,
    /// Only the elements that some kernel reads: the file is smaller, and runs only where it was
    /// packed for.
    Replace,
}

/// How often nodes apply an operator, before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperatorChange {
    /// Its domain; empty for ai.onnx.
    pub domain: String,
    /// Its name.
    pub op_type: String,
    /// How many nodes applied it before.
    pub before: usize,
    /// How many do now.
    pub after: usize,
}

impl PackedSize {
    /// Of a file without packed forms.
    pub const fn unpacked(file_bytes: usize) -> Self {
        Self { file_bytes, packed_bytes: 0, left_out_bytes: 0 }
    }
}

impl Optimized {
    /// What the optimizer did.
    pub const fn report(&self) -> &Report {
        &self.report
    }

    /// The bytes of the model as it was.
    pub const fn bytes(&self) -> &ModelBytes {
        &self.bytes
    }

    /// What the file said about the model.
    pub const fn model(&self) -> &ModelInfo {
        &self.model
    }

    /// The graph as text, in the form that the optimizer's tests use.
    pub fn text(&self) -> String {
        self.graph.text().with_facts().to_string()
    }

    /// Every operator that nodes applied or apply, those in subgraphs counted, sorted by domain and
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

    /// Makes it a graph that ONNX Runtime's CPU has kernels for, as it does itself when it reads a `.onnx` file; in a
    /// `.ort` file it takes nodes as they are. Functions such as HardSwish are written out, and casts put around
    /// what it cannot compute in float16. Returns the operators that are left and that it refuses.
    ///
    /// # Errors
    /// If nodes form a cycle.
    pub fn lower_for_onnx_runtime(&mut self) -> Result<BTreeSet<String>, SessionError> {
        let (graph, opset) = (std::mem::take(&mut self.graph), self.model.opset(""));
        let lowered = lower_for_onnx_runtime(graph, &ort_ops::registry(), opset);
        let (graph, left) = lowered.map_err(Box::new)?;
        self.graph = graph;
        Ok(left)
    }

    /// Whether the file is packed for these settings: then it was optimized before, and the optimizer
    /// had nothing to do.
    pub const fn is_packed(&self) -> bool {
        self.is_packed
    }

    /// Why packed constants that the file has are not used.
    pub fn packing_warnings(&self) -> &[String] {
        &self.packing_warnings
    }

    /// The bytes of a `.ort` file that holds the model as it is now. Equal models give equal bytes.
    /// What [is packed](Self::is_packed) stays packed, and has no more elements than it had.
    ///
    /// # Errors
    /// If the graph has something that no file can hold, or is too big for one.
    pub fn to_bytes(&self) -> Result<Vec<u8>, SaveError> {
        match &self.settings.packed_for {
            Some(packed_for) if self.is_packed => self.sealed(&self.graph, packed_for, None),
            _ => self.exported(&self.graph, unsealed(&self.model.metadata), PRIVATE),
        }
    }

    /// Writes the model as it is now to a `.ort` file. The file appears whole or not at all, and
    /// whoever has mapped the one it replaces, be it this model, keeps that. Returns its length.
    ///
    /// # Errors
    /// As [`Optimized::to_bytes`], or if the system does not write the file.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<usize, SaveError> {
        let bytes = self.to_bytes()?;
        write_whole(path.as_ref(), &bytes)?;
        Ok(bytes.len())
    }

    /// The bytes of a `.ort` file in which every constant also stands as the kernels want it: a session
    /// of it, with the same settings on such a processor, optimizes and packs nothing. Others say what
    /// it is packed for. ONNX Runtime (1.31) loads it if [`Pack::KeepOriginals`] keeps all elements and the
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
    /// As both.
    pub fn write_packed(
        &self,
        path: impl AsRef<Path>,
        pack: Pack,
    ) -> Result<PackedSize, SaveError> {
        let (bytes, size) = self.packed(pack, None)?;
        write_whole(path.as_ref(), &bytes)?;
        Ok(size)
    }

    /// The bytes of a packed file of the model known by the name `of`.
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

    /// The bytes of a file of `graph`, which has packed forms.
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

    /// The plan of a graph with this model's constants, and what was packed for it.
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
        // A scope that calls nobody sets nothing up.
        let plan = plan.unwrap_or_else(|| compiler.compile(graph.unwrap_or_default()))?;
        Ok((plan, packs.into_packs()))
    }

    /// Builds a session of the model as it is now. What nobody will read any more is given back: the
    /// elements of constants that all kernels have packed, and the pages of the file that held them.
    ///
    /// # Errors
    /// If no provider runs some node.
    pub fn commit(mut self) -> Result<Session, SessionError> {
        let start = Instant::now();
        let graph = std::mem::take(&mut self.graph);
        let profiler = self.settings.profiler.clone();
        let budget = Arc::new(self.settings.load_limits.budget(&graph));
        let compiled = profiler.during("compile", || self.compiled(graph, &budget));
        budget.check()?;
        let (mut plan, packs) = self.settings.or_ended("compile", compiled)?;
        profiler.during("give_back", || {
            plan.withhold(&plan.unread());
            for file in std::iter::once(&self.bytes).chain(&self.external) {
                give_back(file, (&plan, &packs), &self.settings.log);
            }
        });
        self.settings.log.event(
            Severity::Info,
            format_args!("compiled {} steps, {} packed constants", plan.steps.len(), packs.len()),
        );
        let Self { bytes, external, origins, model, warnings, packing_warnings, report, .. } = self;
        let Self { settings, time, .. } = self;
        let names = plan.graph.outputs().iter().map(|&id| plan.graph.value(id).name.clone());
        let output_names = names.collect();
        let load_time = time + start.elapsed();
        let cache = CacheUse::Unused;
        let optimized = report;
        let metadata = Metadata { model, warnings, optimized, load_time, cache, packing_warnings };
        let Resolved { providers, pool, branches, arena, activations_cap, .. } = settings;
        let Resolved { run_limits, log, .. } = settings;
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

/// Hands back the pages of a mapped file that hold nothing a run reads.
fn give_back(bytes: &ModelBytes, (plan, packs): (&Plan, &[PackedConstant]), log: &Log) {
    let mut read: Vec<Range<usize>> = Vec::new();
    plan.visit(&mut |plan| {
        let constants = plan.graph.value_ids().filter_map(|id| plan.graph.constant(id));
        let slices = constants.filter_map(|constant| constant.shared_bytes());
        read.extend(slices.filter_map(|slice| bytes.range_of(slice)));
    });
    let of_file = packs.iter().filter_map(|pack| bytes.range_of(pack.packed.bytes()));
    read.extend(of_file);
    read.push(bytes.len()..bytes.len());
    read.sort_unstable_by_key(|range| range.start);
    let mut first = 0;
    for next in read {
        // Pages that stay cost memory, nothing else.
        if next.start > first
            && let Err(error) = bytes.advise_dont_need(first..next.start)
        {
            log.event(Severity::Verbose, format_args!("pages of the model stay: {error}"));
        }
        first = first.max(next.end);
    }
}

/// How many nodes of a graph and all graphs below it apply each operator, by domain and name.
#[derive(Debug, Default)]
pub(crate) struct OperatorCounts(BTreeMap<(String, String), usize>);

impl OperatorCounts {
    pub(crate) fn of(graph: &Graph) -> Self {
        let mut counts = Self::default();
        counts.add(graph);
        counts
    }

    fn add(&mut self, graph: &Graph) {
        for node in graph.node_ids().map(|id| graph.node(id)) {
            let operator = (node.domain.clone(), node.op_type.clone());
            *self.0.entry(operator).or_default() += 1;
            node.attrs.subgraphs().for_each(|subgraph| self.add(subgraph));
        }
    }
}
