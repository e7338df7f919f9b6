//! What the writer works out from a record instead of trusting it.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::edge::EdgeEnd;
use crate::put::Dropped;
use crate::record::{File, Graph, Node, NodeEdge};
pub(crate) use crate::type_info::record::value_type;

/// The version a file claims: 6 if its resolver covers every node, else 4.
///
/// ONNX Runtime (1.31) takes the resolver of a file of version 5 or later at its word, and fails where an operator is
/// missing from it; for an earlier version it derives the resolver from its own operator schemas, whatever the file
/// holds. All versions lay out their tables alike. A minimal build has no schemas: it loads version 5 and later only.
pub(crate) fn written_version(file: &File<'_>) -> Option<Cow<'static, str>> {
    let resolver = file.kernel_type_str_resolver.as_ref();
    let entries = resolver.map_or(&[][..], |resolver| &resolver.op_kernel_type_str_args);
    let known: HashSet<&str> = entries.iter().map(|entry| &*entry.op_id).collect();
    Some(if covers(&known, &file.model.graph) { "6" } else { "4" }.into())
}

fn covers(known: &HashSet<&str>, graph: &Graph<'_>) -> bool {
    graph.nodes.iter().all(|node| {
        let Node { domain, op_type, since_version, .. } = node;
        known.contains(&*format!("{domain}:{op_type}:{since_version}"))
            && node.attributes.iter().all(|attribute| {
                let several = attribute.graphs.iter().flatten();
                several.chain(&attribute.g).all(|graph| covers(known, graph))
            })
    })
}

/// One more than the highest index of a node.
pub(crate) fn node_slots(graph: &Graph<'_>) -> u32 {
    graph.nodes.iter().map(|node| node.index.saturating_add(1)).max().unwrap_or(0)
}

/// Edges between nodes, from names. Builds of ONNX Runtime without operator schemas trust them.
pub(crate) fn node_edges(graph: &Graph<'_>) -> Vec<NodeEdge> {
    let mut producers = HashMap::new();
    for (position, node) in graph.nodes.iter().enumerate() {
        for (argument, name) in (0..).zip(&node.outputs).filter(|(_, name)| !name.is_empty()) {
            producers.insert(&**name, (position, argument));
        }
    }
    let indices = graph.nodes.iter().map(|node| node.index);
    let mut edges: Vec<NodeEdge> =
        indices.map(|node_index| NodeEdge { node_index, ..NodeEdge::default() }).collect();
    for (position, node) in graph.nodes.iter().enumerate() {
        for (dst_arg_index, name) in (0..).zip(node.inputs.iter().chain(&node.implicit_inputs)) {
            let Some(&(producer, src_arg_index)) = producers.get(&**name) else { continue };
            let end = |node_index| EdgeEnd { node_index, src_arg_index, dst_arg_index };
            edges[position].input_edges.push(end(graph.nodes[producer].index));
            edges[producer].output_edges.push(end(node.index));
        }
    }
    for edge in &mut edges {
        edge.input_edges.sort_unstable();
        edge.output_edges.sort_unstable();
    }
    edges
}

/// Nothing, for what a file of today does not hold.
pub(crate) fn dropped<R>(_: &R) -> Dropped {
    Dropped
}
