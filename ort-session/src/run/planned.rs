//! Steps whose shapes are known in the layout.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_tensor::{Inputs, Output, TensorViewMut, Value};
use smallvec::SmallVec;

use super::branch_arena::BranchArena;
use super::frame::Frame;
use super::targets::Own;
use super::{Run, Views};
use crate::plan::{Pieces, Place, Split, Step};

/// A step and its layout.
#[derive(Clone, Copy)]
pub(super) struct PlannedStep<'a> {
    pub(super) step: &'a Step,
    pub(super) kernel: &'a dyn Kernel,
    pub(super) prepared: &'a Prepared,
    pub(super) split: &'a Split,
    pub(super) in_place: &'a [(usize, usize)],
}

impl Run<'_> {
    /// Runs a step whose shapes are known in the layout.
    pub(super) fn run_planned(
        &self,
        frame: &Frame<'_>,
        planned: &PlannedStep<'_>,
        arena: &mut BranchArena<'_, '_>,
    ) -> Result<(), KernelError> {
        let PlannedStep { step, kernel, prepared, split, in_place } = *planned;
        let (slabs, values) = arena.parts();
        let mut own = frame.own_outputs(step, values.targets, self.memory)?;
        {
            // Filled in place to avoid a copy.
            let mut pieces = Pieces::new();
            split.split(slabs, &mut pieces);
            let first_output = step.inputs.len();
            let mut own = own.iter_mut();
            let mut outputs: SmallVec<[Output<'_>; 2]> = SmallVec::new();
            for (o, id) in step.outputs.iter().enumerate() {
                outputs.push(match id.map(|id| frame.place(id)) {
                    Some(Place::Arena { dtype, shape, .. }) => {
                        let bytes = split.write(&mut pieces, first_output + o);
                        let view = TensorViewMut::from_bytes(*dtype, shape, bytes)?;
                        match in_place.iter().find(|(_, output)| *output == o) {
                            Some((input, _)) => Output::in_place(view, *input),
                            None => Output::planned(view),
                        }
                    }
                    Some(Place::Own { .. }) => own.next().map_or(Output::unwanted(), |own| {
                        own.output(|| Some(step.extension(o)?.input))
                    }),
                    _ => Output::unwanted(),
                });
            }
            let scratch = split.write(&mut pieces, first_output + step.outputs.len());
            let mut inputs = Views::new();
            frame.inputs(step, split, (&pieces, values), &mut inputs)?;
            in_place.iter().for_each(|&(input, _)| inputs[input] = None);
            let inputs = Inputs::new(&inputs);
            let threads = self.threads;
            let io = &mut Io { inputs, outputs: &mut outputs, scratch, threads };
            // The memory of outputs was counted before the run started.
            self.bounded(|| kernel.run(prepared, io))?;
        }
        for (id, own) in step.outputs.iter().flatten().filter(|&&id| frame.is_own(id)).zip(own) {
            match own {
                Own::Made(tensor) => values.made.set(*id, Value::Tensor(tensor)),
                Own::Target(memory) => values.targets.put(*id, memory),
            }
        }
        Ok(())
    }
}
