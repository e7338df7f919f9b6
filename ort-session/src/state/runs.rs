//! Runs on a state.

// collects are bounded: by the graph's inputs and outputs

use std::borrow::Cow;
use std::sync::Arc;

use ort_graph::{Dim, Type};
use ort_tensor::{DType, Shape, TensorView, Value, ValueView};
use smallvec::SmallVec;

use super::values::{self, Kept};
use super::{State, StateError};
use crate::chosen::Chosen;
use crate::inputs::{InputValue, RunInputs};
use crate::outputs::Outputs;
use crate::run::{Memory, RunError};
use crate::run_options::RunOptions;
use crate::session::{Request, Session};

impl Session {
    /// Runs the model on what `state` keeps and on the other inputs, and keeps the state's outputs for the next
    /// run; returns the others. A first run without a past begins with zeros, of length 0 along the axis that
    /// grows.
    ///
    /// A run that fails leaves the state as it was.
    ///
    /// # Errors
    /// As [`Session::run`], and if the state is another session's, or the shape of a first value is not known.
    pub fn run_state<'a>(
        &self,
        state: &mut State,
        inputs: impl Into<RunInputs<'a>>,
    ) -> Result<Outputs, RunError> {
        self.run_state_with(state, inputs, &RunOptions::default())
    }

    /// The same with options; with [`RunOptions::outputs`], those named there are returned.
    ///
    /// # Errors
    /// As [`Session::run_state`] and [`Session::run_with`].
    pub fn run_state_with<'a>(
        &self,
        state: &mut State,
        inputs: impl Into<RunInputs<'a>>,
        options: &RunOptions,
    ) -> Result<Outputs, RunError> {
        if !Arc::ptr_eq(&state.session, &self.output_names) {
            return Err(StateError::OtherSession.into());
        }
        let inputs = inputs.into();
        let is_new = state.is_empty();
        let begun = self.begin(state, &inputs);
        let before: SmallVec<[Shape; 64]> = state.values.iter().map(shape).collect();
        let n_moved = state.n_moved_so_far();
        let made = begun.map_err(RunError::from).and_then(|()| self.run_on(state, inputs, options));
        match made {
            Ok((outputs, anew)) => {
                state.n_moved = state.n_moved_so_far() - n_moved;
                for (i, value) in anew {
                    state.n_moved = state.n_moved.saturating_add(value.n_bytes());
                    state.values[i] = Some(Kept::Whole(value));
                }
                Ok(outputs)
            }
            Err(error) => {
                if is_new {
                    state.clear()
                } else {
                    state.go_back(&before)
                }
                Err(error)
            }
        }
    }

    /// Gives every value that has none its first.
    fn begin(&self, state: &mut State, inputs: &RunInputs<'_>) -> Result<(), StateError> {
        for (pair, value) in state.pairs.iter().zip(&mut state.values) {
            if value.is_some() {
                continue;
            }
            let ty = &self.plan.graph.fact(pair.ids.input).ty;
            let first = values::first(ty, pair.axis, |name| self.dimension(inputs, name));
            let none = |axis| StateError::NoFirstValue { input: pair.input.clone(), axis };
            let first = first.map_err(none)?.map_err(|error| pair.error(error))?;
            let kept = Kept::new(first.into(), pair.axis.filter(|_| pair.is_extended));
            let mut kept = kept.map_err(|error| pair.error(error))?;
            if let Kept::Growing(tensor) = &mut kept
                && pair.grows
            {
                // bounded: asks for it
                tensor.reserve(state.reserved).map_err(|error| pair.error(error))?;
            }
            *value = Some(kept);
        }
        Ok(())
    }

    /// What a symbol of the model's dimensions is in these inputs.
    fn dimension(&self, inputs: &RunInputs<'_>, symbol: &str) -> Option<usize> {
        let graph = &self.plan.graph;
        inputs.entries.iter().enumerate().find_map(|(i, (name, value))| {
            let named = |name: &Cow<'_, str>| {
                graph.inputs().iter().find(|id| graph.value(**id).name == **name)
            };
            let id = name.as_ref().map_or_else(|| graph.inputs().get(i), named)?;
            let Type::Tensor(declared) = &graph.fact(*id).ty else { return None };
            let ValueView::Tensor(view) = value.view() else { return None };
            let is_it = |dim: &Dim| matches!(dim, Dim::Symbol(name) if **name == *symbol);
            let axis = declared.dims.as_ref()?.iter().position(is_it)?;
            view.shape().get(axis).copied()
        })
    }

    /// The outputs to return, and those values that were made anew, by their pairs.
    fn run_on(
        &self,
        state: &mut State,
        inputs: RunInputs<'_>,
        options: &RunOptions,
    ) -> Result<(Outputs, Vec<(usize, Value)>), RunError> {
        let (pairs, values) = (&state.pairs, &mut state.values);
        let growing = |value: &Option<Kept>| match value {
            Some(Kept::Growing(tensor)) => (tensor.dtype(), tensor.shape().into()),
            _ => (DType::U8, Shape::new()),
        };
        let shapes: SmallVec<[(DType, Shape); 64]> = values.iter().map(growing).collect();
        let (mut inputs, mut wholes) = (inputs, SmallVec::<[usize; 64]>::new());
        let mut bound = Vec::new();
        for (i, (pair, value)) in pairs.iter().zip(values).enumerate() {
            let view = match value {
                Some(Kept::Growing(tensor)) => {
                    bound.push((Cow::Borrowed(pair.output.as_str()), Memory::Growing(tensor)));
                    let (dtype, shape) = &shapes[i];
                    ValueView::Tensor(TensorView::without_elements(*dtype, shape))
                }
                Some(Kept::Whole(value)) => {
                    wholes.push(i);
                    value.view()
                }
                None => continue,
            };
            inputs.entries.push((Some(pair.input.as_str().into()), InputValue::View(view)));
        }
        let names = options.outputs.as_ref().map(|names| {
            let anew = wholes.iter().map(|&i| pairs[i].output.clone());
            names.iter().cloned().chain(anew).collect::<Vec<_>>()
        });
        let (chosen, mut targets) = Chosen::new(&self.plan, names.as_deref(), bound)?;
        let request = Request { inputs: &inputs, options, chosen };
        let outputs = self.observed(request, &mut targets)?;
        let wholes = wholes.iter().map(|&i| (i, pairs[i].output.as_str()));
        Ok(outputs.without(wholes))
    }
}

fn shape(value: &Option<Kept>) -> Shape {
    match value {
        Some(Kept::Growing(tensor)) => tensor.shape().into(),
        _ => Shape::new(),
    }
}

impl State {
    fn n_moved_so_far(&self) -> usize {
        let growing = self.values.iter().map(|value| match value {
            Some(Kept::Growing(tensor)) => tensor.n_moved(),
            _ => 0,
        });
        growing.sum()
    }

    /// Goes back to what was there before a run.
    fn go_back(&mut self, before: &[Shape]) {
        for (value, shape) in self.values.iter_mut().zip(before) {
            if let Some(Kept::Growing(tensor)) = value {
                tensor.truncate(shape.get(tensor.axis()).copied().unwrap_or(0));
            }
        }
    }
}
