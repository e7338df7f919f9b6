//! The nodes of a file in an order in which they can be imported.

// collects are bounded: as long as the file's lists

use std::collections::{BinaryHeap, HashMap, HashSet};

use super::error::ImportError;
use crate::order::CycleError;
use crate::parsed::{Graph, Node};

/// A topological order by names: each node comes after those whose outputs it or its subgraphs read; among nodes that
/// are ready, the first in the file comes first.
pub(super) fn order(nodes: &[Node<'_>]) -> Result<Vec<usize>, ImportError> {
    let mut makers: HashMap<&str, usize> = HashMap::new();
    for (i, node) in nodes.iter().enumerate() {
        let made = node.outputs.iter().filter(|name| !name.is_empty());
        makers.extend(made.map(|name| (&**name, i)));
    }
    // bounded: by the nodes and values of the graph
    let mut missing = vec![0_usize; nodes.len()];
    // bounded: by the nodes and values of the graph
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (i, node) in nodes.iter().enumerate() {
        let captured = node.subgraphs().flat_map(captured);
        for name in node.inputs.iter().map(|name| &**name).chain(captured) {
            if let Some(&maker) = makers.get(name) {
                missing[i] += 1;
                readers[maker].push(i);
            }
        }
    }
    let mut ready: BinaryHeap<_> =
        (0..nodes.len()).filter(|&i| missing[i] == 0).map(std::cmp::Reverse).collect();
    // bounded: by the nodes and values of the graph
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(std::cmp::Reverse(i)) = ready.pop() {
        order.push(i);
        for &reader in &readers[i] {
            missing[reader] -= 1;
            if missing[reader] == 0 {
                ready.push(std::cmp::Reverse(reader));
            }
        }
    }
    match missing.iter().position(|&missing| missing != 0) {
        None => Ok(order),
        Some(i) => Err(CycleError { node: nodes[i].label().to_owned() }.into()),
    }
}

/// The names that a graph reads and does not define.
fn captured<'g>(graph: &'g Graph<'_>) -> HashSet<&'g str> {
    let mut names: HashSet<&str> = graph.outputs.iter().map(|name| &**name).collect();
    for node in &graph.nodes {
        names.extend(node.inputs.iter().map(|name| &**name));
        node.subgraphs().for_each(|graph| names.extend(captured(graph)));
    }
    let made = graph.nodes.iter().flat_map(|node| &node.outputs);
    for name in graph.inputs.iter().chain(made) {
        names.remove(&**name);
    }
    for tensor in graph.constants() {
        names.remove(&*tensor.name);
    }
    names
}
