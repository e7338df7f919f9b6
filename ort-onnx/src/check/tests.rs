//! Bytes that pass the check, bytes that fail it, and the messages.

use prost::Message as _;

use super::*;
use crate::schema::{AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto};

fn model(nodes: Vec<NodeProto>) -> ModelProto {
    let graph = Some(GraphProto { node: nodes, ..GraphProto::default() });
    ModelProto { ir_version: 8, graph, ..ModelProto::default() }
}

fn node(attribute: AttributeProto) -> NodeProto {
    let (input, attribute) = (vec!["x".to_owned(); 2], vec![attribute]);
    NodeProto { input, attribute, op_type: "Op".to_owned(), ..NodeProto::default() }
}

fn refused(bytes: &[u8]) -> String {
    check(bytes, &Limits::default()).unwrap_err().to_string()
}

#[test]
fn valid_models_with_unknown_fields_pass() {
    let t = TensorProto { dims: vec![2, 3], int32_data: vec![-1, 2], ..TensorProto::default() };
    let attribute = AttributeProto { t: Some(Box::new(t)), ..AttributeProto::default() };
    let mut bytes = model(vec![node(attribute)]).encode_to_vec();
    // Unknown fields, of every wire type.
    bytes.extend([0xa0, 0x1f, 5, 0xa2, 0x1f, 1, 0, 0xa5, 0x1f, 1, 2, 3, 4]);
    bytes.extend([0xa1, 0x1f, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(check(&bytes, &Limits::default()), Ok(()));
    assert_eq!(check(&[], &Limits::default()), Ok(()));
}

#[test]
fn an_error_has_the_path_and_the_offset() {
    let attribute = AttributeProto { name: "name".to_owned(), ..AttributeProto::default() };
    let bytes = model(vec![node(attribute.clone()), node(attribute)]).encode_to_vec();
    let at = bytes.windows(4).rposition(|part| part == b"name").unwrap();
    let mut wrong = bytes.clone();
    wrong[at] = 0xff;
    let expected = format!("graph.node[1].attribute.name, byte {at}: the text is not UTF-8");
    assert_eq!(refused(&wrong), expected);
    wrong[at - 2] = 0x0b;
    let tag = at - 2;
    let expected = format!("graph.node[1].attribute, byte {tag}: 11 is not a valid tag");
    assert_eq!(refused(&wrong), expected);
    wrong[at - 2] = 0x0a;
    wrong[at - 1] = 0x60;
    let expected = format!("graph.node[1].attribute, byte {tag}: the message ends within a field");
    assert_eq!(refused(&wrong), expected);
    // An integer in place of the graph.
    assert_eq!(refused(&[0x38, 1]), "graph, byte 1: the field has the wrong wire type");
}

#[test]
fn models_over_the_limits_are_refused() {
    let mut inner = model(Vec::new());
    for _ in 0..40 {
        let g = inner.graph.take().map(Box::new);
        inner = model(vec![node(AttributeProto { g, ..AttributeProto::default() })]);
    }
    let deep = refused(&inner.encode_to_vec());
    assert!(deep.ends_with("the file exceeds the limit on depth"), "{deep}");
    assert!(deep.starts_with("graph.node.attribute.g.node"), "{deep}");
    // Two bytes for each node.
    let many = model(vec![NodeProto::default(); 200_000]).encode_to_vec();
    assert!(refused(&many).ends_with(": the file exceeds the limit on ratio"));
}

/// Lists are skipped as a whole, up to the first element over the limit.
#[test]
fn a_long_list_is_rejected_at_the_first_element_over_the_limit() {
    let n = 100;
    let lists = [
        AttributeProto { ints: vec![300; n], ..AttributeProto::default() },
        AttributeProto { ints: vec![-1; n], ..AttributeProto::default() },
        AttributeProto { floats: vec![1.0; n], ..AttributeProto::default() },
        AttributeProto { strings: vec!["text".into(); n], ..AttributeProto::default() },
    ];
    for (list, name) in lists.into_iter().zip(["ints", "ints", "floats", "strings"]) {
        let bytes = model(vec![node(list)]).encode_to_vec();
        let passes = |base| check(&bytes, &Limits { ratio: 0, base, ..Limits::default() });
        let most = (0..1 << 16).find(|&base| passes(base).is_ok()).unwrap();
        let path = format!("graph.node.attribute.{name}[{}]", n - 1);
        assert_eq!(passes(most - 1), Err(OnnxError::Limit { limit: "ratio", path }));
    }
}

/// Bytes that pass the check can be decoded.
#[test]
fn damaged_bytes_are_refused_by_the_check_and_not_by_the_decoder() {
    let t = TensorProto {
        dims: vec![2, 3],
        float_data: vec![1.0; 6],
        name: "tensor".to_owned(),
        ..TensorProto::default()
    };
    let attribute = AttributeProto { t: Some(Box::new(t)), ..AttributeProto::default() };
    let bytes = model(vec![node(attribute.clone()), node(attribute)]).encode_to_vec();
    let (mut passed, mut refused) = (0, 0);
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1 << bit;
            match check(&wrong, &Limits::default()) {
                Ok(()) => {
                    passed += 1;
                    let decoded = ModelProto::decode(&*wrong);
                    assert!(decoded.is_ok(), "byte {at}, bit {bit}: {decoded:?}");
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(passed > 100 && refused > 100, "{passed} and {refused}");
}
