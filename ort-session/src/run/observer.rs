//! Passes the values that steps compute to an observer, before their memory is reused.

use std::fmt;

use ort_tensor::{TensorError, TensorView, ValueView};

use super::branch_arena::BranchArena;
use super::frame::Frame;
use crate::plan::{Pieces, Place, StepLayout};

/// A value that a step of a run has just computed; see [`Session::run_observed`](crate::Session::run_observed).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct IntermediateValue<'a> {
    /// The index of the step in the topological order of the graph.
    pub step: usize,
    /// The node that computed it, or its operator if it has no name; the last one if several nodes run
    /// as one step.
    pub node: &'a str,
    /// The operator of that node.
    pub op_type: &'a str,
    /// The name of the value.
    pub name: &'a str,
    /// The value. The run owns its memory.
    pub value: ValueView<'a>,
}

/// The callback for each value.
#[derive(Clone, Copy)]
pub(crate) struct Observer<'a>(pub(crate) &'a (dyn Fn(&IntermediateValue<'_>) + Sync));

impl fmt::Debug for Observer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

impl Observer<'_> {
    /// Passes on the outputs of a step of the main graph that has just run.
    pub(super) fn show(
        self,
        frame: &Frame<'_>,
        index: usize,
        arena: &mut BranchArena<'_, '_>,
    ) -> Result<(), TensorError> {
        let plan = frame.plan;
        let (StepLayout::Static { split, .. } | StepLayout::Dynamic { split, .. }) =
            &*frame.layout.steps[index]
        else {
            return Ok(());
        };
        let step = &plan.steps[index];
        let node = plan.graph.node(step.node);
        let (slabs, values) = arena.parts();
        let mut pieces = Pieces::new();
        split.split(slabs, &mut pieces);
        for (o, id) in step.outputs.iter().enumerate() {
            let Some(id) = *id else { continue };
            let view = match frame.place(id) {
                Place::Arena { dtype, shape, .. } => {
                    let bytes = split.write(&mut pieces, step.inputs.len() + o);
                    Some(ValueView::Tensor(TensorView::from_bytes(*dtype, shape, bytes)?))
                }
                place => frame.view(place, id, values)?,
            };
            let Some(value) = view else { continue };
            let name = plan.graph.value(id).name.as_str();
            let (node, op_type) = (node.label(), node.op_type.as_str());
            (self.0)(&IntermediateValue { step: index, node, op_type, name, value });
        }
        Ok(())
    }
}
