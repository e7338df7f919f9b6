//! A model that is ready to run.

// collects are bounded: as long as the graph's lists

use std::path::PathBuf;
use std::sync::Arc;

use ort_ep::{ExecutionProvider, Threads};
use ort_graph::{Facts, ModelInfo, Node, Type, ValueId};
use ort_loader::ModelBytes;
use ort_optimizer::Report;
use ort_tensor::Value;
use web_time::{Duration, Instant};

use crate::builder::SessionBuilder;
use crate::check::checked;
use crate::chosen::Chosen;
use crate::inputs::RunInputs;
use crate::log::Log;
use crate::memory::{MemoryReport, Origins};
use crate::outputs::{BoundOutputs, Outputs};
use crate::packs::PackedConstant;
use crate::plan::{Args, Plan};
use crate::profile::{ProfileError, Profiler, Recorder, StepTime, Trace};
use crate::run::{EndingThreads, IntermediateValue, Observer, Run, RunError, Targets, Task, Watch};
use crate::run_memory::RunMemory;
use crate::run_options::{RunLimits, RunOptions};
use crate::threads::{Pool, ScopedThreads, scoped};

/// A model that is ready to run. Any number of threads may run it at once.
///
/// Shared in an `Arc`, it lives until its last run has finished, even if all other owners dropped it.
#[derive(Debug)]
pub struct Session {
    pub(crate) plan: Plan,
    pub(crate) providers: Arc<[Arc<dyn ExecutionProvider>]>,
    pub(crate) pool: Pool,
    /// The threads that run branches in parallel; `None` in sequential mode.
    pub(crate) branches: Option<Pool>,
    pub(crate) bytes: ModelBytes,
    /// The model's external data files.
    pub(crate) external: Vec<ModelBytes>,
    pub(crate) origins: Origins,
    pub(crate) metadata: Metadata,
    pub(crate) packs: Vec<PackedConstant>,
    pub(crate) run_memory: RunMemory,
    pub(crate) run_limits: RunLimits,
    pub(crate) default_run_bytes: Option<usize>,
    pub(crate) output_names: Arc<[String]>,
    pub(crate) profiler: Profiler,
    pub(crate) log: Log,
}

/// Metadata of a model and of loading it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Metadata {
    /// The metadata in the file.
    pub model: ModelInfo,
    /// Anomalies of the model, and assumptions about it.
    pub warnings: Vec<String>,
    /// The optimizer's report.
    pub optimized: Report,
    /// The time from the path to the session.
    pub load_time: Duration,
    /// The use of the cache folder.
    pub cache: CacheUse,
    /// Why packed constants of the file were not used, or had to be packed again.
    pub packing_warnings: Vec<String>,
    /// The files with the model's external data, also if a packed file was used instead.
    pub external_files: Vec<PathBuf>,
}

/// How a cache folder was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheUse {
    /// No cache folder is set.
    #[default]
    Unused,
    /// It had the packed file.
    Found,
    /// It did not have the packed file, which was created.
    Made,
    /// It failed, for the reason in a warning.
    Failed,
}

/// An input or output of a model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ValueDescription {
    /// Its name.
    pub name: String,
    /// Its type; dimensions may be unknown.
    pub ty: Type,
    /// Whether it is an optional input: the model has a default.
    pub has_default: bool,
}

/// The arguments of one run.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) inputs: &'a RunInputs<'a>,
    pub(crate) options: &'a RunOptions,
    pub(crate) chosen: Chosen<'a>,
}

impl Session {
    /// Starts building a session.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }

    /// Runs the model. Inputs are borrowed; the caller owns the outputs.
    ///
    /// A panic in a kernel does not unwind into the caller: it becomes
    /// [`RunError::Panicked`](crate::RunError::Panicked), which names the node, and the session
    /// stays usable. (With `panic = "abort"` the process ends.)
    ///
    /// # Errors
    /// If an input is unknown, missing or of the wrong type, or a node fails.
    pub fn run<'a>(&self, inputs: impl Into<RunInputs<'a>>) -> Result<Outputs, RunError> {
        let chosen = Chosen::all(&self.plan, &self.output_names);
        let request = Request { inputs: &inputs.into(), options: &RunOptions::default(), chosen };
        self.observed(request, &mut Targets::default())
    }

    /// Runs the model with options: a tag, cancellation, a deadline, limits, and the requested
    /// outputs.
    ///
    /// # Errors
    /// As [`Session::run`], and if the run was cancelled or exceeded a limit, or an output is unknown.
    pub fn run_with<'a>(
        &self,
        inputs: impl Into<RunInputs<'a>>,
        options: &RunOptions,
    ) -> Result<Outputs, RunError> {
        self.run_into(inputs, BoundOutputs::default(), options)
    }

    /// The same with memory of the caller for some outputs: kernels write to it directly, and
    /// only outputs that are constants, inputs, or of a dynamic shape are copied
    /// to it. The other outputs are returned. With [`RunOptions::outputs`], the bound ones are
    /// computed in addition to those.
    ///
    /// After a failed run, the memory has unspecified content.
    ///
    /// # Errors
    /// As [`Session::run_with`], and if the type or shape of the memory for an output is wrong.
    pub fn run_into<'a, 'o>(
        &self,
        inputs: impl Into<RunInputs<'a>>,
        outputs: impl Into<BoundOutputs<'o>>,
        options: &RunOptions,
    ) -> Result<Outputs, RunError> {
        let (names, outputs) = (options.outputs.as_deref(), outputs.into());
        let (chosen, mut targets) = match names.is_none() && outputs.entries.is_empty() {
            true => (Chosen::all(&self.plan, &self.output_names), Targets::default()),
            false => Chosen::new(&self.plan, names, outputs.into_memory())?,
        };
        let request = Request { inputs: &inputs.into(), options, chosen };
        self.observed(request, &mut targets)
    }

    /// Runs the model and returns the time of each step; those of subgraphs come before the step that
    /// runs them.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_profiled<'a>(
        &self,
        inputs: impl Into<RunInputs<'a>>,
    ) -> Result<(Outputs, Vec<StepTime>), RunError> {
        let recorder = self.recorder(Instant::now());
        let chosen = Chosen::all(&self.plan, &self.output_names);
        let request = Request { inputs: &inputs.into(), options: &RunOptions::default(), chosen };
        let outputs = self.run_recorded(request, &mut Targets::default(), Some(&recorder))?;
        Ok((outputs, recorder.into_steps()))
    }

    /// Runs the model and calls `observe` with each value that a step computes, immediately after the step. Values that
    /// are optimized away or fused, and those of subgraphs, are omitted. In parallel mode several threads
    /// may call it at once.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_observed<'a>(
        &self,
        inputs: impl Into<RunInputs<'a>>,
        observe: &(dyn Fn(&IntermediateValue<'_>) + Sync),
    ) -> Result<Outputs, RunError> {
        let recorder = self.recorder(Instant::now()).observed_by(Observer(observe));
        let chosen = Chosen::all(&self.plan, &self.output_names);
        let request = Request { inputs: &inputs.into(), options: &RunOptions::default(), chosen };
        self.run_recorded(request, &mut Targets::default(), Some(&recorder))
    }

    /// Ends profiling and writes the trace; returns its file name. Active runs are omitted.
    /// Dropping the session also writes the trace, and ignores errors.
    ///
    /// # Errors
    /// If the session was not built with [`SessionBuilder::enable_profiling`], if profiling has already
    /// ended, or if the system cannot write the file.
    pub fn end_profiling(&self) -> Result<PathBuf, ProfileError> {
        self.profiler.write()
    }

    /// Ends profiling and returns the trace instead of writing it.
    ///
    /// # Errors
    /// If the session is not profiled, or its trace was already taken.
    pub fn take_trace(&self) -> Result<Trace, ProfileError> {
        self.profiler.take()
    }

    pub(crate) fn recorder(&self, origin: Instant) -> Recorder<'_> {
        Recorder::new(&self.providers, origin, self.plan.steps.len())
    }

    pub(crate) fn run_recorded(
        &self,
        Request { inputs, options, chosen }: Request<'_>,
        targets: &mut Targets<'_>,
        recorder: Option<&Recorder<'_>>,
    ) -> Result<Outputs, RunError> {
        let share = self.default_run_bytes.map(|share| share.saturating_sub(inputs.n_bytes()));
        let inputs = checked(&self.plan.graph, inputs)?;
        let args = Args { inputs: &inputs, captures: &[] };
        let threads = ScopedThreads { pool: &self.pool, providers: &self.providers };
        let branches = self.branches.as_ref().unwrap_or(&self.pool);
        let branches = ScopedThreads { pool: branches, providers: &self.providers };
        let _in_run = self.pool.run_with(self.branches.as_ref());
        let watch = Watch::of(options, &self.run_limits.or_share(share));
        let of_run = self.run_memory.of_run();
        let (memory, watch) = (of_run.as_ref().unwrap_or(&self.run_memory), watch.as_ref());
        let ending = watch.and_then(|watch| watch.ending.as_ref());
        let ending = ending.map(|ending| EndingThreads { threads: &threads, ending });
        let threads = ending.as_ref().map_or(&threads as &dyn Threads, |threads| threads);
        let run = Run { threads, branches: &branches, memory, recorder, watch };
        let mut result = None;
        let (selection, outputs) = (chosen.selection(), &chosen.outputs);
        let task = Task { plan: &self.plan, args: &args, selection, outputs };
        scoped(&self.providers, &mut || result = Some(run.task(&task, targets)));
        memory.after_run(&self.plan);
        let values: Vec<Value> = result.unwrap_or_else(|| Ok(Vec::new()))?;
        Ok(Outputs::new(chosen.names, values))
    }

    /// The inputs of the model, in its order.
    pub fn inputs(&self) -> Vec<ValueDescription> {
        self.describe(self.plan.graph.inputs())
    }

    /// The outputs of the model, in its order.
    pub fn outputs(&self) -> Vec<ValueDescription> {
        self.describe(self.plan.graph.outputs())
    }

    fn describe(&self, ids: &[ValueId]) -> Vec<ValueDescription> {
        let describe = |&id: &ValueId| {
            let info = self.plan.graph.value(id);
            let (name, ty) = (info.name.clone(), info.fact.ty.clone());
            ValueDescription { name, ty, has_default: info.default.is_some() }
        };
        ids.iter().map(describe).collect()
    }

    /// The outputs of a run on inputs of these types and shapes; dimensions that depend on data are unknown.
    /// Nothing runs, and the elements of the inputs do not matter.
    ///
    /// # Errors
    /// As [`Session::run`], for errors that are detected before a run: shape inference fails for some node.
    pub fn infer_outputs<'a>(
        &self,
        inputs: impl Into<RunInputs<'a>>,
    ) -> Result<Vec<ValueDescription>, RunError> {
        let inputs = inputs.into();
        let inputs = checked(&self.plan.graph, &inputs)?;
        let facts = self.plan.facts(&Args { inputs: &inputs, captures: &[] })?;
        let mut outputs = self.outputs();
        for (output, id) in outputs.iter_mut().zip(self.plan.graph.outputs()) {
            output.ty = facts[id.index()].ty.clone();
        }
        Ok(outputs)
    }

    /// Metadata of the model and of loading it.
    pub const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The model's bytes: their owner, and their residency.
    pub const fn bytes(&self) -> &ModelBytes {
        &self.bytes
    }

    /// The bytes of the model's external data files.
    pub fn external_data(&self) -> &[ModelBytes] {
        &self.external
    }

    /// The bytes that a run and its inputs may take if no [`RunLimits`] say otherwise: three quarters of the memory of the
    /// machine, or of the smallest control group of the process, minus what loading took; `None` where the system does not
    /// report it. A program that reads inputs from files can limit them by it.
    pub const fn default_run_bytes(&self) -> Option<usize> {
        self.default_run_bytes
    }

    /// The memory of the session by purpose, and its residency. Reads the state of every page.
    pub fn memory(&self) -> MemoryReport {
        MemoryReport::of(self)
    }

    /// The number of threads of a run, including the caller.
    pub const fn n_threads(&self) -> usize {
        self.pool.n_threads()
    }

    /// The maximum number of branches that run in parallel.
    pub fn n_branches(&self) -> usize {
        self.branches.as_ref().map_or(1, Pool::n_threads)
    }

    /// The number of active workers, busy or spinning, in the pool that this session may share with others;
    /// 0 for user-provided threads.
    pub fn n_active(&self) -> usize {
        self.pool.n_active()
    }

    /// The nodes of the optimized graph, without those of subgraphs, in the order in which they run.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.plan.order.iter().map(|&id| self.plan.graph.node(id))
    }

    /// The number of steps of each provider, in order of priority.
    pub fn placement(&self) -> Vec<(&'static str, usize)> {
        let mut placement: Vec<_> = self.providers.iter().map(|p| (p.name(), 0)).collect();
        self.plan.visit(&mut |plan| {
            for provider in plan.steps.iter().filter_map(|step| step.provider()) {
                placement[provider].1 += 1;
            }
        });
        placement
    }

    /// The floating-point operations of a run with these inputs, as far as shapes are known before it,
    /// without those of subgraphs.
    ///
    /// # Errors
    /// As [`Session::run`], for errors that are detected before a run.
    pub fn flops<'a>(&self, inputs: impl Into<RunInputs<'a>>) -> Result<u64, RunError> {
        let inputs = inputs.into();
        let inputs = checked(&self.plan.graph, &inputs)?;
        let facts = self.plan.facts(&Args { inputs: &inputs, captures: &[] })?;
        let graph = &self.plan.graph;
        let flops = self.plan.order.iter().map(|&id| {
            let node = graph.node(id);
            let inputs: Vec<_> = node.inputs.iter().map(|i| i.map(|i| &facts[i.index()])).collect();
            let fact = |output: &Option<ValueId>| {
                output.map_or(ort_graph::Fact::UNKNOWN, |id| facts[id.index()].clone())
            };
            let outputs: Vec<_> = node.outputs.iter().map(fact).collect();
            node.op.flops(&Facts::new(&inputs), &outputs)
        });
        Ok(flops.sum())
    }
}
