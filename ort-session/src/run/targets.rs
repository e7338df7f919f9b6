//! The caller's memory for outputs of a run.

// collects are bounded: as long as the graph's lists

use std::sync::{Mutex, OnceLock, PoisonError};

use ort_graph::ValueId;
use ort_tensor::{GrowingTensor, Output, Tensor, TensorView, TensorViewMut, Value, ValueView};
use smallvec::SmallVec;

use crate::plan::MadeValues;

/// Memory for outputs, by value. The step that writes an output takes its memory, and returns it when done.
#[derive(Debug, Default)]
pub(crate) struct Targets<'t>(Vec<(ValueId, Target<'t>)>);

/// Memory for an output.
#[derive(Debug)]
pub(crate) enum Memory<'t> {
    /// A tensor of the output's shape.
    Fixed(TensorViewMut<'t>),
    /// A tensor that holds an input, which the output extends.
    Growing(&'t mut GrowingTensor),
}

#[derive(Debug)]
struct Target<'t> {
    /// Until a step takes it. Only one step does.
    free: Mutex<Option<Memory<'t>>>,
    done: OnceLock<Memory<'t>>,
}

impl<'t> Targets<'t> {
    pub(crate) fn new(targets: impl IntoIterator<Item = (ValueId, Memory<'t>)>) -> Self {
        let target =
            |(id, memory)| (id, Target { free: Mutex::new(Some(memory)), done: OnceLock::new() });
        Self(targets.into_iter().map(target).collect())
    }

    /// The values with memory.
    pub(crate) fn ids(&self) -> SmallVec<[ValueId; 4]> {
        self.0.iter().map(|(id, _)| *id).collect()
    }

    /// Whether there is memory for a value.
    pub(super) fn has(&self, id: ValueId) -> bool {
        self.get(id).is_some()
    }

    pub(super) fn take(&self, id: ValueId) -> Option<Memory<'t>> {
        self.get(id)?.free.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The same, if the output extends the tensor.
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

    /// Returns memory after it was written.
    pub(super) fn put(&self, id: ValueId, memory: Memory<'t>) {
        if let Some(target) = self.get(id) {
            // Memory is taken and returned only once.
            let _ = target.done.set(memory);
        }
    }

    /// The written tensor, if it has room.
    pub(super) fn grown(&self, id: ValueId) -> Option<&GrowingTensor> {
        match self.get(id)?.done.get()? {
            Memory::Growing(tensor) => Some(tensor),
            Memory::Fixed(_) => None,
        }
    }

    /// The written tensor.
    fn view(&self, id: ValueId) -> Option<TensorView<'_>> {
        Some(match self.get(id)?.done.get()? {
            Memory::Fixed(view) => view.view(),
            // Readers that support room use [`Targets::grown`].
            Memory::Growing(tensor) => tensor.without_elements(),
        })
    }

    fn get(&self, id: ValueId) -> Option<&Target<'t>> {
        self.0.iter().find(|(other, _)| *other == id).map(|(_, target)| target)
    }

    /// Memory of fixed shape that no step has taken.
    pub(super) fn free(&mut self) -> impl Iterator<Item = (ValueId, TensorViewMut<'_>)> {
        self.0.iter_mut().filter_map(|(id, target)| {
            match target.free.get_mut().unwrap_or_else(PoisonError::into_inner) {
                Some(Memory::Fixed(view)) => Some((*id, view.reborrow())),
                _ => None,
            }
        })
    }

    /// A growing tensor that was not extended.
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

/// Memory for a step's output that is an output of the run.
pub(super) enum Own<'t> {
    /// The caller will own it.
    Made(Tensor),
    /// The caller's memory.
    Target(Memory<'t>),
}

impl Own<'_> {
    /// The output, which may extend the input at this position.
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
