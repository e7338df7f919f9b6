//! A layout adapted from another one for other sizes: what does not depend on them is shared.
//!
//! ```text
//! facts:  inferred again where an input of the node changed
//! steps:  prepared again where a fact changed, in the existing buffers
//! ```
//!
//! Any other change (to what is known before the run, to in-place pairs, or a buffer that is too small)
//! requires a new layout.

// collects are bounded: as long as the graph's lists

use std::sync::{Arc, OnceLock};

use ort_graph::{Fact, ValueId};
use ort_tensor::{DType, Shape, Value};
use smallvec::SmallVec;

use super::finished::split;
use super::{Layout, Place, StepLayout, is_planned};
use crate::caught::caught;
use crate::plan::liveness::alias_of;
use crate::plan::shapes::{Args, Signature, inferred};
use crate::plan::{Action, Plan, Selection, Step};

/// A layout must need all but one of this many equal parts of its buffers' memory.
const PARTS: usize = 4;

impl Layout {
    /// The layout for another signature of the same kind; `None` if more than sizes differ.
    pub(in crate::plan) fn adapted(
        &self,
        plan: &Plan,
        selection: &Selection,
        (args, signature): (&Args<'_>, &Signature),
    ) -> Option<Self> {
        // The profitable branches depend on sizes.
        if !plan.regions.is_empty() {
            return None;
        }
        let mut adapting = Adapting {
            plan,
            selection,
            before: self,
            facts: self.facts.clone(),
            // bounded: by the nodes and values of the graph
            has_changed: vec![false; self.facts.len()],
            places: self.places.clone(),
            steps: self.steps.clone(),
        };
        adapting.propagate(args, signature)?;
        adapting.place_all()?;
        let Adapting { facts, places, steps, .. } = adapting;
        let own_bytes = places.iter().map(|place| place.own_bytes());
        let layout = Self {
            signature: signature.clone(),
            own_bytes: own_bytes.fold(0, usize::saturating_add),
            places,
            steps,
            facts,
            regions: Vec::new(),
            made: self.made.clone(),
            arena_bytes: self.arena_bytes,
            is_tight: false,
            live_bytes: self.live_bytes.clone(),
            buffers: self.buffers.clone(),
            described: OnceLock::new(),
        };
        layout.needs_most().then_some(layout)
    }

    /// Whether it needs most of its buffers: a small input after a large one must not keep the large block.
    fn needs_most(&self) -> bool {
        let buffers = &self.buffers;
        // bounded: by the nodes and values of the graph
        let mut needed = vec![0_usize; buffers.buffers.len()];
        for (place, root) in self.places.iter().zip(&buffers.roots) {
            if let (Place::Arena { range, .. }, Some(root)) = (&**place, root) {
                needed[*root] = needed[*root].max(range.len());
            }
        }
        for (step, scratch) in self.steps.iter().zip(&buffers.scratch) {
            if let (StepLayout::Static { prepared, .. }, Some(scratch)) = (&**step, scratch) {
                needed[*scratch] = prepared.scratch_bytes;
            }
        }
        let all = buffers.buffers.iter().map(|buffer| buffer.n_bytes).sum::<usize>();
        needed.iter().sum::<usize>() >= all - all / PARTS
    }
}

struct Adapting<'a> {
    plan: &'a Plan,
    selection: &'a Selection,
    before: &'a Layout,
    facts: Vec<Arc<Fact>>,
    /// By value: whether its fact changed.
    has_changed: Vec<bool>,
    places: Vec<Arc<Place>>,
    steps: Vec<Arc<StepLayout>>,
}

impl Adapting<'_> {
    fn propagate(&mut self, args: &Args<'_>, signature: &Signature) -> Option<()> {
        let graph = &self.plan.graph;
        let given = graph.inputs().iter().chain(graph.captures().iter().map(|(here, _)| here));
        let differing = signature.differing(&self.before.signature, args)?;
        for (&id, fact) in given.zip(differing) {
            if let Some(fact) = fact {
                self.change(id, fact);
            }
        }
        for &id in &self.plan.order {
            let node = graph.node(id);
            if !node.inputs.iter().flatten().any(|id| self.has_changed[id.index()]) {
                continue;
            }
            // Errors are reported by planning from scratch.
            let facts = inferred(graph, node, |id| &self.facts[id.index()]).ok()?;
            for (&output, fact) in node.outputs.iter().zip(facts) {
                if let Some(output) = output
                    && fact != *self.facts[output.index()]
                {
                    self.change(output, fact);
                }
            }
        }
        Some(())
    }

    fn change(&mut self, id: ValueId, fact: Fact) {
        self.facts[id.index()] = Arc::new(fact);
        self.has_changed[id.index()] = true;
    }

    fn place_all(&mut self) -> Option<()> {
        for (i, step) in self.plan.steps.iter().enumerate() {
            let mut values = step.inputs.iter().chain(&step.outputs).flatten();
            if self.selection.needs(i) && values.any(|id| self.has_changed[id.index()]) {
                self.place(i, step)?;
            }
        }
        Some(())
    }

    fn place(&mut self, i: usize, step: &Step) -> Option<()> {
        let planned = match &*self.steps[i] {
            StepLayout::Skip => return self.place_skipped(step),
            StepLayout::Dynamic { last_uses, taken, .. } => {
                self.is_dynamic(step).then_some(())?;
                let (last_uses, taken) = (last_uses.clone(), taken.clone());
                let split = split(step, &[], 0..0, |id| &self.places[id.index()]);
                self.steps[i] = Arc::new(StepLayout::Dynamic { split, last_uses, taken });
                return Some(());
            }
            StepLayout::Static { in_place, last_uses, .. } => (in_place.clone(), last_uses.clone()),
        };
        let (Action::Run { kernel, .. }, (in_place, last_uses)) = (&step.action, planned) else {
            return None;
        };
        let shape = |id: &Option<ValueId>| id.map_or(Some(Shape::new()), |id| self.shape(id));
        let shapes = step.inputs.iter().map(shape).collect::<Option<SmallVec<[Shape; 8]>>>()?;
        let shapes: SmallVec<[&[usize]; 8]> = shapes.iter().map(Shape::as_slice).collect();
        let prepared = caught(|| kernel.prepare(&shapes)).ok()?.ok()?;
        for &output in step.outputs.iter().flatten() {
            self.place_output(output)?;
        }
        for &(input, output) in &in_place {
            let (input, output) = (step.inputs[input]?, step.outputs[output]?);
            (self.shape(input) == self.shape(output)).then_some(())?;
        }
        let buffers = &self.before.buffers;
        let scratch = match buffers.scratch[i] {
            Some(scratch) if prepared.scratch_bytes <= buffers.buffers[scratch].n_bytes => {
                let start = buffers.ranges[scratch].start;
                start..start + prepared.scratch_bytes
            }
            None if prepared.scratch_bytes == 0 => 0..0,
            _ => return None,
        };
        let split = split(step, &in_place, scratch, |id| &self.places[id.index()]);
        self.steps[i] = Arc::new(StepLayout::Static { prepared, split, in_place, last_uses });
        Some(())
    }

    /// Whether the shapes of a step are only known at run time, as before.
    fn is_dynamic(&self, step: &Step) -> bool {
        let fact = |id: &ValueId| &*self.facts[id.index()];
        let outputs = || step.outputs.iter().flatten().map(fact);
        let is_run = matches!(step.action, Action::Run { .. });
        let are_planned = step.inputs.iter().flatten().all(|id| fact(id).shape().is_some())
            && outputs().all(is_planned);
        outputs().all(|fact| fact.constant.is_none()) && !(is_run && are_planned)
    }

    fn shape(&self, id: ValueId) -> Option<Shape> {
        self.facts[id.index()].shape()
    }

    /// Keeps an output's place, with another size.
    fn place_output(&mut self, id: ValueId) -> Option<()> {
        if !self.has_changed[id.index()] {
            return Some(());
        }
        let fact = &self.facts[id.index()];
        let (dtype, shape) = (fact.dtype()?, fact.shape()?);
        let is_known = fact.constant.is_some();
        let place = match &*self.places[id.index()] {
            Place::Own { .. } if !is_known => Place::Own { dtype, shape },
            Place::Arena { range, .. } if !is_known => {
                let root = self.before.buffers.roots[id.index()]?;
                let n_bytes = n_bytes(dtype, &shape)?;
                (n_bytes <= self.before.buffers.buffers[root].n_bytes).then_some(())?;
                Place::Arena { range: range.start..range.start + n_bytes, dtype, shape }
            }
            _ => return None,
        };
        self.places[id.index()] = Arc::new(place);
        Some(())
    }

    /// The outputs of a step that does not run: they are known, or aliases of its input.
    fn place_skipped(&mut self, step: &Step) -> Option<()> {
        for &id in step.outputs.iter().flatten() {
            let fact = &self.facts[id.index()];
            let place = match (&*self.places[id.index()], &fact.constant) {
                (Place::Known(_), Some(tensor)) => Place::Known(Value::Tensor(tensor.clone())),
                (Place::Known(_), None) | (_, Some(_)) => return None,
                _ => self.aliased(step, id)?,
            };
            self.places[id.index()] = Arc::new(place);
        }
        Some(())
    }

    fn aliased(&self, step: &Step, id: ValueId) -> Option<Place> {
        let (source, alias) = alias_of(step).filter(|(_, alias)| *alias == id)?;
        let shape = self.shape(alias)?;
        Some(match &*self.places[source.index()] {
            Place::Input { index, .. } => Place::Input { index: *index, shape: Some(shape) },
            Place::Capture { index, .. } => Place::Capture { index: *index, shape: Some(shape) },
            Place::Arena { range, dtype, .. } => {
                Place::Arena { range: range.clone(), dtype: *dtype, shape }
            }
            _ => return None,
        })
    }
}

fn n_bytes(dtype: DType, shape: &[usize]) -> Option<usize> {
    dtype.n_bytes(ort_tensor::n_elements(shape)?)
}
