//! How many nodes of each operator a graph has.

// collects are bounded: by the operators of the registry

use std::collections::BTreeMap;

use ort_graph::Graph;

/// The number of nodes of each operator in a graph and its subgraphs, by domain and name.
#[derive(Debug, Default)]
pub(crate) struct OperatorCounts(pub(super) BTreeMap<(String, String), usize>);

impl OperatorCounts {
    pub(crate) fn of(graph: &Graph) -> Self {
        let mut counts = BTreeMap::new();
        count(graph, &mut counts);
        let owned = |((domain, name), n): ((&str, &str), usize)| ((domain.into(), name.into()), n);
        Self(counts.into_iter().map(owned).collect())
    }
}

fn count<'g>(graph: &'g Graph, counts: &mut BTreeMap<(&'g str, &'g str), usize>) {
    for node in graph.node_ids().map(|id| graph.node(id)) {
        *counts.entry((&node.domain, &node.op_type)).or_default() += 1;
        node.attrs.subgraphs().for_each(|subgraph| count(subgraph, counts));
    }
}
