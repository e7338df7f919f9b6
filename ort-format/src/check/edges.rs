//! Node indices, and the hints that use them: ONNX Runtime rejects indices that are out of range, and ignores the rest.

use ort_tensor::{Room, sort};

use super::path::Path;
use super::scope::LOOK_UP;
use super::{Checker, each};
use crate::error::{Fault, FormatError};
use crate::view::Graph;

impl Checker<'_> {
    pub(super) fn indices(&mut self, graph: Graph<'_>, path: &Path<'_>) -> Result<(), FormatError> {
        let mut indices = Room::of(graph.nodes().iter().map(|node| node.index()))?;
        sort(&mut indices, &Ord::cmp)?;
        if let Some(pair) = indices.windows(2).find(|pair| pair[0] == pair[1]) {
            return path.fail(Fault::DuplicateIndex { index: pair[0] });
        }
        let found = graph.max_node_index();
        if let Some(&index) = indices.last().filter(|&&index| index >= found) {
            return path.fail(Fault::NodeSlots { found, index });
        }
        each(path, "node_edges", graph.node_edges())?;
        for (position, edge) in graph.node_edges().iter().enumerate() {
            let ends = edge.input_edges().iter().chain(edge.output_edges());
            for index in ends.map(|end| end.node_index).chain([edge.node_index()]) {
                self.pace.go(LOOK_UP)?;
                if indices.binary_search(&index).is_err() {
                    return path.item("node_edges", position, "").fail(Fault::NoNode { index });
                }
            }
        }
        Ok(())
    }

    /// Indices here may refer to removed nodes: only checks that the tables can be read.
    pub(super) fn runtime_optimizations(
        &self,
        graph: Graph<'_>,
        path: &Path<'_>,
    ) -> Result<(), FormatError> {
        let containers = graph.runtime_optimizations().unwrap_or_default().records();
        each(path, "runtime_optimizations", containers)?;
        for (index, container) in containers.iter().enumerate() {
            let path = path.item("runtime_optimizations", index, container.optimizer_name());
            let records = container.runtime_optimization_records();
            each(&path, "records", records)?;
            records
                .iter()
                .try_for_each(|record| each(&path, "produced_op_ids", record.produced_op_ids()))?;
        }
        Ok(())
    }
}
