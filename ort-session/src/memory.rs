//! What a session's memory is for.

use std::collections::HashSet;

use ort_graph::Graph;

use crate::plan::Plan;

/// A session's memory by kind, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryReport {
    /// Constants that are slices of the model's bytes: shared with every process that maps it.
    pub weights_mapped: usize,
    /// Constants that had to be copied: not aligned for their type in the file, made by folding,
    /// or strings.
    pub weights_copied: usize,
    /// Constants as kernels want them.
    pub packed: usize,
    /// Memory of runs that are over, kept for runs to come.
    pub activations: usize,
}

impl MemoryReport {
    pub(crate) fn of(plan: &Plan, packed: usize, activations: usize) -> Self {
        let mut report = Self { packed, activations, ..Self::default() };
        let mut seen = HashSet::new();
        plan.visit(&mut |plan| {
            report.add_constants(&plan.graph, &mut seen);
        });
        report
    }

    /// Adds the constants of a graph, each stretch of memory once.
    fn add_constants(&mut self, graph: &Graph, seen: &mut HashSet<usize>) {
        for tensor in graph.value_ids().filter_map(|id| graph.constant(id)) {
            let address = tensor.view().as_bytes().map_or(0, |bytes| bytes.as_ptr().addr());
            if address != 0 && !seen.insert(address) {
                continue;
            }
            match tensor.is_shared() {
                true => self.weights_mapped += tensor.n_bytes(),
                false => self.weights_copied += tensor.n_bytes(),
            }
        }
    }
}
