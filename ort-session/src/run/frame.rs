//! One run of one plan: the places of its values.

use ort_ep::KernelError;
use ort_graph::{Fact, OpError, Type, ValueId};
use ort_tensor::{Tensor, TensorError, TensorView, Value, ValueView};
use smallvec::SmallVec;

use super::error::{LimitError, RunError};
use super::targets::{Own, Targets, Values};
use super::watch::{Reservation, TooMuch};
use super::{ControlError, Given, Views};
use crate::check::type_of;
use crate::error::OutputError;
use crate::plan::{Layout, MadeValues, Piece, Place, Plan, Split, Step, fact_of};
use crate::run_memory::RunMemory;

/// One run of one plan.
#[derive(Clone, Copy)]
pub(super) struct Frame<'a> {
    pub(super) plan: &'a Plan,
    pub(super) layout: &'a Layout,
    pub(super) given: Given<'a>,
    /// The outputs to return, in order.
    pub(super) outputs: &'a [ValueId],
    /// The memory that counts against the limits of the run, if it has any.
    pub(super) held: Option<&'a Reservation<'a>>,
}

impl<'a> Frame<'a> {
    pub(super) fn place(&self, id: ValueId) -> &'a Place {
        &self.layout.places[id.index()]
    }

    pub(super) fn is_own(&self, id: ValueId) -> bool {
        matches!(self.place(id), Place::Own { .. })
    }

    /// Adds the step's inputs, from any place.
    pub(super) fn inputs<'b>(
        &self,
        step: &Step,
        split: &Split,
        (pieces, values): (&[Piece<'b>], Values<'b, '_>),
        views: &mut Views<'b>,
    ) -> Result<(), TensorError>
    where
        'a: 'b,
    {
        for (i, id) in step.inputs.iter().enumerate() {
            let Some(id) = *id else {
                views.push(None);
                continue;
            };
            views.push(match self.place(id) {
                Place::Arena { dtype, shape, .. } => {
                    let bytes = split.read(pieces, i);
                    // An overwritten input has no slice; its output has.
                    let is_read = !bytes.is_empty() || shape.contains(&0);
                    let view = || TensorView::from_bytes(*dtype, shape, bytes);
                    is_read.then(view).transpose()?.map(ValueView::Tensor)
                }
                place => match values.targets.grown(id) {
                    Some(grown) if step.reads_room(i, grown.axis()) => {
                        Some(ValueView::Tensor(grown.with_room()))
                    }
                    _ => self.view(place, id, values)?,
                },
            });
        }
        Ok(())
    }

    /// A value that is not in the arena.
    pub(super) fn view<'b>(
        &self,
        place: &'a Place,
        id: ValueId,
        values: Values<'b, '_>,
    ) -> Result<Option<ValueView<'b>>, TensorError>
    where
        'a: 'b,
    {
        let (view, shape) = match place {
            Place::Known(value) => return Ok(Some(value.view())),
            Place::Input { index, shape } => match self.input(*index, values) {
                Some(view) => (view, shape),
                None => return Ok(None),
            },
            Place::Capture { index, shape } => (self.given.captures[*index], shape),
            _ => return Ok(values.view(id)),
        };
        match shape {
            None => Ok(Some(view)),
            Some(shape) => Ok(Some(ValueView::Tensor(view.tensor()?.reshaped(shape)?))),
        }
    }

    /// An input, unless it was moved in and consumed.
    fn input<'b>(&self, index: usize, values: Values<'b, '_>) -> Option<ValueView<'b>>
    where
        'a: 'b,
    {
        let moved = || values.made.get(self.plan.graph.inputs()[index]).map(Value::view);
        self.lent(index).or_else(moved)
    }

    /// An input that is not moved in. The branches of an If have none.
    fn lent(&self, index: usize) -> Option<ValueView<'a>> {
        self.given.inputs.get(index).copied().flatten()
    }

    /// The fact of a computed value.
    pub(super) fn fact(&self, id: ValueId, values: Values<'_, '_>) -> Fact {
        match self.place(id) {
            Place::Arena { dtype, shape, .. } | Place::Own { dtype, shape } => {
                Fact::shaped(*dtype, shape)
            }
            place => match self.view(place, id, values) {
                Ok(Some(view)) => fact_of(view),
                _ => Fact::UNKNOWN,
            },
        }
    }

    /// Memory for those outputs of a step that are outputs of the run, in order.
    pub(super) fn own_outputs<'t>(
        &self,
        step: &Step,
        targets: &Targets<'t>,
        memory: &RunMemory,
    ) -> Result<SmallVec<[Own<'t>; 1]>, TensorError> {
        let mut own = SmallVec::new();
        for id in step.outputs.iter().flatten() {
            if let Place::Own { dtype, shape } = self.place(*id) {
                own.push(match targets.take(*id) {
                    Some(memory) => Own::Target(memory),
                    None if self.plan.is_body => {
                        Own::Made(Tensor::in_memory(memory, *dtype, shape)?)
                    }
                    None => Own::Made(memory.output(*dtype, shape)?),
                });
            }
        }
        Ok(own)
    }

    /// Checks that the caller's memory matches the outputs, as far as their shapes are known.
    pub(super) fn check(&self, targets: &mut Targets<'_>) -> Result<(), RunError> {
        for (id, target) in targets.free() {
            if let Place::Own { dtype, shape } = self.place(id)
                && (target.dtype() != *dtype || target.shape() != shape.as_slice())
            {
                return Err(self.misfit(id, Fact::shaped(*dtype, shape).ty, target.view()).into());
            }
        }
        Ok(())
    }

    /// Copies outputs that no step could write to the caller's memory: constants,
    /// inputs, and those of unknown shape.
    pub(super) fn fill(
        &self,
        made: &MadeValues,
        targets: &mut Targets<'_>,
    ) -> Result<(), RunError> {
        let none = Targets::default();
        let values = Values { made, targets: &none };
        if let Some(id) = targets.not_grown() {
            return Err(self.not_computed(id));
        }
        for (id, target) in targets.free().filter(|(id, _)| !self.is_own(*id)) {
            let view = self.view(self.place(id), id, values).ok().flatten();
            let view = view.ok_or_else(|| self.not_computed(id))?;
            match view {
                ValueView::Tensor(view)
                    if view.dtype() == target.dtype() && view.shape() == target.shape() =>
                {
                    target.copy_from(view).map_err(|_| self.not_computed(id))?;
                }
                _ => return Err(self.misfit(id, type_of(view), target.view()).into()),
            }
        }
        Ok(())
    }

    fn misfit(&self, id: ValueId, expected: Type, target: TensorView<'_>) -> OutputError {
        OutputError::Type {
            name: self.plan.graph.value(id).name.clone(),
            expected: Box::new(expected),
            found: Box::new(Fact::shaped(target.dtype(), target.shape()).ty),
        }
    }

    fn not_computed(&self, id: ValueId) -> RunError {
        RunError::NotComputed { value: self.plan.graph.value(id).name.clone() }
    }

    /// The outputs to return. Each value is moved out at its last occurrence.
    pub(super) fn collect(&self, made: &mut MadeValues) -> Result<Vec<Value>, RunError> {
        let outputs = self.outputs;
        let none = Targets::default();
        // bounded: by the inputs and outputs of the graph
        let mut collected = Vec::with_capacity(outputs.len());
        for (i, &id) in outputs.iter().enumerate() {
            let is_last = !outputs[i + 1..].contains(&id);
            let place = self.place(id);
            let value = match place {
                Place::Known(value) => Some(value.clone()),
                Place::Input { index, shape } if self.lent(*index).is_none() => {
                    self.handed_on(*index, shape.as_deref(), made)
                }
                Place::Input { .. } | Place::Capture { .. } => {
                    let view = self.view(place, id, Values { made, targets: &none });
                    view.ok().flatten().map(|view| self.copied(id, view)).transpose()?
                }
                _ if is_last => made.take(id),
                _ => made.get(id).cloned(),
            };
            collected.push(value.ok_or_else(|| self.not_computed(id))?);
        }
        Ok(collected)
    }

    /// A copy of an input or capture, as an output.
    fn copied(&self, id: ValueId, view: ValueView<'_>) -> Result<Value, RunError> {
        let copy = view.to_value().ok().filter(|copy| {
            let held = self.held.map(|held| held.more(copy.held_bytes()));
            held.is_none_or(|held| held.is_ok())
        });
        copy.ok_or_else(|| RunError::NoMemory { value: self.plan.graph.value(id).name.clone() })
    }

    /// An input that was moved in, as an output.
    fn handed_on(&self, index: usize, shape: Option<&[usize]>, made: &MadeValues) -> Option<Value> {
        let value = made.get(self.plan.graph.inputs()[index])?.clone();
        match (shape, value) {
            (Some(shape), Value::Tensor(tensor)) => Some(tensor.reshaped(shape).ok()?.into()),
            (_, value) => Some(value),
        }
    }

    pub(super) fn error(&self, step: &Step, error: KernelError) -> RunError {
        if let (Some(n_bytes), Some(held)) = (n_refused_bytes(&error), self.held) {
            return held.too_much(self.plan, step, n_bytes);
        }
        let node = self.plan.graph.node(step.node);
        RunError::Node {
            node: node.label().to_owned(),
            op_type: node.op_type.clone(),
            error: Box::new(error),
        }
    }

    /// The error of a run that failed in a step of control flow.
    pub(super) fn control_error(&self, step: &Step, error: ControlError) -> RunError {
        let node = || self.plan.graph.node(step.node).label().to_owned();
        match error {
            ControlError::Run(error) => error,
            ControlError::Kernel(error) => self.error(step, error),
            ControlError::TooOften { limit, found } => {
                LimitError::Iterations { limit, found, node: node() }.into()
            }
            ControlError::TooMuch(TooMuch { limit, found }) => {
                LimitError::Bytes { limit, found, node: node() }.into()
            }
        }
    }

    /// The error of a run whose kernel panicked in a step.
    pub(super) fn panicked(&self, step: usize, message: String) -> RunError {
        let node = self.plan.graph.node(self.plan.steps[step].node);
        let (node, op_type) = (node.label().to_owned(), node.op_type.clone());
        RunError::Panicked { node, op_type, message }
    }
}

/// The number of bytes denied by the run's limit, if that is the error.
const fn n_refused_bytes(error: &KernelError) -> Option<usize> {
    match error {
        KernelError::Op(OpError::Tensor(TensorError::NoMemory { n_bytes, limit: Some(_) })) => {
            Some(*n_bytes)
        }
        _ => None,
    }
}
