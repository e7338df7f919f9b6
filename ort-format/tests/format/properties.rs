//! Random valid models.

use std::collections::BTreeMap;

use ort_format::record::{
    Attribute, AttributeValue, File, Graph, Node, StringStringEntry, Tensor, ValueInfo,
};
use ort_format::{DataType, Limits, open, write};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use crate::models::{self, Text, bytes};

fn text() -> impl Strategy<Value = Text> {
    "\\PC{0,12}".prop_map(Text::from)
}

fn tensor() -> impl Strategy<Value = Tensor<'static>> {
    let numbers = (vec(0_i64..4, 0..4), 1..27_i32).prop_map(|(dims, kind)| {
        let kind = DataType::from(kind);
        let count: i64 = dims.iter().product();
        let bits = u64::try_from(count).unwrap() * kind.bits().unwrap_or(8);
        let data = vec![0xa5; usize::try_from(bits.div_ceil(8)).unwrap()];
        bytes("", &dims, if kind == DataType::String { DataType::Bool } else { kind }, data)
    });
    let strings = vec(text(), 0..4).prop_map(|strings| Tensor {
        dims: Vec::from([i64::try_from(strings.len()).unwrap()]),
        data_type: DataType::String,
        string_data: Some(strings),
        ..Tensor::default()
    });
    prop_oneof![numbers, strings]
}

fn attribute(inner: BoxedStrategy<Graph<'static>>) -> impl Strategy<Value = Attribute<'static>> {
    let value = prop_oneof![
        proptest::num::f32::NORMAL.prop_map(AttributeValue::Float),
        any::<i64>().prop_map(AttributeValue::Int),
        text().prop_map(AttributeValue::String),
        tensor().prop_map(AttributeValue::Tensor),
        vec(proptest::num::f32::NORMAL, 0..4).prop_map(AttributeValue::Floats),
        vec(any::<i64>(), 0..4).prop_map(AttributeValue::Ints),
        vec(text(), 0..4).prop_map(AttributeValue::Strings),
        vec(tensor(), 0..3).prop_map(AttributeValue::Tensors),
        inner.clone().prop_map(AttributeValue::Graph),
        vec(inner, 0..2).prop_map(AttributeValue::Graphs),
    ];
    (text(), option::of(text()), value).prop_map(|(name, doc_string, value)| Attribute {
        doc_string,
        ..Attribute::new(name, value)
    })
}

/// Nodes that read earlier values, including absent inputs, and are listed from the last to the first.
fn graph(depth: u32) -> BoxedStrategy<Graph<'static>> {
    let inner = if depth == 0 { Just(Graph::default()).boxed() } else { graph(depth - 1) };
    let node = (text(), vec(any::<prop::sample::Index>(), 0..4), vec(attribute(inner), 0..3));
    let initializers = btree_map("[a-z]{1,8}", tensor(), 0..4);
    (initializers, vec(node, 0..4), option::of(text()))
        .prop_map(move |(initializers, nodes, doc)| assemble(depth, initializers, nodes, doc))
        .boxed()
}

type NodeParts = (Text, Vec<prop::sample::Index>, Vec<Attribute<'static>>);

fn assemble(
    depth: u32,
    initializers: BTreeMap<String, Tensor<'static>>,
    nodes: Vec<NodeParts>,
    doc_string: Option<Text>,
) -> Graph<'static> {
    let mut names: Vec<Text> = vec!["".into(), format!("input {depth}").into()];
    names.extend(initializers.keys().map(|name| Text::from(name.clone())));
    let mut graph = Graph {
        inputs: vec![names[1].clone()],
        initializers: initializers
            .into_iter()
            .map(|(name, tensor)| Tensor { name: name.into(), ..tensor })
            .collect(),
        ..Graph::default()
    };
    for (index, (name, inputs, attributes)) in (0..).zip(nodes) {
        let inputs: Vec<Text> = inputs.iter().map(|index| index.get(&names).clone()).collect();
        let output = Text::from(format!("value {depth} {index}"));
        graph.nodes.push(Node {
            name,
            index: 3 * index,
            input_arg_counts: vec![1; inputs.len()],
            inputs,
            outputs: vec![output.clone(), "".into()],
            attributes,
            ..models::node("", "Op", 0, &[], &[])
        });
        names.push(output);
    }
    graph.nodes.reverse();
    graph.outputs = vec![names[names.len() - 1].clone()];
    graph.node_args = names
        .into_iter()
        .map(|name| ValueInfo { name, doc_string: doc_string.clone(), type_info: None })
        .collect();
    graph
}

fn file() -> impl Strategy<Value = File<'static>> {
    let metadata = vec((text(), text()), 0..3);
    (graph(2), metadata, any::<i64>(), option::of(text())).prop_map(
        |(graph, metadata, version, doc)| {
            let mut file = models::file(graph);
            file.model.model_version = version;
            file.model.doc_string = doc;
            file.model.metadata_props =
                metadata.into_iter().map(|(key, value)| StringStringEntry { key, value }).collect();
            file
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn any_model_reads_as_it_was_written(record in file()) {
        let bytes = write(&record).unwrap();
        let read = open(&bytes, &Limits::default()).unwrap().to_record();
        prop_assert_eq!(&read, &record);
        prop_assert_eq!(write(&read).unwrap(), bytes);
    }
}
