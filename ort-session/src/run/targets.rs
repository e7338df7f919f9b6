//! Memory of the caller's, for outputs of a run.

// collects are bounded: as long as the graph's lists

use std::sync::{Mutex, OnceLock, PoisonError};

use ort_graph::ValueId;
use ort_tensor::{Tensor, TensorViewMut, Value, ValueView};
use smallvec::SmallVec;

use crate::plan::MadeValues;

/// Memory for outputs, by value. The step that writes one takes it, and shows it when it is done.
#[derive(Debug, Default)]
pub(crate) struct Targets<'t>(Vec<(ValueId, Target<'t>)>);

#[derive(Debug)]
struct Target<'t> {
    /// Until a step takes it. Only one asks.
    free: Mutex<Option<TensorViewMut<'t>>>,
    done: OnceLock<TensorViewMut<'t>>,
}

impl<'t> Targets<'t> {
    pub(crate) fn new(targets: impl IntoIterator<Item = (ValueId, TensorViewMut<'t>)>) -> Self {
        let target =
            |(id, view)| (id, Target { free: Mutex::new(Some(view)), done: OnceLock::new() });
        Self(targets.into_iter().map(target).collect())
    }

    /// The values that there is memory for.
    pub(crate) fn ids(&self) -> SmallVec<[ValueId; 4]> {
        self.0.iter().map(|(id, _)| *id).collect()
    }

    /// Whether there is memory of the caller's for a value.
    pub(super) fn has(&self, id: ValueId) -> bool {
        self.get(id).is_some()
    }

    pub(super) fn take(&self, id: ValueId) -> Option<TensorViewMut<'t>> {
        self.get(id)?.free.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Gives back what was taken, written.
    pub(super) fn put(&self, id: ValueId, view: TensorViewMut<'t>) {
        if let Some(target) = self.get(id) {
            // What was taken once is given back once.
            let _ = target.done.set(view);
        }
    }

    fn get(&self, id: ValueId) -> Option<&Target<'t>> {
        self.0.iter().find(|(other, _)| *other == id).map(|(_, target)| target)
    }

    /// Those that no step has taken.
    pub(super) fn free(&mut self) -> impl Iterator<Item = (ValueId, TensorViewMut<'_>)> {
        self.0.iter_mut().filter_map(|(id, target)| {
            let free = target.free.get_mut().unwrap_or_else(PoisonError::into_inner);
            Some((*id, free.as_mut()?.reborrow()))
        })
    }
}

/// The values of a run outside of its block.
#[derive(Clone, Copy)]
pub(super) struct Values<'b, 't> {
    pub(super) made: &'b MadeValues,
    pub(super) targets: &'b Targets<'t>,
}

impl<'b> Values<'b, '_> {
    pub(super) fn view(&self, id: ValueId) -> Option<ValueView<'b>> {
        let made = self.made.get(id).map(Value::view);
        made.or_else(|| Some(ValueView::Tensor(self.targets.get(id)?.done.get()?.view())))
    }
}

/// Memory for an output of a step that is an output of the run.
pub(super) enum Own<'t> {
    /// The caller will own it.
    Made(Tensor),
    /// The caller's.
    Target(TensorViewMut<'t>),
}

impl Own<'_> {
    pub(super) fn view_mut(&mut self) -> TensorViewMut<'_> {
        match self {
            Own::Made(tensor) => tensor.view_mut(),
            Own::Target(view) => view.reborrow(),
        }
    }
}
