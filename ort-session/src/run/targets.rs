//! Memory of the caller's, for outputs of a run.

// collects are bounded: as long as the graph's lists

use std::sync::{Mutex, OnceLock, PoisonError};

use ort_graph::ValueId;
use ort_tensor::{GrowingTensor, Output, Tensor, TensorView, TensorViewMut, Value, ValueView};
use smallvec::SmallVec;

use crate::plan::MadeValues;

/// Memory for outputs, by value. The step that writes one takes it, and shows it when it is done.
#[derive(Debug, Default)]
pub(crate) struct Targets<'t>(Vec<(ValueId, Target<'t>)>);

/// Memory for an output.
#[derive(Debug)]
pub(crate) enum Memory<'t> {
    /// Of its shape.
    Fixed(TensorViewMut<'t>),
    /// It holds an input, to which the output adds.
    Growing(&'t mut GrowingTensor),
}

#[derive(Debug)]
struct Target<'t> {
    /// Until a step takes it. Only one asks.
    free: Mutex<Option<Memory<'t>>>,
    done: OnceLock<Memory<'t>>,
}

impl<'t> Targets<'t> {
    pub(crate) fn new(targets: impl IntoIterator<Item = (ValueId, Memory<'t>)>) -> Self {
        let target =
            |(id, memory)| (id, Target { free: Mutex::new(Some(memory)), done: OnceLock::new() });
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

    pub(super) fn take(&self, id: ValueId) -> Option<Memory<'t>> {
        self.get(id)?.free.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The same, if the output adds to what it holds.
    pub(super) fn take_growing(&self, id: ValueId) -> Option<&'t mut GrowingTensor> {
        let mut free = self.get(id)?.free.lock().unwrap_or_else(PoisonError::into_inner);
        match free.take() {
            Some(Memory::Growing(tensor)) => Some(tensor),
            other => {
                *free = other;
                None
            }
        }
    }

    /// Gives back what was taken, written.
    pub(super) fn put(&self, id: ValueId, memory: Memory<'t>) {
        if let Some(target) = self.get(id) {
            // What was taken once is given back once.
            let _ = target.done.set(memory);
        }
    }

    /// What is written, if it is a tensor with room.
    pub(super) fn grown(&self, id: ValueId) -> Option<&GrowingTensor> {
        match self.get(id)?.done.get()? {
            Memory::Growing(tensor) => Some(tensor),
            Memory::Fixed(_) => None,
        }
    }

    /// What is written.
    fn view(&self, id: ValueId) -> Option<TensorView<'_>> {
        Some(match self.get(id)?.done.get()? {
            Memory::Fixed(view) => view.view(),
            // Who can read it with its room asks for that.
            Memory::Growing(tensor) => tensor.without_elements(),
        })
    }

    fn get(&self, id: ValueId) -> Option<&Target<'t>> {
        self.0.iter().find(|(other, _)| *other == id).map(|(_, target)| target)
    }

    /// Memory of a certain shape that no step has taken.
    pub(super) fn free(&mut self) -> impl Iterator<Item = (ValueId, TensorViewMut<'_>)> {
        self.0.iter_mut().filter_map(|(id, target)| {
            match target.free.get_mut().unwrap_or_else(PoisonError::into_inner) {
                Some(Memory::Fixed(view)) => Some((*id, view.reborrow())),
                _ => None,
            }
        })
    }

    /// A tensor that was to grow, and did not.
    pub(super) fn not_grown(&mut self) -> Option<ValueId> {
        let mut targets = self.0.iter_mut();
        targets.find_map(|(id, target)| {
            let free = target.free.get_mut().unwrap_or_else(PoisonError::into_inner);
            matches!(free, Some(Memory::Growing(_))).then_some(*id)
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
        made.or_else(|| Some(ValueView::Tensor(self.targets.view(id)?)))
    }
}

/// Memory for an output of a step that is an output of the run.
pub(super) enum Own<'t> {
    /// The caller will own it.
    Made(Tensor),
    /// The caller's.
    Target(Memory<'t>),
}

impl Own<'_> {
    /// The output, which may add to the input of this position.
    pub(super) fn output(&mut self, input: impl FnOnce() -> Option<usize>) -> Output<'_> {
        match self {
            Own::Made(tensor) => Output::planned(tensor.view_mut()),
            Own::Target(Memory::Fixed(view)) => Output::planned(view.reborrow()),
            Own::Target(Memory::Growing(tensor)) => match input() {
                Some(input) => Output::growing(tensor, input),
                None => Output::unwanted(),
            },
        }
    }
}
