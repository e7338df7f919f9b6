//! A model that is ready to run.

// collects are bounded: as long as the graph's lists

use std::path::PathBuf;
use std::sync::Arc;

use ort_ep::{ExecutionProvider, Threads};
use ort_graph::{Facts, ModelInfo, Type, ValueId};
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
/// Shared in an `Arc`, it lives until its last run is over, whoever dropped it before.
#[derive(Debug)]
pub struct Session {
    pub(crate) plan: Plan,
    pub(crate) providers: Arc<[Arc<dyn ExecutionProvider>]>,
    pub(crate) pool: Pool,
    /// Who runs branches side by side; `None` if one runs at a time.
    pub(crate) branches: Option<Pool>,
    pub(crate) bytes: ModelBytes,
    /// The other files of the model.
    pub(crate) external: Vec<ModelBytes>,
    pub(crate) origins: Origins,
    pub(crate) metadata: Metadata,
    pub(crate) packs: Vec<PackedConstant>,
    pub(crate) run_memory: RunMemory,
    pub(crate) run_limits: RunLimits,
    pub(crate) output_names: Arc<[String]>,
    pub(crate) profiler: Profiler,
    pub(crate) log: Log,
}

/// What is known of a model and of how it became a session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Metadata {
    /// What the file says about the model.
    pub model: ModelInfo,
    /// What was odd about it, or had to be assumed.
    pub warnings: Vec<String>,
    /// What the optimizer did.
    pub optimized: Report,
    /// How long it took from the path to the session.
    pub load_time: Duration,
    /// What the cache folder was good for.
    pub cache: CacheUse,
    /// Why packed constants that there are were not used, or had to be made anew.
    pub packing_warnings: Vec<String>,
}

/// What a cache folder was good for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheUse {
    /// There was none to use.
    #[default]
    Unused,
    /// It had the packed file.
    Found,
    /// It did not, and has it now.
    Made,
    /// It could not be used; a warning says why.
    Failed,
}

/// An input or output of a model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ValueDescription {
    /// Its name.
    pub name: String,
    /// Its type, with dimensions as far as they are known.
    pub ty: Type,
    /// Whether a run may leave it out: the model has a default.
    pub has_default: bool,
}

/// What one run is asked.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) inputs: &'a RunInputs<'a>,
    pub(crate) options: &'a RunOptions,
    pub(crate) chosen: Chosen<'a>,
}

impl Session {
    /// Starts to build a session.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }

    /// Runs the model. Inputs are borrowed; outputs belong to the caller.
    ///
    /// A kernel that panics does not end the caller: the panic becomes
    /// [`RunError::Panicked`](crate::RunError::Panicked), which names the node, and the session
    /// stays as it was. (With `panic = "abort"` there is nothing to become.)
    ///
    /// # Errors
    /// If an input is unknown, missing or of the wrong type, or a node cannot compute.
    pub fn run<'a>(&self, inputs: impl Into<RunInputs<'a>>) -> Result<Outputs, RunError> {
        let chosen = Chosen::all(&self.plan, &self.output_names);
        let request = Request { inputs: &inputs.into(), options: &RunOptions::default(), chosen };
        self.observed(request, &mut Targets::default())
    }

    /// Runs the model with options: a tag, a way to cancel it, a deadline, limits, and the outputs
    /// that are asked for.
    ///
    /// # Errors
    /// As [`Session::run`], and if the run was ended early, or there is no such output.
    pub fn run_with<'a>(
        &self,
        inputs: impl Into<RunInputs<'a>>,
        options: &RunOptions,
    ) -> Result<Outputs, RunError> {
        self.run_into(inputs, BoundOutputs::default(), options)
    }

    /// The same with memory of the caller's for outputs of these names: the kernels write there, and
    /// nothing is copied but outputs that are constants, inputs, or of a shape that only the run can
    /// tell. The other outputs are returned. With [`RunOptions::outputs`], the bound ones are asked
    /// for beside those named there.
    ///
    /// What the memory holds after a run that failed is anything.
    ///
    /// # Errors
    /// As [`Session::run_with`], and if the memory for an output is of another type or shape.
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

    /// Runs the model and tells how long each step took, those of subgraphs before the step that
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

    /// Runs the model and calls `observe` with each value that a step computes, as soon as it is there: what
    /// is optimized away or fused is not. Steps of subgraphs are left out. In parallel mode several threads
    /// call at once.
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

    /// Ends profiling and writes the trace; the name of its file. Runs that are under way are left out.
    /// A session that is dropped before writes it as well, and keeps errors for itself.
    ///
    /// # Errors
    /// If the session was not built with [`SessionBuilder::enable_profiling`], if profiling has ended
    /// before, or if the system does not write the file.
    pub fn end_profiling(&self) -> Result<PathBuf, ProfileError> {
        self.profiler.write()
    }

    /// Ends profiling and gives the trace instead of writing it.
    ///
    /// # Errors
    /// If the session is not profiled, or no longer.
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
        let inputs = checked(&self.plan.graph, inputs)?;
        let args = Args { inputs: &inputs, captures: &[] };
        let threads = ScopedThreads { pool: &self.pool, providers: &self.providers };
        let branches = self.branches.as_ref().unwrap_or(&self.pool);
        let branches = ScopedThreads { pool: branches, providers: &self.providers };
        let _in_run = (self.pool.run(), self.branches.as_ref().map(Pool::run_branches));
        let watch = Watch::of(options, &self.run_limits);
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

    /// The outputs of a run on inputs of these types and shapes, with dimensions as far as those tell before
    /// it. Nothing runs, and what the inputs contain does not matter.
    ///
    /// # Errors
    /// As [`Session::run`], for what can be known before a run: some node cannot have inputs of such shapes.
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

    /// What is known of the model and of how it became a session.
    pub const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The model's bytes: how they are held, and what of them is resident.
    pub const fn bytes(&self) -> &ModelBytes {
        &self.bytes
    }

    /// The bytes of the other files that the model has elements in.
    pub fn external_data(&self) -> &[ModelBytes] {
        &self.external
    }

    /// What the session's memory is for, and what of it is resident. Looks at every page.
    pub fn memory(&self) -> MemoryReport {
        MemoryReport::of(self)
    }

    /// How many threads a run uses, the caller included.
    pub const fn n_threads(&self) -> usize {
        self.pool.n_threads()
    }

    /// How many branches of the graph a run has side by side, at most.
    pub fn n_branches(&self) -> usize {
        self.branches.as_ref().map_or(1, Pool::n_threads)
    }

    /// How many of the helpers that this session may share with others are awake just now, at work or
    /// waiting for it; those of a pool that was given are not known.
    pub fn n_active(&self) -> usize {
        self.pool.n_active()
    }

    /// Which provider runs how many steps, in the order of priority.
    pub fn placement(&self) -> Vec<(&'static str, usize)> {
        let mut placement: Vec<_> = self.providers.iter().map(|p| (p.name(), 0)).collect();
        self.plan.visit(&mut |plan| {
            for provider in plan.steps.iter().filter_map(|step| step.provider()) {
                placement[provider].1 += 1;
            }
        });
        placement
    }

    /// Floating-point operations of a run with these inputs, as far as shapes tell before it;
    /// those of subgraphs are not counted.
    ///
    /// # Errors
    /// As [`Session::run`], for what can be known before a run.
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
