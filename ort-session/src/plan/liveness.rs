//! Until which step each value is needed.

use ort_graph::{Graph, ValueId};
use smallvec::SmallVec;

use super::{Action, Step};

/// For each value, the last step that reads it, itself or through an alias of it; `usize::MAX` for
/// graph outputs, `None` for what nobody reads.
pub(super) fn last_reads(graph: &Graph, steps: &[Step]) -> Vec<Option<usize>> {
    let mut last = vec![None; graph.value_ids().count()];
    for &output in graph.outputs() {
        last[output.index()] = Some(usize::MAX);
    }
    for (i, step) in steps.iter().enumerate().rev() {
        for input in step.inputs.iter().flatten() {
            let last = &mut last[input.index()];
            *last = (*last).max(Some(i));
        }
        // An alias that is an output of the graph gets memory of its own.
        if let Some((source, alias)) = alias_of(step)
            && !graph.outputs().contains(&alias)
        {
            last[source.index()] = last[source.index()].max(last[alias.index()]);
        }
    }
    last
}

/// Notes in each step the values that nobody needs after it.
pub(super) fn note_last_uses(graph: &Graph, steps: &mut [Step]) {
    let mut seen = vec![false; graph.value_ids().count()];
    for &output in graph.outputs() {
        seen[output.index()] = true;
    }
    for step in steps.iter_mut().rev() {
        let mut last_uses = SmallVec::new();
        for value in step.inputs.iter().chain(&step.outputs).flatten() {
            if !std::mem::replace(&mut seen[value.index()], true) {
                last_uses.push(*value);
            }
        }
        step.last_uses = last_uses;
    }
}

/// The input and the output that are one piece of memory, if the step is an alias.
pub(super) fn alias_of(step: &Step) -> Option<(ValueId, ValueId)> {
    match &step.action {
        Action::Run { is_alias: true, .. } => {
            Some((step.inputs.first().copied()??, step.outputs.first().copied()??))
        }
        _ => None,
    }
}
