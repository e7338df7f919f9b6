//! The lifetimes of values.

use ort_graph::{Graph, ValueId};
use smallvec::SmallVec;

use super::{Action, Selection, Step};

/// Values that are not needed after a step.
pub(super) type LastUses = SmallVec<[ValueId; 2]>;

/// For each value, the last step that reads it, directly or through an alias; `usize::MAX` for
/// outputs, `None` for unread values.
pub(super) fn last_reads(
    graph: &Graph,
    steps: &[Step],
    selection: &Selection,
) -> Vec<Option<usize>> {
    // bounded: by the nodes and values of the graph
    let mut last = vec![None; graph.value_ids().count()];
    for &output in selection.outputs() {
        last[output.index()] = Some(usize::MAX);
    }
    let is_of_input = aliases_of_inputs(graph, steps);
    for (i, step) in steps.iter().enumerate().rev().filter(|(i, _)| selection.needs(*i)) {
        for input in step.inputs.iter().flatten() {
            let last = &mut last[input.index()];
            *last = (*last).max(Some(i));
        }
        // An alias that is an output gets its own memory, unless it is an input of a body, which lives
        // as long.
        if let Some((source, alias)) = alias_of(step)
            && (!selection.outputs().contains(&alias) || is_of_input[source.index()])
        {
            last[source.index()] = last[source.index()].max(last[alias.index()]);
        }
    }
    last
}

/// For each value, whether it is an input of the graph or an alias of one.
fn aliases_of_inputs(graph: &Graph, steps: &[Step]) -> Vec<bool> {
    // bounded: by the nodes and values of the graph
    let mut is_of_input = vec![false; graph.value_ids().count()];
    graph.inputs().iter().for_each(|id| is_of_input[id.index()] = true);
    for (source, alias) in steps.iter().filter_map(alias_of) {
        is_of_input[alias.index()] = is_of_input[source.index()];
    }
    is_of_input
}

/// For each step, the values no longer needed after it; none for steps that do not run.
pub(super) fn last_uses(
    graph: &Graph,
    steps: &[Step],
    outputs: &[ValueId],
    is_needed: &[bool],
) -> Box<[LastUses]> {
    // bounded: by the nodes and values of the graph
    let mut seen = vec![false; graph.value_ids().count()];
    for output in outputs {
        seen[output.index()] = true;
    }
    // bounded: by the nodes and values of the graph
    let mut last_uses = vec![LastUses::new(); steps.len()];
    for (i, step) in steps.iter().enumerate().rev().filter(|(i, _)| is_needed[*i]) {
        for value in step.inputs.iter().chain(&step.outputs).flatten() {
            if !std::mem::replace(&mut seen[value.index()], true) {
                last_uses[i].push(*value);
            }
        }
    }
    last_uses.into()
}

/// The input and the output that share memory, if the step is an alias.
pub(super) fn alias_of(step: &Step) -> Option<(ValueId, ValueId)> {
    match &step.action {
        Action::Run { is_alias: true, .. } => {
            Some((step.inputs.first().copied()??, step.outputs.first().copied()??))
        }
        _ => None,
    }
}
