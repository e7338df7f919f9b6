//! The memory of an inlined call, computed in advance: names and attributes of the calling node may be
//! much longer than their references in the function.

use prost::Message;

use crate::schema::{AttributeProto, FunctionProto, GraphProto, NodeProto};

/// A lower bound of the size of `function`'s body with the names and attributes of `node`.
pub(super) fn of_call(node: &NodeProto, function: &FunctionProto) -> usize {
    let names = node.input.iter().chain(&node.output).chain([&node.name, &node.op_type]);
    let longest = names.map(String::len).max().unwrap_or(0);
    let names = of_names(&function.node).saturating_mul(longest);
    let attributes = Given { node, function }.attributes(&function.node);
    function.encoded_len().saturating_add(names).saturating_add(attributes)
}

/// The number of names in nodes.
fn of_names(nodes: &[NodeProto]) -> usize {
    let of_graph = |graph: &GraphProto| {
        let n_values = graph.input.len() + graph.output.len() + graph.value_info.len();
        let n_tensors = graph.initializer.len() + graph.sparse_initializer.len();
        n_values + n_tensors + of_names(&graph.node)
    };
    let of_node = |node: &NodeProto| {
        1 + node.input.len() + node.output.len() + graphs(node).map(of_graph).sum::<usize>()
    };
    nodes.iter().map(of_node).sum()
}

fn graphs(node: &NodeProto) -> impl Iterator<Item = &GraphProto> {
    node.attribute
        .iter()
        .flat_map(|attribute| attribute.g.iter().map(|graph| &**graph).chain(&attribute.graphs))
}

/// A call, with the attributes that it passes.
struct Given<'f> {
    node: &'f NodeProto,
    function: &'f FunctionProto,
}

impl Given<'_> {
    /// The size of the attributes that nodes refer to.
    fn attributes(&self, nodes: &[NodeProto]) -> usize {
        let of_node = |node: &NodeProto| {
            let own = node.attribute.iter().map(|attribute| self.attribute(attribute));
            let inner = graphs(node).map(|graph| self.attributes(&graph.node));
            own.chain(inner).fold(0, usize::saturating_add)
        };
        nodes.iter().map(of_node).fold(0, usize::saturating_add)
    }

    fn attribute(&self, attribute: &AttributeProto) -> usize {
        let is_it = |it: &&AttributeProto| {
            !attribute.ref_attr_name.is_empty() && it.name == attribute.ref_attr_name
        };
        let defaults = &self.function.attribute_proto;
        let given = self.node.attribute.iter().find(is_it).or_else(|| defaults.iter().find(is_it));
        given.map_or(0, copied)
    }
}

/// The size of a copy: those of strings and raw elements are shared.
fn copied(attribute: &AttributeProto) -> usize {
    let raw = attribute.t.as_ref().and_then(|tensor| tensor.raw_data.as_ref());
    let shared = raw.into_iter().chain(&attribute.s).chain(&attribute.strings);
    attribute.encoded_len().saturating_sub(shared.map(bytes::Bytes::len).sum())
}
