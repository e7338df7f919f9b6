//! One run of one plan: where its values are.

use std::any::Any;

use ort_ep::KernelError;
use ort_graph::{Fact, ValueId};
use ort_tensor::{Tensor, TensorError, TensorView, Value, ValueView};
use smallvec::SmallVec;

use super::Views;
use super::error::{RunError, message_of};
use crate::plan::{Args, Carve, Layout, Piece, Place, Plan, State, Step, fact_of};

/// One run of one plan.
#[derive(Clone, Copy)]
pub(super) struct Frame<'a> {
    pub(super) plan: &'a Plan,
    pub(super) layout: &'a Layout,
    pub(super) args: &'a Args<'a>,
}

impl<'a> Frame<'a> {
    pub(super) fn place(&self, id: ValueId) -> &'a Place {
        &self.layout.places[id.index()]
    }

    pub(super) fn is_own(&self, id: ValueId) -> bool {
        matches!(self.place(id), Place::Own { .. })
    }

    /// Adds the step's inputs, wherever they live.
    pub(super) fn inputs<'b>(
        &self,
        step: &Step,
        carve: &Carve,
        (pieces, values): (&[Piece<'b>], &'b [Option<Value>]),
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
                    let bytes = carve.read(pieces, i);
                    // An input that is overwritten has no slice of its own: its output has.
                    let is_read = !bytes.is_empty() || shape.contains(&0);
                    let view = || TensorView::from_bytes(*dtype, shape, bytes);
                    is_read.then(view).transpose()?.map(ValueView::Tensor)
                }
                place => self.view(place, id, values)?,
            });
        }
        Ok(())
    }

    /// A value that does not live in the arena.
    fn view<'b>(
        &self,
        place: &'a Place,
        id: ValueId,
        values: &'b [Option<Value>],
    ) -> Result<Option<ValueView<'b>>, TensorError>
    where
        'a: 'b,
    {
        let (view, shape) = match place {
            Place::Known(value) => return Ok(Some(value.view())),
            Place::Input { index, shape } => (self.args.inputs[*index], shape),
            Place::Capture { index, shape } => (self.args.captures[*index], shape),
            _ => return Ok(values[id.index()].as_ref().map(Value::view)),
        };
        match shape {
            None => Ok(Some(view)),
            Some(shape) => Ok(Some(ValueView::Tensor(view.tensor()?.reshaped(shape)?))),
        }
    }

    /// What a value is now that it is there.
    pub(super) fn fact(&self, id: ValueId, values: &[Option<Value>]) -> Fact {
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

    /// Memory for those outputs of a step that are outputs of the graph, in order.
    pub(super) fn own_outputs(&self, step: &Step) -> Result<SmallVec<[Tensor; 1]>, TensorError> {
        let mut own = SmallVec::new();
        for id in step.outputs.iter().flatten() {
            if let Place::Own { dtype, shape } = self.place(*id) {
                own.push(Tensor::zeros(*dtype, shape)?);
            }
        }
        Ok(own)
    }

    /// The outputs of the graph. Each value is moved out the last time it is asked for.
    pub(super) fn collect(&self, state: &mut State) -> Result<Vec<Value>, RunError> {
        let outputs = self.plan.graph.outputs();
        let mut collected = Vec::with_capacity(outputs.len());
        for (i, &id) in outputs.iter().enumerate() {
            let is_last = !outputs[i + 1..].contains(&id);
            let place = self.place(id);
            let value = match place {
                Place::Known(value) => Some(value.clone()),
                Place::Input { .. } | Place::Capture { .. } => {
                    let view = self.view(place, id, &state.values);
                    view.ok().flatten().map(ValueView::to_value)
                }
                _ if is_last => state.values[id.index()].take(),
                _ => state.values[id.index()].clone(),
            };
            let name = || self.plan.graph.value(id).name.clone();
            collected.push(value.ok_or_else(|| RunError::NotComputed { value: name() })?);
        }
        Ok(collected)
    }

    pub(super) fn error(&self, step: &Step, error: KernelError) -> RunError {
        let node = self.plan.graph.node(step.node);
        RunError::Node {
            node: node.label().to_owned(),
            op_type: node.op_type.clone(),
            error: Box::new(error),
        }
    }

    /// The error of a run whose kernel panicked in step `at`.
    pub(super) fn panicked(&self, at: usize, panic: &(dyn Any + Send)) -> RunError {
        let node = self.plan.graph.node(self.plan.steps[at].node);
        RunError::Panicked {
            node: node.label().to_owned(),
            op_type: node.op_type.clone(),
            message: message_of(panic),
        }
    }
}
