//! Few bytes that expand to many: nested tables, and shared tables.

use flatbuffers::{FlatBufferBuilder, WIPOffset};
use ort_format::record::{
    Attribute, AttributeValue, File, Graph, SequenceType, TypeInfo, TypeInfoValue,
};
use ort_format::{FormatError, Limits, WriteError, open, write};

use crate::by_hand::{finish, slot};
use crate::models::{file, node, values};

fn nested_graphs(depth: usize) -> File<'static> {
    let mut graph = Graph::default();
    for _ in 0..depth {
        let mut node = node("", "If", 0, &[], &[]);
        node.attributes = vec![Attribute::new("g", AttributeValue::Graph(graph))];
        graph = Graph { nodes: vec![node], ..Graph::default() };
    }
    file(graph)
}

fn nested_sequences(depth: usize) -> File<'static> {
    let mut info = TypeInfo::default();
    for _ in 0..depth {
        let sequence = SequenceType { elem_type: Some(info) };
        info =
            TypeInfo { value: Some(TypeInfoValue::Sequence(Box::new(sequence))), denotation: None };
    }
    let mut node_args = values(&["x"]);
    node_args[0].type_info = Some(info);
    file(Graph { node_args, ..Graph::default() })
}

#[test]
fn nesting_has_a_limit() {
    for (model, limit) in [
        (nested_graphs(32), None),
        (nested_graphs(33), Some("subgraphs")),
        (nested_graphs(64), Some("depth")),
        (nested_sequences(60), None),
        (nested_sequences(64), Some("depth")),
    ] {
        let refused = match write(&model) {
            Ok(_) => None,
            Err(WriteError::Invalid(FormatError::Limit { limit })) => Some(limit),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(refused, limit);
    }
}

/// Graphs in `levels` levels, each with ten references to the one node whose attribute is the next level: 10^levels
/// graphs if every path is followed.
fn shared_graphs(levels: usize) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let name = builder.create_string("If");
    let mut graph = {
        let table = builder.start_table();
        builder.end_table(table)
    };
    for _ in 0..levels {
        let table = builder.start_table();
        builder.push_slot_always(slot(2), 5_i32);
        builder.push_slot_always(slot(7), graph);
        let attribute = builder.end_table(table);
        let attributes = builder.create_vector(&[attribute]);
        let table = builder.start_table();
        builder.push_slot_always(slot(5), name);
        builder.push_slot_always(slot(10), attributes);
        let node = builder.end_table(table);
        let nodes = builder.create_vector(&[node; 10]);
        let table = builder.start_table();
        builder.push_slot_always(slot(2), nodes);
        graph = builder.end_table(table);
    }
    finish(builder, graph, |_| {})
}

#[test]
fn visits_of_shared_tables_are_limited() {
    let bytes = shared_graphs(20);
    assert!(bytes.len() < 4096);
    let limits = Limits::default();
    let refused = |limits| open(&bytes, &limits).unwrap_err();
    assert_eq!(refused(limits), FormatError::Limit { limit: "apparent_ratio" });
    let limits = Limits { apparent_ratio: usize::MAX, tables: 1000, ..limits };
    assert_eq!(refused(limits), FormatError::Limit { limit: "tables" });
}

/// Nested graphs, all with one shared list of `names` initializers.
fn shared_names(names: usize, levels: usize) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let dims = builder.create_vector::<i64>(&[0]);
    let data = builder.create_vector::<u8>(&[]);
    let mut tensors = Vec::new();
    for index in 0..names {
        let name = builder.create_string(&format!("{index:04}"));
        let table = builder.start_table();
        builder.push_slot_always(slot(0), name);
        builder.push_slot_always(slot(2), dims);
        builder.push_slot_always(slot(3), 1_i32);
        builder.push_slot_always(slot(4), data);
        tensors.push(builder.end_table(table));
    }
    let tensors = builder.create_vector(&tensors);
    let op_type = builder.create_string("If");
    let mut inner = None;
    for _ in 0..levels {
        let nodes = inner.map(|graph: WIPOffset<_>| {
            let table = builder.start_table();
            builder.push_slot_always(slot(2), 5_i32);
            builder.push_slot_always(slot(7), graph);
            let attribute = builder.end_table(table);
            let attributes = builder.create_vector(&[attribute]);
            let table = builder.start_table();
            builder.push_slot_always(slot(5), op_type);
            builder.push_slot_always(slot(10), attributes);
            let node = builder.end_table(table);
            builder.create_vector(&[node])
        });
        let table = builder.start_table();
        builder.push_slot_always(slot(0), tensors);
        if let Some(nodes) = nodes {
            builder.push_slot_always(slot(2), nodes);
            builder.push_slot_always(slot(3), 1_u32);
        }
        inner = Some(builder.end_table(table));
    }
    finish(builder, inner.unwrap(), |_| {})
}

#[test]
fn graphs_that_share_names_hold_no_more_than_a_file_can_have() {
    assert!(open(&shared_names(1000, 2), &Limits::default()).is_ok());
    let limits = Limits { apparent_ratio: 1000, ..Limits::default() };
    let error = open(&shared_names(1000, 20), &limits).unwrap_err();
    assert!(
        error.to_string().ends_with("it names more values than a file of its length can define"),
        "{error}"
    );
}
