//! A model between optimizing and planning: to be looked at, saved, or made a session.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ort_ep::ExecutionProvider;
use ort_format::{KernelTypeStrResolver, Limits};
use ort_graph::{Export, Graph, ModelInfo, export};
use ort_loader::ModelBytes;
use ort_optimizer::Report;

use crate::error::{SaveError, SessionError};
use crate::packs::MemoryPacks;
use crate::plan::Compiler;
use crate::run_memory::RunMemory;
use crate::save::write_whole;
use crate::session::{Metadata, Session};
use crate::threads::Pool;

/// Attributes that only we know. A file without them is read as it is by ONNX Runtime, and by us once
/// its other nodes tell what they said.
const PRIVATE: &[(&str, &str)] = &[("com.microsoft.nchwc", "block_size")];

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
    pub(crate) limits: Limits,
    pub(crate) model: ModelInfo,
    pub(crate) warnings: Vec<String>,
    pub(crate) report: Report,
    pub(crate) before: OperatorCounts,
    pub(crate) providers: Vec<Arc<dyn ExecutionProvider>>,
    pub(crate) n_threads: usize,
    pub(crate) run_memory: RunMemory,
    /// How long it took from the path to here.
    pub(crate) time: Duration,
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

    /// The bytes of a `.ort` file that holds the model as it is now. Equal models give equal bytes.
    ///
    /// # Errors
    /// If the graph has something that no file can hold, or is too big for one.
    pub fn to_bytes(&self) -> Result<Vec<u8>, SaveError> {
        let file = ort_format::open(self.bytes.as_slice(), &self.limits);
        let resolver = file.ok().and_then(|file| file.kernel_type_str_resolver());
        let resolver = resolver.map(KernelTypeStrResolver::to_record);
        let told = Export { info: &self.model, resolver, private: PRIVATE };
        let file = export(&self.graph, told).map_err(Box::new)?;
        Ok(ort_format::write(&file).map_err(Box::new)?)
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

    /// Builds a session of the model as it is now.
    ///
    /// # Errors
    /// If no provider runs some node, or the system refuses threads.
    pub fn commit(self) -> Result<Session, SessionError> {
        let start = Instant::now();
        let Self { graph, bytes, model, warnings, report, providers, n_threads, time, .. } = self;
        let run_memory = self.run_memory;
        let mut packs = MemoryPacks::default();
        let mut compiler = Compiler { providers: &providers, packs: &mut packs };
        let plan = compiler.compile(graph)?;
        let pool = Pool::new(n_threads)
            .map_err(|error| SessionError::Threads { n_threads, reason: error.to_string() })?;
        let names = plan.graph.outputs().iter().map(|&id| plan.graph.value(id).name.clone());
        let output_names = names.collect();
        let packed_bytes = packs.n_bytes();
        let load_time = time + start.elapsed();
        let metadata = Metadata { model, warnings, optimized: report, load_time };
        Ok(Session {
            plan,
            providers,
            pool,
            bytes,
            metadata,
            packed_bytes,
            run_memory,
            output_names,
        })
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
