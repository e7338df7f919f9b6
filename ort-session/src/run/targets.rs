//! Memory of the caller's, for outputs of a run.

use ort_graph::ValueId;
use ort_tensor::{Tensor, TensorView, TensorViewMut, Value, ValueView};

/// Memory for outputs, by value. A step that writes one takes it out and puts it back.
#[derive(Debug, Default)]
pub(crate) struct Targets<'t>(Vec<(ValueId, Option<TensorViewMut<'t>>)>);

impl<'t> Targets<'t> {
    pub(crate) fn new(targets: impl IntoIterator<Item = (ValueId, TensorViewMut<'t>)>) -> Self {
        Self(targets.into_iter().map(|(id, view)| (id, Some(view))).collect())
    }

    pub(super) fn take(&mut self, id: ValueId) -> Option<TensorViewMut<'t>> {
        self.0.iter_mut().find(|(other, _)| *other == id)?.1.take()
    }

    pub(super) fn put(&mut self, id: ValueId, view: TensorViewMut<'t>) {
        if let Some((_, target)) = self.0.iter_mut().find(|(other, _)| *other == id) {
            *target = Some(view);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ValueId, TensorView<'_>)> {
        self.0.iter().filter_map(|(id, view)| Some((*id, view.as_ref()?.view())))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (ValueId, TensorViewMut<'_>)> {
        self.0.iter_mut().filter_map(|(id, view)| Some((*id, view.as_mut()?.reborrow())))
    }
}

/// The values of a run outside of its block.
#[derive(Clone, Copy)]
pub(super) struct Values<'b> {
    pub(super) made: &'b [Option<Value>],
    pub(super) targets: &'b Targets<'b>,
}

impl<'b> Values<'b> {
    pub(super) fn view(&self, id: ValueId) -> Option<ValueView<'b>> {
        let made = self.made[id.index()].as_ref().map(Value::view);
        made.or_else(|| {
            let target = self.targets.0.iter().find(|(other, _)| *other == id)?;
            Some(ValueView::Tensor(target.1.as_ref()?.view()))
        })
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
