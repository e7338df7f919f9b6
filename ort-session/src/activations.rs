//! The memory that a run needs for its values, known in advance.

// collects are bounded: as long as the graph's lists

use ort_tensor::{DType, Tensor, n_elements};

use crate::check::checked;
use crate::error::InputError;
use crate::inputs::RunInputs;
use crate::plan::{Args, Layout, Place, Plan, StepLayout};
use crate::run::RunError;
use crate::session::Session;

/// The memory of a run on inputs of these shapes, in bytes, in addition to the inputs and the
/// session's own memory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Activations {
    /// The size of the block with all intermediate values and scratch memory. If it was adapted from slightly smaller
    /// shapes, it has room for slightly larger ones: up to a quarter more of what changed.
    pub arena: usize,
    /// The peak of the live bytes in the block: a lower bound of any block's size.
    pub live: usize,
    /// The outputs, as far as their shapes are known. They are allocated for every run and owned by the
    /// caller.
    pub outputs: usize,
    /// Every step, in execution order.
    pub steps: Vec<StepActivations>,
}

/// The contents of the block during one step.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepActivations {
    /// The node's name, or its operator if it has none.
    pub node: String,
    /// The operator.
    pub op_type: String,
    /// The bytes of live values and scratch memory.
    pub live: usize,
    /// The step's scratch memory.
    pub scratch: usize,
    /// Whether the step's memory is only known at run time, because its shapes depend on data, or
    /// because it runs subgraphs. That memory is allocated outside of the block.
    pub is_dynamic: bool,
}

impl Activations {
    /// Whether the block and the outputs are all the memory of a run: no step is dynamic.
    pub fn is_all(&self) -> bool {
        self.n_dynamic() == 0
    }

    /// The number of dynamic steps.
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
    /// The memory of a run on these inputs. This plans the layout, which a subsequent
    /// run then reuses; the elements of the inputs do not matter.
    ///
    /// # Errors
    /// As [`Session::run`], for errors that are detected before a run.
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

    /// The same for inputs of these shapes. Other inputs have the shape that the model
    /// declares; an input that is not a tensor, or whose shape the model leaves open, must be passed to
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
            // A wrong name or kind is reported when all inputs are checked.
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
