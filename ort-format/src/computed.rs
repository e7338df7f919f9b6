//! Fields that the writer computes from a record.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::edge::EdgeEnd;
use crate::put::Dropped;
use crate::record::{File, Graph, Node, NodeEdge};
pub(crate) use crate::type_info::record::value_type;

/// The version written to a file: 6 if it holds a resolver, else 4.
///
/// ONNX Runtime (1.31) uses a resolver if there is one, whatever the version, and fails on a node that is missing from it;
/// without one it also fails from version 5 on, and before that derives one from its operator schemas. All versions
/// have the same table layout. A build without schemas only loads version 5 and later, so it cannot load a model
/// whose operators changed.
pub(crate) fn written_version(file: &File<'_>) -> Cow<'static, str> {
    if resolver_covers_nodes(file) { "6" } else { "4" }.into()
}

/// Whether the resolver can be written: it must cover the operator of every node.
pub(crate) fn resolver_covers_nodes(file: &File<'_>) -> bool {
    file.kernel_type_str_resolver.as_ref().is_some_and(|resolver| {
        let entries = &resolver.op_kernel_type_str_args;
        covers(&entries.iter().map(|entry| &*entry.op_id).collect(), &file.model.graph)
    })
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

/// Edges between nodes, from names. ONNX Runtime builds without operator schemas rely on them.
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

/// No value, for fields that current files do not have.
pub(crate) fn dropped<R>(_: &R) -> Dropped {
    Dropped
}
