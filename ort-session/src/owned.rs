//! A model that borrows nothing: texts are copied, elements stay where they are.

// collects are bounded: as long as the file's lists

use ort_graph::parsed::{Attr, Contents, Graph, Model, Node, SparseTensor, Tensor, Text, Value};

/// The same model without borrowed texts, and without packed forms of constants, which are of one file and its settings.
pub(crate) fn owned(model: Model<'_>) -> Model<'static> {
    Model { info: model.info, graph: graph(model.graph) }
}

fn text(text: Text<'_>) -> Text<'static> {
    text.into_owned().into()
}

fn texts(texts: Vec<Text<'_>>) -> Vec<Text<'static>> {
    texts.into_iter().map(text).collect()
}

fn graph(of: Graph<'_>) -> Graph<'static> {
    Graph {
        values: of.values.into_iter().map(value).collect(),
        inputs: texts(of.inputs),
        outputs: texts(of.outputs),
        initializers: of.initializers.into_iter().map(tensor).collect(),
        sparse_initializers: of.sparse_initializers.into_iter().map(sparse).collect(),
        forms: Vec::new(),
        nodes: of.nodes.into_iter().map(node).collect(),
    }
}

fn value(of: Value<'_>) -> Value<'static> {
    Value { name: text(of.name), ty: of.ty, denotations: texts(of.denotations) }
}

fn tensor(of: Tensor<'_>) -> Tensor<'static> {
    let contents = match of.contents {
        Contents::Bytes(bytes) => Contents::Bytes(bytes),
        Contents::Strings(strings) => Contents::Strings(texts(strings)),
        Contents::Released => Contents::Released,
        Contents::Given(elements) => Contents::Given(elements),
    };
    Tensor { name: text(of.name), dtype: of.dtype, shape: of.shape, contents }
}

fn sparse(of: SparseTensor<'_>) -> SparseTensor<'static> {
    SparseTensor { values: tensor(of.values), indices: tensor(of.indices), shape: of.shape }
}

fn node(of: Node<'_>) -> Node<'static> {
    let attributes = of.attributes.into_iter();
    Node {
        name: text(of.name),
        domain: text(of.domain),
        op_type: text(of.op_type),
        since_version: of.since_version,
        inputs: texts(of.inputs),
        outputs: texts(of.outputs),
        attributes: attributes.map(|(name, it)| (text(name), attr(it))).collect(),
    }
}

fn attr(of: Attr<'_>) -> Attr<'static> {
    match of {
        Attr::Float(value) => Attr::Float(value),
        Attr::Int(value) => Attr::Int(value),
        Attr::String(value) => Attr::String(text(value)),
        Attr::Tensor(value) => Attr::Tensor(tensor(value)),
        Attr::SparseTensor(value) => Attr::SparseTensor(sparse(value)),
        Attr::Graph(value) => Attr::Graph(graph(value)),
        Attr::Type(value) => Attr::Type(value),
        Attr::Floats(values) => Attr::Floats(values),
        Attr::Ints(values) => Attr::Ints(values),
        Attr::Strings(values) => Attr::Strings(texts(values)),
        Attr::Tensors(values) => Attr::Tensors(values.into_iter().map(tensor).collect()),
        Attr::Graphs(values) => Attr::Graphs(values.into_iter().map(graph).collect()),
        Attr::Unknown => Attr::Unknown,
    }
}
