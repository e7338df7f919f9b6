//! Steps whose shapes are only known at run time.

// collects are bounded: as long as the graph's lists

use ort_ep::{Extension, Io, Kernel, KernelError};
use ort_graph::ValueId;
use ort_tensor::{DType, GrowingTensor, Inputs, Output, Shape, Tensor, Value, ValueView};
use smallvec::SmallVec;

use super::branch_arena::BranchArena;
use super::frame::Frame;
use super::targets::Memory;
use super::{Run, Views};
use crate::plan::{Pieces, Split, Step};

/// A step whose shapes are only known at run time.
#[derive(Clone, Copy)]
pub(super) struct DynamicStep<'a> {
    pub(super) step: &'a Step,
    pub(super) kernel: &'a dyn Kernel,
    pub(super) split: &'a Split,
    /// Pairs (input, output): the input may be turned into the output.
    pub(super) taken: &'a [(usize, usize)],
}

impl Run<'_> {
    /// Runs such a step: the kernel allocates its outputs.
    pub(super) fn run_dynamic(
        &self,
        frame: &Frame<'_>,
        dynamic: &DynamicStep<'_>,
        arena: &mut BranchArena<'_, '_>,
    ) -> Result<(), KernelError> {
        let DynamicStep { step, kernel, split, .. } = *dynamic;
        let targets = arena.values().targets;
        let growing = step.outputs.iter().map(|id| targets.take_growing((*id)?));
        let mut growing: SmallVec<[_; 2]> = growing.collect();
        let mut outputs: SmallVec<[Output<'_>; 2]> = SmallVec::new();
        for (o, (id, growing)) in step.outputs.iter().zip(&mut growing).enumerate() {
            outputs.push(match growing.as_mut().zip(step.extension(o)) {
                Some((tensor, Extension { input, .. })) => Output::growing(tensor, input),
                None => self.wanted(id),
            });
        }
        let taken = self.take(frame, dynamic, &mut outputs, arena);
        let (slabs, values) = arena.parts();
        {
            let mut pieces = Pieces::new();
            split.split(slabs, &mut pieces);
            let mut inputs = Views::new();
            frame.inputs(step, split, (&pieces, values), &mut inputs)?;
            let shape_of = |(i, view): (usize, &Option<ValueView<'_>>)| match view {
                Some(ValueView::Tensor(view)) => {
                    let grown = step.inputs[i].and_then(|id| values.targets.grown(id));
                    Shape::from_slice(grown.map_or(view.shape(), GrowingTensor::shape))
                }
                _ => taken.iter().find(|(input, _)| *input == i).map_or_else(Shape::new, shape),
            };
            let shapes: SmallVec<[Shape; 8]> = inputs.iter().enumerate().map(shape_of).collect();
            let shapes: SmallVec<[&[usize]; 8]> = shapes.iter().map(|shape| &shape[..]).collect();
            let prepared = kernel.prepare(&shapes)?;
            let mut scratch = Tensor::in_memory(self.memory, DType::U8, &[prepared.scratch_bytes])?;
            let scratch = scratch.view_mut().into_bytes().unwrap_or_default();
            let (inputs, threads) = (Inputs::new(&inputs), self.threads);
            kernel.run(&prepared, &mut Io { inputs, outputs: &mut outputs, scratch, threads })?;
        }
        let made: SmallVec<[Option<Value>; 2]> =
            outputs.into_iter().map(Output::into_value).collect();
        for (id, value) in step.outputs.iter().zip(made) {
            if let (Some(id), Some(value)) = (id, value) {
                values.made.set(*id, value);
            }
        }
        for (id, tensor) in step.outputs.iter().zip(growing) {
            if let (Some(id), Some(tensor)) = (id, tensor) {
                values.targets.put(*id, Memory::Growing(tensor));
            }
        }
        Ok(())
    }

    /// Moves inputs to the outputs they may be turned into; returns which, and their shapes.
    fn take(
        &self,
        frame: &Frame<'_>,
        dynamic: &DynamicStep<'_>,
        outputs: &mut [Output<'_>],
        arena: &mut BranchArena<'_, '_>,
    ) -> SmallVec<[(usize, Shape); 1]> {
        let mut taken = SmallVec::new();
        for &(input, output) in dynamic.taken {
            let Some(id) = dynamic.step.inputs[input] else { continue };
            let Some(value) = arena.clear(id) else { continue };
            if let Some(held) = frame.held {
                held.cleared(frame, id, Some(&value));
            }
            let shape = value.as_tensor().map_or_else(|_| Shape::new(), |x| x.shape().into());
            taken.push((input, shape));
            let free = std::mem::replace(&mut outputs[output], Output::unwanted());
            outputs[output] = free.with_taken(value, input);
        }
        taken
    }

    fn wanted(&self, id: &Option<ValueId>) -> Output<'_> {
        if id.is_some() { Output::lent(self.memory) } else { Output::unwanted() }
    }
}

fn shape((_, shape): &(usize, Shape)) -> Shape {
    shape.clone()
}
