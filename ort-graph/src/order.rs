//! A topological order: every node after the nodes whose outputs it reads or captures.

// collects are bounded: as long as the graph's lists

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::graph::Graph;
use crate::ids::NodeId;

/// The nodes form a cycle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node `{node}` depends on its own output")]
pub struct CycleError {
    /// The name of one node of the cycle, or its operator if it has none.
    pub node: String,
}

/// Kahn's algorithm; among nodes that are ready, the one with the lowest id goes first, so that
/// the order depends on the graph alone.
pub(crate) fn topological(graph: &Graph) -> Result<Vec<NodeId>, CycleError> {
    let ids: Vec<NodeId> = graph.node_ids().collect();
    let n_slots = ids.last().map_or(0, |id| id.index() + 1);
    // bounded: by the nodes and values of the graph
    let mut missing = vec![0_usize; n_slots];
    for &id in &ids {
        let reads = graph.node(id).reads();
        missing[id.index()] = reads.filter(|&value| graph.producer(value).is_some()).count();
    }
    let is_ready = |id: &&NodeId| missing[id.index()] == 0;
    let mut ready: BinaryHeap<_> = ids.iter().filter(is_ready).copied().map(Reverse).collect();
    // bounded: by the nodes and values of the graph
    let mut order = Vec::with_capacity(ids.len());
    while let Some(Reverse(id)) = ready.pop() {
        order.push(id);
        for &output in graph.node(id).outputs.iter().flatten() {
            // `consumers` lists a node once for each time it reads the value.
            for &consumer in graph.consumers(output) {
                let missing = &mut missing[consumer.index()];
                *missing -= 1;
                if *missing == 0 {
                    ready.push(Reverse(consumer));
                }
            }
        }
    }
    match ids.iter().find(|id| missing[id.index()] != 0) {
        None => Ok(order),
        Some(&id) => Err(CycleError { node: graph.node(id).label().to_owned() }),
    }
}
