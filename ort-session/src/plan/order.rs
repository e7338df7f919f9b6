//! A step that turns an input into its output comes after other readers of that input.
//!
//! ```text
//! all = Concat(states, new)              scores = MatMul(new, statesᵀ)
//! scores = MatMul(new, statesᵀ)    ►     all = Concat(states, new)
//! ```
//! On the left Concat copies states that are still read; on the right it appends to them in place.

// collects are bounded: as long as the graph's lists

use ort_graph::{Graph, ValueId};

use super::{Action, Step};

/// Moves steps that may take an input of the graph after the last reader of it, unless an earlier step needs
/// their outputs.
pub(super) fn takers_last(graph: &Graph, steps: Vec<Step>) -> Vec<Step> {
    let reads = Reads::of(graph, &steps);
    // bounded: by the nodes and values of the graph
    let mut is_input = vec![false; graph.value_ids().count()];
    graph.inputs().iter().for_each(|id| is_input[id.index()] = true);
    let place = |(i, step): (usize, &Step)| {
        let taken = taken(step).filter(|id| is_input[id.index()]);
        taken.filter_map(|id| reads.move_to(i, step, id)).max().map_or((i, false), |i| (i, true))
    };
    let places: Vec<_> = steps.iter().enumerate().map(place).collect();
    let mut steps: Vec<_> = places.into_iter().zip(steps).collect();
    // Stable: steps that move to the same position keep their order.
    steps.sort_by_key(|&(place, _)| place);
    steps.into_iter().map(|(_, step)| step).collect()
}

/// The inputs that a step may turn into an output.
fn taken(step: &Step) -> impl Iterator<Item = ValueId> {
    let pairs = match &step.action {
        Action::Run { kernel, .. } => kernel.takes(),
        _ => &[],
    };
    pairs.iter().filter_map(|&(input, _)| step.inputs.get(input).copied().flatten())
}

/// The first and the last step that reads each value.
struct Reads(Vec<Option<(usize, usize)>>);

impl Reads {
    fn of(graph: &Graph, steps: &[Step]) -> Self {
        // bounded: by the nodes and values of the graph
        let mut reads = vec![None; graph.value_ids().count()];
        for (i, step) in steps.iter().enumerate() {
            for id in step.inputs.iter().flatten() {
                let (first, _) = reads[id.index()].unwrap_or((i, i));
                reads[id.index()] = Some((first, i));
            }
        }
        Self(reads)
    }

    /// The step after which step `i` is the only remaining reader of a value; `None` if it is already the last,
    /// or its outputs are needed earlier.
    fn move_to(&self, i: usize, step: &Step, id: ValueId) -> Option<usize> {
        let (_, last) = self.0[id.index()]?;
        let first_reads = step.outputs.iter().flatten().filter_map(|id| self.0[id.index()]);
        let is_needed = { first_reads }.any(|(first, _)| first <= last);
        (last > i && !is_needed).then_some(last)
    }
}
