//! What a run takes for its values, known before it runs.

// collects are bounded: as long as the graph's lists

use ort_tensor::{DType, Tensor, n_elements};

use crate::check::checked;
use crate::error::InputError;
use crate::inputs::RunInputs;
use crate::plan::{Args, Layout, Place, Plan, StepLayout};
use crate::run::RunError;
use crate::session::Session;

/// The memory that a run on inputs of these shapes takes, in bytes, beside the inputs and what the
/// session holds anyway.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Activations {
    /// The block that holds all intermediate values and scratch, exactly. Where the shapes before were a little
    /// smaller, it has room for the next that are a little larger: up to a quarter more of what changed.
    pub arena: usize,
    /// The most that is needed at once of what is in the block: none can be smaller.
    pub live: usize,
    /// The outputs, as far as their shapes are known. They are new in every run and belong to the
    /// caller.
    pub outputs: usize,
    /// Every step, in the order in which they run.
    pub steps: Vec<StepActivations>,
}

/// What is in the block while one step runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepActivations {
    /// The node's name, or its operator if it has none.
    pub node: String,
    /// The operator.
    pub op_type: String,
    /// What is needed then of values and scratch.
    pub live: usize,
    /// The part of it that is the step's scratch.
    pub scratch: usize,
    /// Whether only the run can tell what the step makes, because its shapes depend on data, or
    /// because it runs subgraphs. That memory comes beside the block.
    pub is_dynamic: bool,
}

impl Activations {
    /// Whether the block and the outputs are all that a run takes: no step is dynamic.
    pub fn is_all(&self) -> bool {
        self.n_dynamic() == 0
    }

    /// How many steps are dynamic.
    pub fn n_dynamic(&self) -> usize {
        self.steps.iter().filter(|step| step.is_dynamic).count()
    }

    fn of(plan: &Plan, layout: &Layout) -> Self {
        let steps = plan.steps.iter().zip(&layout.steps).zip(&layout.live_bytes);
        let steps = steps.map(|((step, layout), &live)| {
            let node = plan.graph.node(step.node);
            let scratch = match &**layout {
                StepLayout::Static { prepared, .. } => prepared.scratch_bytes,
                StepLayout::Skip | StepLayout::Dynamic { .. } => 0,
            };
            let is_dynamic = matches!(**layout, StepLayout::Dynamic { .. });
            let (node, op_type) = (node.label().to_owned(), node.op_type.clone());
            StepActivations { node, op_type, live, scratch, is_dynamic }
        });
        let own = layout.places.iter().filter_map(|place| match &**place {
            Place::Own { dtype, shape } => dtype.n_bytes(n_elements(shape)?),
            _ => None,
        });
        Self {
            arena: layout.arena_bytes,
            live: layout.live_bytes.iter().copied().max().unwrap_or(0),
            outputs: own.sum(),
            steps: steps.collect(),
        }
    }
}

impl Session {
    /// What a run on these inputs would take. It is worked out as a run does it first of all, so
    /// that a run which follows finds that done; what the inputs contain does not matter.
    ///
    /// # Errors
    /// As [`Session::run`], for what can be known before a run.
    pub fn activations<'a>(
        &self,
        inputs: impl Into<RunInputs<'a>>,
    ) -> Result<Activations, RunError> {
        let inputs = inputs.into();
        let inputs = checked(&self.plan.graph, &inputs)?;
        let layout =
            self.plan.layout(&self.plan.whole, &Args { inputs: &inputs, captures: &[] })?;
        Ok(Activations::of(&self.plan, &layout))
    }

    /// The same for inputs of these shapes. Those that are not named have the shape that the model
    /// states; an input that is no tensor, or whose shape the model leaves open, has to be given to
    /// [`Session::activations`] itself.
    ///
    /// # Errors
    /// As [`Session::activations`].
    pub fn activations_of_shapes(
        &self,
        shapes: &[(&str, &[usize])],
    ) -> Result<Activations, RunError> {
        let graph = &self.plan.graph;
        // Zeros that are never touched take no memory.
        let zeros = |name: &str, dtype: DType, shape: &[usize]| {
            let name = name.to_owned();
            Tensor::zeros(dtype, shape).map_err(|error| InputError::Size { name, error })
        };
        let mut inputs = RunInputs::default();
        for &(name, shape) in shapes {
            let id = graph.inputs().iter().find(|&&id| graph.value(id).name == name);
            // A name or kind that does not fit is told when all inputs are checked.
            let dtype = id.and_then(|&id| graph.fact(id).dtype()).unwrap_or(DType::F32);
            inputs = inputs.with(name, zeros(name, dtype, shape)?);
        }
        for info in graph.inputs().iter().map(|&id| graph.value(id)) {
            let is_given = shapes.iter().any(|(name, _)| *name == info.name);
            if is_given || info.default.is_some() {
                continue;
            }
            if let (Some(dtype), Some(shape)) = (info.fact.dtype(), info.fact.shape()) {
                inputs = inputs.with(info.name.as_str(), zeros(&info.name, dtype, &shape)?);
            }
        }
        self.activations(inputs)
    }
}
