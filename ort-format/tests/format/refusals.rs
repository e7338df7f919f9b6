//! Each defect that `open` rejects, in an otherwise valid model. `write` opens its result.

use ort_format::record::{File, Graph, SequenceType, TypeInfo, TypeInfoValue, ValueInfo};
use ort_format::{
    AttributeType, DataType, Limits, NodeType, Oddity, open, open_with_warnings, write,
};

use crate::models::{self, attributes, branches, bytes, constants, conv_relu, hints, texts, types};

/// A model, a change that breaks it, and the expected message.
type Case = (fn() -> File<'static>, fn(&mut Graph<'static>), &'static str);

fn check(cases: &[Case]) {
    for (model, change, expected) in cases {
        let mut file = model();
        change(&mut file.model.graph);
        let actual = write(&file).map_or_else(|error| error.to_string(), |_| "nothing".to_owned());
        assert_eq!(actual, format!("the file would not be valid: {expected}"));
    }
}

#[test]
fn names_must_be_defined() {
    check(&[
        (conv_relu, |g| g.inputs = texts(&["x", "z"]), r#"graph: input "z" names no value"#),
        (conv_relu, |g| g.outputs = texts(&["z"]), r#"graph: output "z" names no value"#),
        (
            conv_relu,
            |g| g.nodes[1].inputs[1] = "z".into(),
            r#"graph.nodes[1] "conv": input "z" names no value"#,
        ),
        (
            branches,
            |g| g.nodes[1].implicit_inputs = texts(&["then"]),
            r#"graph.nodes[1] "choose": implicit input "then" names no value"#,
        ),
        (
            branches,
            |g| g.nodes[1].attributes[1].g.as_mut().unwrap().nodes[0].inputs = texts(&["then"]),
            r#"graph.nodes[1] "choose".attributes[1] "else_branch".g.nodes[0]: input "then" names no value"#,
        ),
    ]);
}

#[test]
fn names_are_defined_once() {
    check(&[
        (conv_relu, |g| g.inputs = texts(&["x", "x"]), r#"graph: input "x" occurs twice"#),
        (
            conv_relu,
            |g| g.node_args[1] = g.node_args[0].clone(),
            r#"graph: value "x" occurs twice"#,
        ),
        (
            conv_relu,
            |g| g.nodes[0].outputs = texts(&["conv"]),
            r#"graph: output "conv" occurs twice"#,
        ),
        (conv_relu, |g| g.nodes[0].outputs = texts(&["w"]), r#"graph: output "w" occurs twice"#),
    ]);
}

#[test]
fn nodes_are_complete() {
    check(&[
        (
            conv_relu,
            |g| g.nodes[1].op_type = "".into(),
            r#"graph.nodes[1] "conv": it has no operator"#,
        ),
        (conv_relu, |g| g.nodes[0].index = 2, "graph: node index 2 occurs twice"),
        (
            conv_relu,
            |g| g.nodes[0].index = u32::MAX,
            "graph: max_node_index is 4294967295, but there is a node 4294967295",
        ),
        (
            conv_relu,
            |g| g.nodes[1].input_arg_counts = vec![1, -1],
            r#"graph.nodes[1] "conv": input_arg_counts add up to 0, but there are 2 inputs"#,
        ),
        (
            conv_relu,
            |g| g.nodes[1].attributes[0].attribute_type = AttributeType::Tensor,
            r#"graph.nodes[1] "conv".attributes[0] "pads": its type is Tensor, but it has no such value"#,
        ),
        (
            attributes,
            |g| g.nodes[0].attributes[9].graphs.as_mut().unwrap()[1].outputs = texts(&["z"]),
            r#"graph.nodes[0] "everything".attributes[9] "a9".graphs[1]: output "z" names no value"#,
        ),
    ]);
}

#[test]
fn the_data_of_constants_has_the_size_of_their_shape() {
    check(&[
        (
            conv_relu,
            |g| g.initializers[0].dims[0] = 2,
            r#"graph.initializers[0] "w": raw_data has 36 bytes, the shape requires 72"#,
        ),
        (
            conv_relu,
            |g| g.initializers[0].dims[3] = -3,
            r#"graph.initializers[0] "w": dimension 3 is -3"#,
        ),
        (
            conv_relu,
            |g| g.initializers[0].dims = vec![i64::MAX, 4, 0],
            r#"graph.initializers[0] "w": the number of elements overflows"#,
        ),
        (
            conv_relu,
            |g| g.initializers[0].dims = vec![1 << 62],
            r#"graph.initializers[0] "w": the number of elements overflows"#,
        ),
        (
            conv_relu,
            |g| g.initializers[0].data_type = DataType::Other(99),
            r#"graph.initializers[0] "w": data type Other(99) is not allowed for a constant"#,
        ),
        (
            conv_relu,
            |g| g.initializers[0].raw_data = None,
            r#"graph.initializers[0] "w": no raw_data"#,
        ),
        (
            conv_relu,
            |g| g.initializers[0] = bytes("w", &[5], DataType::Int4, vec![0; 2]),
            r#"graph.initializers[0] "w": raw_data has 2 bytes, the shape requires 3"#,
        ),
        (
            conv_relu,
            |g| g.initializers[0] = bytes("w", &[5], DataType::Uint2, vec![0; 3]),
            r#"graph.initializers[0] "w": raw_data has 3 bytes, the shape requires 2"#,
        ),
        (
            constants,
            |g| g.initializers.last_mut().unwrap().dims = vec![3],
            r#"graph.initializers[27] "texts": string_data has 2 strings, the shape requires 3"#,
        ),
        (
            attributes,
            |g| g.nodes[0].attributes[8].tensors.as_mut().unwrap()[1].dims = vec![],
            r#"graph.nodes[0] "everything".attributes[8] "a8".tensors[1]: raw_data has 0 bytes, the shape requires 4"#,
        ),
    ]);
}

#[test]
fn sparse_indices_are_in_range() {
    check(&[
        (
            constants,
            |g| g.sparse_initializers[0].dims = vec![5],
            r#"graph.sparse_initializers[0] "a": index 5 is outside a size of 5"#,
        ),
        (
            constants,
            |g| g.sparse_initializers[1].dims = vec![6, 2],
            r#"graph.sparse_initializers[1] "b": index 2 is outside a size of 2"#,
        ),
        (
            constants,
            |g| g.sparse_initializers[1].dims = vec![2, 3, 1],
            r#"graph.sparse_initializers[1] "b": indices of shape [1, 2] do not fit values of shape [1] at rank 3"#,
        ),
        (
            constants,
            |g| g.sparse_initializers[0].indices.data_type = DataType::Uint64,
            r#"graph.sparse_initializers[0] "a".indices: data type Uint64 is not allowed for a constant"#,
        ),
        (
            constants,
            |g| g.sparse_initializers[0].dims = vec![i64::MAX, 2],
            r#"graph.sparse_initializers[0] "a": the number of elements overflows"#,
        ),
    ]);
}

#[test]
fn sequences_have_elements() {
    check(&[(
        types,
        |g| {
            let value = Some(TypeInfoValue::Sequence(Box::new(SequenceType { elem_type: None })));
            g.node_args[0].type_info = Some(TypeInfo { denotation: None, value });
        },
        r#"graph.node_args[0] "symbol": no element type"#,
    )]);
}

#[test]
fn names_in_messages_are_cut_short() {
    let mut file = conv_relu();
    file.model.graph.outputs = vec!["ä".repeat(1000).into()];
    let message = write(&file).unwrap_err().to_string();
    assert_eq!(message.matches('ä').count(), 80);
}

#[test]
fn a_null_entry_is_refused_in_every_vector() {
    let mut found = std::collections::BTreeSet::new();
    for (_, record) in models::all() {
        let file = write(&record).unwrap();
        for at in (8..file.len()).step_by(4) {
            let mut file = file.clone();
            file[at..at + 4].fill(0);
            if let Err(error) = open(&file, &Limits::default()) {
                let message = error.to_string();
                if let Some(field) = message.strip_suffix("] is null") {
                    let field = field.split(": ").last().unwrap_or_default();
                    found.insert(
                        field.trim_end_matches(|c: char| c.is_ascii_digit() || c == '[').to_owned(),
                    );
                }
            }
        }
    }
    // Not all vectors of strings: a null string reads as the word 0 and the following bytes, which are rarely terminated.
    let expected = [
        "args",
        "attributes",
        "constraints",
        "dim",
        "graphs",
        "initializers",
        "metadata_props",
        "node_args",
        "node_edges",
        "nodes",
        "operators",
        "opset_import",
        "outputs",
        "records",
        "runtime_optimizations",
        "sparse_initializers",
        "tensors",
    ];
    assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn edges_to_missing_nodes_are_refused() {
    let mut file = write(&hints()).unwrap();
    let edge = [2_u32, 0, 0].map(u32::to_le_bytes).concat();
    let at = file.windows(12).position(|window| window == edge).unwrap();
    file[at..at + 4].copy_from_slice(&7_u32.to_le_bytes());
    let error = open(&file, &Limits::default()).unwrap_err().to_string();
    assert_eq!(error, "graph.node_edges[0]: there is no node 7");
    file[at..at + 4].copy_from_slice(&0_u32.to_le_bytes());
    assert!(open(&file, &Limits::default()).is_ok());
}

#[test]
fn numbers_without_a_name_are_kept_and_reported() {
    let mut file = types();
    let odd = NodeType::Other(9);
    file.model.graph.nodes.push(models::node("n", "Op", 0, &[], &["y"]));
    file.model.graph.nodes[0].node_type = odd;
    let map = ort_format::record::MapType {
        key_type: DataType::Other(77),
        value_type: Some(TypeInfo::default()),
    };
    let value = Some(TypeInfoValue::Map(Box::new(map)));
    file.model.graph.node_args.push(ValueInfo {
        name: "odd".into(),
        type_info: Some(TypeInfo { denotation: None, value }),
        ..ValueInfo::default()
    });
    let bytes = write(&file).unwrap();
    let (view, warnings) = open_with_warnings(&bytes, &Limits::default()).unwrap();
    assert_eq!(view.model().graph().nodes().get(0).unwrap().node_type(), odd);
    let oddities: Vec<Oddity> = warnings.into_iter().map(|warning| warning.oddity).collect();
    assert_eq!(
        oddities,
        [
            Oddity::UnknownValue { field: "elem_type", value: 77 },
            Oddity::UnknownValue { field: "type", value: 9 },
        ]
    );
}
