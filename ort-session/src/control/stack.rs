//! The outputs of a loop's iterations, stacked along a new axis.
//!
//! If the body allocates memory for such an output, and its slice of the stack is
//! contiguous, the body writes directly to it. If the number of iterations is unknown, the stack grows
//! by doubling.

// collects are bounded: as long as the graph's lists

use ort_ep::KernelError;
use ort_graph::{Dim, Graph, OpError, ValueId};
use ort_tensor::{DType, Memory, Shape, Tensor, TensorError, TensorViewMut, Value};

use super::slices::{are_contiguous, put};
use super::{Arguments, Held, ITEM_BYTES};
use crate::plan::{Layout, Place, SubPlan};
use crate::run::{Arg, ControlError, Memory as Target, Run, Targets};

/// The stacked outputs of a loop.
#[derive(Debug)]
pub(super) struct Stacks<'r> {
    stacks: Vec<Stack>,
    /// The first stacked output of the body; the rest follow.
    first: usize,
    run: &'r Run<'r>,
    held: Held<'r>,
}

#[derive(Debug)]
struct Stack {
    axis: i64,
    is_reversed: bool,
    /// The number of iterations, if known.
    n: Option<usize>,
    /// The number of completed iterations.
    n_done: usize,
    made: Made,
}

#[derive(Debug)]
enum Made {
    Nothing,
    /// A slice for each completed iteration, or for all iterations.
    Slices {
        tensor: Tensor,
        axis: usize,
        item: Shape,
    },
    /// A list, for strings and elements smaller than a byte.
    Values(Vec<Tensor>),
}

/// How an output is stacked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Along {
    pub(super) axis: i64,
    pub(super) is_reversed: bool,
}

impl<'r> Stacks<'r> {
    /// For the outputs of a body from `first` on; `n` iterations, or an unknown number.
    pub(super) fn new(
        run: &'r Run<'_>,
        body: &SubPlan,
        first: usize,
        n: Option<usize>,
        along: impl Fn(usize) -> Along,
    ) -> Self {
        let n_stacks = body.plan.graph.outputs().len().saturating_sub(first);
        let stack = |i| {
            let Along { axis, is_reversed } = along(i);
            Stack { axis, is_reversed, n, n_done: 0, made: Made::Nothing }
        };
        let held = Held::new(run);
        Self { stacks: (0..n_stacks).map(stack).collect(), first, run, held }
    }

    /// The slices that the next iteration of a body with this layout writes directly.
    pub(super) fn targets(
        &mut self,
        graph: &Graph,
        layout: &Layout,
    ) -> Result<Targets<'_>, ControlError> {
        let (run, outputs) = (self.run, graph.outputs());
        let mut targets = Vec::new();
        for (stack, &id) in self.stacks.iter_mut().zip(&outputs[self.first..]) {
            let is_once = outputs.iter().filter(|&&other| other == id).count() == 1;
            let Place::Own { dtype, shape } = &*layout.places[id.index()] else { continue };
            if is_once
                && let Some(slice) = run.bounded(|| stack.slice(*dtype, shape, run.memory))?
            {
                self.held.more(slice.view().as_bytes().map_or(0, <[u8]>::len))?;
                targets.push((id, Target::Fixed(slice)));
            }
        }
        Ok(Targets::new(targets))
    }

    /// Adds the outputs of an iteration that were not written directly, in order.
    pub(super) fn add(
        &mut self,
        graph: &Graph,
        made: impl Iterator<Item = Value>,
        was_target: &[ValueId],
    ) -> Result<(), ControlError> {
        let mut made = made;
        for (stack, id) in self.stacks.iter_mut().zip(&graph.outputs()[self.first..]) {
            if !was_target.contains(id) {
                let value = made.next().ok_or(TensorError::MissingInput { index: 0 })?;
                let is_listed = value.as_tensor()?.dtype().word_bytes().is_none();
                let list_bytes = if is_listed { ITEM_BYTES } else { 0 };
                self.held.more(value.held_bytes().saturating_add(list_bytes))?;
                self.run.bounded(|| stack.put(value, self.run.memory))?;
            }
            stack.n_done += 1;
        }
        Ok(())
    }

    /// The outputs of the loop: its carried values, then what was stacked.
    pub(super) fn into_outputs(
        self,
        carried: Arguments<'_>,
        body: &SubPlan,
    ) -> Result<Vec<Value>, ControlError> {
        let (run, held, first) = (self.run, &self.held, self.first);
        // bounded: by the inputs and outputs of the graph
        let mut outputs = Vec::with_capacity(carried.len() + self.stacks.len());
        for arg in carried {
            outputs.push(match arg {
                Arg::Moved(value) => value,
                Arg::View(view) => {
                    let value = run.bounded(|| view.to_value())?;
                    held.more(value.held_bytes())?;
                    value
                }
            });
        }
        for (i, stack) in self.stacks.into_iter().enumerate() {
            outputs.push(run.bounded(|| stack.into_value(|| empty(body, first + i)))?);
        }
        Ok(outputs)
    }
}

impl Stack {
    /// The memory of the next slice, if it is contiguous.
    fn slice(
        &mut self,
        dtype: DType,
        item: &Shape,
        memory: &dyn Memory,
    ) -> Result<Option<TensorViewMut<'_>>, KernelError> {
        if !self.make_room(dtype, item, memory)? {
            return Ok(None);
        }
        let at = self.at();
        Ok(match &mut self.made {
            Made::Slices { tensor, axis, item } if are_contiguous(tensor.shape(), *axis) => {
                tensor.view_mut().into_item(item, at)
            }
            _ => None,
        })
    }

    /// The position of the next slice.
    fn at(&self) -> usize {
        match self.n {
            Some(n) if self.is_reversed => n - 1 - self.n_done,
            _ => self.n_done,
        }
    }

    /// Makes room for the next slice; returns whether this type is stored in slices.
    fn make_room(
        &mut self,
        dtype: DType,
        item: &[usize],
        memory: &dyn Memory,
    ) -> Result<bool, KernelError> {
        if matches!(self.made, Made::Nothing) {
            if dtype.word_bytes().is_none() {
                self.made = Made::Values(Vec::new());
                return Ok(false);
            }
            let axis = super::axis(self.axis, item.len() + 1)?;
            let mut shape = Shape::from_slice(item);
            shape.insert(axis, self.n.unwrap_or(1));
            let tensor = Tensor::in_memory(memory, dtype, &shape)?;
            self.made = Made::Slices { tensor, axis, item: Shape::from_slice(item) };
        }
        let Made::Slices { tensor, axis, item: first } = &mut self.made else { return Ok(false) };
        if tensor.dtype() != dtype || first.as_slice() != item {
            let (left, right) = (first.to_vec(), item.to_vec());
            return Err(OpError::Shapes { what: "scanned outputs", left, right }.into());
        }
        if tensor.shape()[*axis] <= self.n_done {
            let full = std::mem::replace(tensor, Tensor::scalar(0_u8));
            *tensor = full.extended(*axis, 1, memory)?;
        }
        Ok(true)
    }

    fn put(&mut self, value: Value, memory: &dyn Memory) -> Result<(), KernelError> {
        let item = value.as_tensor()?;
        self.make_room(item.dtype(), item.shape(), memory)?;
        let at = self.at();
        match &mut self.made {
            Made::Slices { tensor, axis, .. } => put(item.view(), tensor.view_mut(), *axis, at)?,
            Made::Values(values) => values.push(item.clone()),
            Made::Nothing => {}
        }
        Ok(())
    }

    fn into_value(self, empty: impl Fn() -> Option<(DType, Shape)>) -> Result<Value, KernelError> {
        match self.made {
            Made::Slices { tensor, .. } => Ok(tensor.into()),
            Made::Values(values) => stacked(&values, self.axis, self.is_reversed),
            Made::Nothing => {
                let unknown = OpError::Unsupported { what: "an empty scan of unknown type" };
                let (dtype, mut shape) = empty().ok_or(unknown)?;
                shape.insert(super::axis(self.axis, shape.len() + 1)?, 0);
                Ok(Tensor::zeros(dtype, &shape)?.into())
            }
        }
    }
}

/// Type and shape of a stacked output without elements: the body's shape, with unknown dimensions 0.
pub(super) fn empty(body: &SubPlan, output: usize) -> Option<(DType, Shape)> {
    let graph = &body.plan.graph;
    let id: ValueId = *graph.outputs().get(output)?;
    let dims = graph.fact(id).dims().unwrap_or_default();
    let dim = |dim: &Dim| dim.known().unwrap_or(0);
    Some((graph.fact(id).dtype()?, dims.iter().map(dim).collect()))
}

/// The tensors, at least one, stacked along a new dimension at `axis`.
pub(super) fn stacked(
    values: &[Tensor],
    axis: i64,
    is_reversed: bool,
) -> Result<Value, KernelError> {
    let first = values.first().ok_or(OpError::InputCount { expected: "1 or more", found: 0 })?;
    let axis = super::axis(axis, first.shape().len() + 1)?;
    let mut shape = Shape::from_slice(first.shape());
    shape.insert(axis, values.len());
    let mut tensor = Tensor::zeros(first.dtype(), &shape)?;
    for (t, value) in values.iter().enumerate() {
        if value.dtype() != first.dtype() || value.shape() != first.shape() {
            let (left, right) = (first.shape().to_vec(), value.shape().to_vec());
            return Err(OpError::Shapes { what: "scanned outputs", left, right }.into());
        }
        let at = if is_reversed { values.len() - 1 - t } else { t };
        put(value.view(), tensor.view_mut(), axis, at)?;
    }
    Ok(tensor.into())
}
