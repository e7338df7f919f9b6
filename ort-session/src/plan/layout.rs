//! A layout: for one signature of input shapes, the place of every value and the prepared state of each step.

// collects are bounded: as long as the graph's lists

mod adapted;
mod finished;
mod own;
mod taken;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use ort_ep::{Kernel, Prepared};
use ort_graph::{Fact, ValueId};
use ort_tensor::{DType, Shape, Value};
use smallvec::SmallVec;

use self::finished::Buffers;
use super::arena::Buffer;
use super::branches::{Branches, branch_of};
use super::liveness::{alias_of, last_reads};
use super::shapes::{Args, Signature};
use super::{Action, Plan, PlanError, Selection, Split, Step};
use crate::caught::caught;
use crate::profile::StepWork;

/// Everything about a run that follows from its inputs' shapes.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// The signature of its inputs.
    pub(super) signature: Signature,
    /// By value.
    pub(crate) places: Vec<Arc<Place>>,
    /// By step.
    pub(crate) steps: Vec<Arc<StepLayout>>,
    /// The profitable parallel regions, in order.
    pub(crate) regions: Vec<Branches>,
    /// The values that a run allocates outside of the arena.
    pub(crate) made: Vec<ValueId>,
    /// The size of the block with all intermediate values and scratch memory.
    pub(crate) arena_bytes: usize,
    /// By step: the size of live buffers. Their maximum is a lower bound of the block.
    pub(crate) live_bytes: Vec<usize>,
    /// The memory of outputs of known shape, which is not in the block, in bytes.
    pub(crate) own_bytes: usize,
    /// Whether the block is as small as for a layout of these inputs alone.
    pub(crate) is_tight: bool,
    /// The facts of each value.
    facts: Vec<Arc<Fact>>,
    /// The buffers in the block.
    buffers: Arc<Buffers>,
    /// By step: its description for profiles; empty until first used.
    described: OnceLock<Box<[OnceLock<Arc<StepWork>>]>>,
}

/// The place of a value.
#[derive(Debug)]
pub(crate) enum Place {
    /// None: it is neither computed nor read.
    Nowhere,
    /// The caller's memory, with another shape if it is an alias.
    Input { index: usize, shape: Option<Shape> },
    /// Memory of the enclosing graph.
    Capture { index: usize, shape: Option<Shape> },
    /// A constant, or contents that follow from shapes.
    Known(Value),
    /// The arena.
    Arena { range: Range<usize>, dtype: DType, shape: Shape },
    /// A requested output of known shape: separate memory that the caller will own.
    Own { dtype: DType, shape: Shape },
    /// Allocated during the run: its shape depends on data, or it is not a tensor of numbers.
    Dynamic,
}

/// The prepared state of a step.
#[derive(Debug)]
pub(crate) enum StepLayout {
    /// It does not run: its outputs are known, aliases of its inputs, or unused.
    Skip,
    /// All shapes are known.
    Static {
        prepared: Prepared,
        split: Split,
        in_place: SmallVec<[(usize, usize); 1]>,
        last_uses: Made,
    },
    /// Shapes are inferred during the run.
    Dynamic {
        split: Split,
        last_uses: Made,
        /// Pairs (input, output): the input, which has no other reader, may be turned into the output.
        taken: SmallVec<[(usize, usize); 1]>,
    },
}

/// Values that a run allocates outside of the arena.
type Made = SmallVec<[ValueId; 2]>;

impl StepLayout {
    /// Those without readers after the step, except the caller.
    pub(crate) fn last_uses(&self) -> &[ValueId] {
        match self {
            Self::Skip => &[],
            Self::Static { last_uses, .. } | Self::Dynamic { last_uses, .. } => last_uses,
        }
    }
}

impl Layout {
    /// For a signature; `near` is a layout for another signature of the same kind.
    pub(super) fn new(
        plan: &Plan,
        selection: &Selection,
        (args, signature): (&Args<'_>, Signature),
        near: Option<&Layout>,
    ) -> Result<Self, PlanError> {
        let facts = plan.facts_of(args, &signature)?;
        let last_reads = last_reads(&plan.graph, &plan.steps, selection);
        let places = (0..facts.len()).map(|_| Place::Nowhere).collect();
        // bounded: by the nodes and values of the graph
        let roots = vec![None; facts.len()];
        let mut builder = Builder {
            plan,
            selection,
            signature,
            facts,
            last_reads,
            places,
            roots,
            regions: Vec::new(),
            buffers: Vec::new(),
            drafts: Vec::new(),
        };
        builder.regions = plan.regions.worth(plan, &builder.facts, |i| selection.needs(i));
        builder.place_given();
        for (i, step) in plan.steps.iter().enumerate() {
            let is_needed = selection.needs(i);
            let draft = if is_needed { builder.place_step(i, step)? } else { Draft::Skip };
            builder.drafts.push(draft);
        }
        Ok(builder.finish(near))
    }

    /// Whether it is for these inputs.
    pub(crate) fn serves(&self, args: &Args<'_>) -> bool {
        self.signature.matches(args)
    }

    /// The description of a step for profiles, computed once if shapes are known, otherwise by every run.
    pub(crate) fn described(
        &self,
        step: usize,
        describe: impl FnOnce() -> StepWork,
    ) -> Arc<StepWork> {
        if !matches!(*self.steps[step], StepLayout::Static { .. }) {
            return Arc::new(describe());
        }
        let all = || self.steps.iter().map(|_| OnceLock::new()).collect();
        self.described.get_or_init(all)[step].get_or_init(|| Arc::new(describe())).clone()
    }
}

/// Whether a value can be placed before the run.
fn is_planned(fact: &Fact) -> bool {
    fact.as_tensor().is_some_and(|tensor| tensor.dtype != DType::String) && fact.shape().is_some()
}

/// A step whose slices are not placed yet.
enum Draft {
    Skip,
    Static { prepared: Prepared, in_place: SmallVec<[(usize, usize); 1]>, scratch: Option<usize> },
    Dynamic,
}

struct Builder<'a> {
    plan: &'a Plan,
    selection: &'a Selection,
    signature: Signature,
    facts: Vec<Fact>,
    last_reads: Vec<Option<usize>>,
    places: Vec<Place>,
    /// By value: its buffer, if it is in the arena.
    roots: Vec<Option<usize>>,
    regions: Vec<Branches>,
    buffers: Vec<Buffer>,
    drafts: Vec<Draft>,
}

impl Builder<'_> {
    fn place_given(&mut self) {
        let graph = &self.plan.graph;
        for id in graph.value_ids() {
            if let Some(constant) = &self.facts[id.index()].constant {
                self.places[id.index()] = Place::Known(Value::Tensor(constant.clone()));
            }
        }
        for (index, id) in graph.inputs().iter().enumerate() {
            self.places[id.index()] = Place::Input { index, shape: None };
        }
        for (index, (here, _)) in graph.captures().iter().enumerate() {
            self.places[here.index()] = Place::Capture { index, shape: None };
        }
    }

    fn place_step(&mut self, i: usize, step: &Step) -> Result<Draft, PlanError> {
        let outputs: SmallVec<[ValueId; 2]> = step.outputs.iter().flatten().copied().collect();
        let is_known = |id: &ValueId| matches!(self.places[id.index()], Place::Known(_));
        if outputs.iter().all(is_known) || self.place_alias(step) {
            return Ok(Draft::Skip);
        }
        let Action::Run { kernel, .. } = &step.action else {
            outputs.iter().for_each(|id| self.places[id.index()] = Place::Dynamic);
            return Ok(Draft::Dynamic);
        };
        let inputs = step.inputs.iter().map(|input| match input {
            None => Some(Shape::new()),
            Some(id) => self.facts[id.index()].shape(),
        });
        let inputs: Option<SmallVec<[Shape; 8]>> = inputs.collect();
        let is_planned = |id: &ValueId| is_planned(&self.facts[id.index()]);
        let Some(shapes) = inputs.filter(|_| outputs.iter().all(is_planned)) else {
            outputs.iter().for_each(|id| self.places[id.index()] = Place::Dynamic);
            return Ok(Draft::Dynamic);
        };
        let shapes: SmallVec<[&[usize]; 8]> = shapes.iter().map(Shape::as_slice).collect();
        let prepared = self.prepare(step, &**kernel, &shapes)?;
        let scratch = (prepared.scratch_bytes > 0).then(|| {
            self.buffers.push(Buffer { n_bytes: prepared.scratch_bytes, first: i, last: i });
            self.buffers.len() - 1
        });
        let mut in_place = SmallVec::new();
        for (position, output) in step.outputs.iter().enumerate() {
            if let Some(output) = *output
                && let Some(pair) = self.place_output(i, step, position, output)?
            {
                in_place.push(pair);
            }
        }
        Ok(Draft::Static { prepared, in_place, scratch })
    }

    fn prepare(
        &self,
        step: &Step,
        kernel: &dyn Kernel,
        shapes: &[&[usize]],
    ) -> Result<Prepared, PlanError> {
        let node = || self.plan.graph.node(step.node).label().to_owned();
        let prepared = caught(|| kernel.prepare(shapes))
            .map_err(|message| PlanError::Panicked { node: node(), message })?;
        prepared.map_err(|error| PlanError::Prepare { node: node(), error: Box::new(error) })
    }

    /// Makes the output of an alias share its input's memory under another shape, where
    /// possible: not for graph outputs, which the caller will own.
    fn place_alias(&mut self, step: &Step) -> bool {
        let Some((source, alias)) = alias_of(step) else { return false };
        let Some(shape) = self.facts[alias.index()].shape() else { return false };
        let is_output = self.selection.outputs().contains(&alias);
        let place = match &self.places[source.index()] {
            Place::Known(Value::Tensor(tensor)) => match tensor.reshaped(&shape) {
                Ok(tensor) => Place::Known(Value::Tensor(tensor)),
                Err(_) => return false,
            },
            // Loop-carried values are moved out of a body.
            Place::Input { index, .. } if !is_output || self.plan.is_body => {
                Place::Input { index: *index, shape: Some(shape) }
            }
            _ if is_output => return false,
            Place::Capture { index, .. } => Place::Capture { index: *index, shape: Some(shape) },
            Place::Arena { range, dtype, .. } => {
                Place::Arena { range: range.clone(), dtype: *dtype, shape }
            }
            _ => return false,
        };
        self.roots[alias.index()] = self.roots[source.index()];
        self.places[alias.index()] = place;
        // Other outputs (the mask of Dropout) are not part of the alias.
        step.outputs[1..].iter().all(Option::is_none)
    }

    /// Places one output of a step whose shapes are known; returns whether it overwrites an input.
    fn place_output(
        &mut self,
        i: usize,
        step: &Step,
        position: usize,
        output: ValueId,
    ) -> Result<Option<(usize, usize)>, PlanError> {
        let fact = &self.facts[output.index()];
        let (Some(dtype), Some(shape)) = (fact.dtype(), fact.shape()) else { return Ok(None) };
        if self.selection.outputs().contains(&output) {
            self.places[output.index()] = Place::Own { dtype, shape };
            return Ok(None);
        }
        let n = ort_tensor::n_elements(&shape).and_then(|n| dtype.n_bytes(n));
        let too_large =
            || PlanError::TooLarge { node: self.plan.graph.node(step.node).label().to_owned() };
        let n_bytes = n.filter(|&n| n <= isize::MAX.unsigned_abs()).ok_or_else(too_large)?;
        let last = self.last_reads[output.index()].unwrap_or(i);
        let mut pairs = step.in_place.iter().filter(|(_, out)| *out == position);
        let reused = pairs
            .find_map(|&pair| self.overwritable(i, step, pair.0, output).map(|root| (root, pair)));
        let root = if let Some((root, _)) = reused {
            self.buffers[root].last = last;
            root
        } else {
            self.buffers.push(Buffer { n_bytes, first: i, last });
            self.buffers.len() - 1
        };
        self.roots[output.index()] = Some(root);
        // The offset is known when all buffers are placed; until then the range holds the length.
        self.places[output.index()] = Place::Arena { range: 0..n_bytes, dtype, shape };
        Ok(reused.map(|(_, pair)| pair))
    }

    /// The buffer of `input` if step `i` may overwrite it with `output`: type and
    /// shape are the same, the input has no later or parallel reader, and the step reads
    /// it only once.
    fn overwritable(&self, i: usize, step: &Step, input: usize, output: ValueId) -> Option<usize> {
        let id = step.inputs.get(input).copied().flatten()?;
        let root = self.roots[id.index()]?;
        let root_of = |id: &ValueId| self.roots[id.index()];
        let n_uses = step.inputs.iter().flatten().filter(|id| root_of(id) == Some(root)).count();
        let is_taken = step.outputs.iter().flatten().any(|id| root_of(id) == Some(root));
        let (from, to) = (&self.facts[id.index()], &self.facts[output.index()]);
        let is_same = from.dtype() == to.dtype() && from.shape() == to.shape();
        let is_free = self.buffers[root].last == i && n_uses == 1 && !is_taken;
        let branch = branch_of(&self.regions, i);
        let is_apart =
            branch.is_none() || branch_of(&self.regions, self.buffers[root].first) == branch;
        (is_free && is_same && is_apart).then_some(root)
    }
}
