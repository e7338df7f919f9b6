//! Sets of requested outputs, and the steps that compute them.

use std::sync::{Arc, PoisonError, RwLock};

use ort_graph::{Graph, ValueId};

use super::liveness::{LastUses, last_uses};
use super::signatures::Layouts;
use super::{Plan, Step};

/// The number of selections that a plan caches, besides all of its outputs.
const MAX_SELECTIONS: usize = 8;

/// Outputs of a plan, and the part of it that computes them.
#[derive(Debug)]
pub(crate) struct Selection {
    /// In ascending order, without duplicates.
    outputs: Box<[ValueId]>,
    /// By step.
    is_needed: Box<[bool]>,
    /// By step.
    last_uses: Box<[LastUses]>,
    /// Layouts for recent signatures of input shapes.
    pub(super) layouts: Layouts,
}

/// Recent selections; the oldest is replaced by a new one.
#[derive(Debug, Default)]
pub(super) struct Selections(RwLock<Vec<Arc<Selection>>>);

impl Selection {
    pub(super) fn new(graph: &Graph, steps: &[Step], outputs: &[ValueId]) -> Self {
        let outputs = in_order(outputs);
        // bounded: by the nodes and values of the graph
        let mut is_wanted = vec![false; graph.value_ids().count()];
        outputs.iter().for_each(|output| is_wanted[output.index()] = true);
        // bounded: by the nodes and values of the graph
        let mut is_needed = vec![false; steps.len()];
        for (i, step) in steps.iter().enumerate().rev() {
            is_needed[i] = step.outputs.iter().flatten().any(|id| is_wanted[id.index()]);
            if is_needed[i] {
                step.inputs.iter().flatten().for_each(|id| is_wanted[id.index()] = true);
            }
        }
        Self {
            last_uses: last_uses(graph, steps, &outputs, &is_needed),
            outputs: outputs.into(),
            is_needed: is_needed.into(),
            layouts: Layouts::new(),
        }
    }

    pub(super) fn outputs(&self) -> &[ValueId] {
        &self.outputs
    }

    /// Whether step `i` runs.
    pub(super) fn needs(&self, i: usize) -> bool {
        self.is_needed[i]
    }

    /// The values no longer needed after step `i`.
    pub(super) fn last_uses(&self, i: usize) -> &[ValueId] {
        &self.last_uses[i]
    }
}

impl Plan {
    /// The selection of these outputs, computed once and cached.
    pub(crate) fn select(&self, outputs: &[ValueId]) -> Arc<Selection> {
        let outputs = in_order(outputs);
        let is_same = |selection: &&Arc<Selection>| *selection.outputs == *outputs;
        let known = self.chosen.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(selection) = known.iter().find(is_same) {
            return selection.clone();
        }
        drop(known);
        let selection = Arc::new(Selection::new(&self.graph, &self.steps, &outputs));
        let mut known = self.chosen.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(faster) = known.iter().find(is_same) {
            return faster.clone();
        }
        if known.len() >= MAX_SELECTIONS {
            known.remove(0);
        }
        known.push(selection.clone());
        selection
    }

    /// Calls `visit` with every cached selection, all outputs first.
    pub(super) fn visit_selections(&self, visit: &mut dyn FnMut(&Selection)) {
        visit(&self.whole);
        let known = self.chosen.0.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().for_each(|selection| visit(selection));
    }
}

fn in_order(outputs: &[ValueId]) -> Vec<ValueId> {
    let mut outputs = outputs.to_vec();
    outputs.sort_unstable();
    outputs.dedup();
    outputs
}
