//! Outputs of a model that grow in place from an input: state that a caller keeps between runs.

use ort_ep::{Extension, Kernel};
use ort_graph::ValueId;

use super::{Action, Plan, Step};

impl Step {
    /// How this step's kernel makes the output at `output` by extending an input, if it does.
    pub(crate) fn extension(&self, output: usize) -> Option<Extension> {
        self.kernel()?.extensions().into_iter().find(|extension| extension.output == output)
    }

    /// Whether the kernel can read the input at `input` with room along `axis`.
    pub(crate) fn reads_room(&self, input: usize, axis: usize) -> bool {
        self.kernel().is_some_and(|kernel| kernel.reads_room(input, axis))
    }

    fn kernel(&self) -> Option<&dyn Kernel> {
        match &self.action {
            Action::Run { kernel, .. } => Some(&**kernel),
            _ => None,
        }
    }
}

impl Plan {
    /// The axis along which the graph's output `output` extends its input `input`, if one step
    /// can extend it in place: no other step reads the input's elements, and all readers of
    /// the output can read it with room.
    pub(crate) fn extension(&self, input: ValueId, output: ValueId) -> Option<usize> {
        let is_once = |ids: &[ValueId], id| ids.iter().filter(|&&other| other == id).count() == 1;
        let outputs = self.graph.outputs();
        if !is_once(outputs, output) || outputs.contains(&input) {
            return None;
        }
        let makes = |(i, step): (usize, &Step)| {
            let position = step.outputs.iter().position(|&id| id == Some(output))?;
            let extension = step.extension(position)?;
            (step.inputs.get(extension.input) == Some(&Some(input))).then_some((i, extension))
        };
        let (maker, extension) = self.steps.iter().enumerate().find_map(makes)?;
        let may_read = |i: usize, step: &Step, position: usize, id: ValueId| {
            if id == input {
                (i, position) == (maker, extension.input) || self.asks_for_shape(step)
            } else {
                id != output
                    || step.reads_room(position, extension.axis)
                    || self.asks_for_shape(step)
            }
        };
        let may_all = self.steps.iter().enumerate().all(|(i, step)| {
            let mut inputs = step.inputs.iter().enumerate();
            inputs.all(|(position, id)| id.is_none_or(|id| may_read(i, step, position, id)))
        });
        may_all.then_some(extension.axis)
    }

    /// Whether a step reads no elements.
    fn asks_for_shape(&self, step: &Step) -> bool {
        let node = self.graph.node(step.node);
        step.nodes_before.is_empty()
            && node.domain.is_empty()
            && ["Shape", "Size"].contains(&node.op_type.as_str())
    }
}
