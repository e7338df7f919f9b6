//! What a session's memory is for.

use std::collections::HashSet;

use ort_graph::Graph;

use crate::packs::PackedConstant;
use crate::plan::Plan;
use crate::run_memory::RunMemory;

/// A session's memory by kind, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryReport {
    /// Constants that are slices of the model's bytes: shared with every process that maps it.
    pub weights_mapped: usize,
    /// Constants that had to be copied: not aligned for their type in the file, made by folding,
    /// or strings.
    pub weights_copied: usize,
    /// Constants as kernels want them, in memory of this session.
    pub packed: usize,
    /// The same as slices of the model's bytes.
    pub packed_mapped: usize,
    /// Memory of runs that are over, kept for runs to come.
    pub activations: usize,
}

impl MemoryReport {
    pub(crate) fn of(plan: &Plan, packs: &[PackedConstant], run_memory: &RunMemory) -> Self {
        let mut report = Self::default();
        for pack in packs {
            let sum = if pack.is_of_file { &mut report.packed_mapped } else { &mut report.packed };
            *sum += pack.packed.bytes().len();
        }
        let mut seen = HashSet::new();
        plan.visit(&mut |plan| {
            report.add_constants(&plan.graph, &mut seen);
            run_memory.visit_held(plan, &mut |block| report.activations += block.len());
        });
        report
    }

    /// Adds the constants of a graph, each stretch of memory once.
    fn add_constants(&mut self, graph: &Graph, seen: &mut HashSet<usize>) {
        for tensor in graph.value_ids().filter_map(|id| graph.constant(id)) {
            if !seen.insert(tensor.address()) {
                continue;
            }
            match tensor.is_shared() {
                true => self.weights_mapped += tensor.n_bytes(),
                false => self.weights_copied += tensor.n_bytes(),
            }
        }
    }
}
