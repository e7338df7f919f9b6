//! Bytes that are decoded, bytes that are rejected, and the messages.

use ort_tensor::within;
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

fn decoded(bytes: &[u8]) -> Result<ModelProto, OnnxError> {
    decode_model(&Bytes::copy_from_slice(bytes), &Limits::default())
}

fn refused(bytes: &[u8]) -> String {
    decoded(bytes).unwrap_err().to_string()
}

#[test]
fn valid_models_with_unknown_fields_pass() {
    let t = TensorProto { dims: vec![2, 3], int32_data: vec![-1, 2], ..TensorProto::default() };
    let attribute = AttributeProto { t: Some(Box::new(t)), ..AttributeProto::default() };
    let mut bytes = model(vec![node(attribute)]).encode_to_vec();
    // Unknown fields, of every wire type.
    bytes.extend([0xa0, 0x1f, 5, 0xa2, 0x1f, 1, 0, 0xa5, 0x1f, 1, 2, 3, 4]);
    bytes.extend([0xa1, 0x1f, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(decoded(&bytes), Ok(ModelProto::decode(&*bytes).unwrap()));
    assert_eq!(decoded(&[]), Ok(ModelProto::default()));
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
        let bytes = Bytes::from(bytes);
        let passes =
            |base| decode_model(&bytes, &Limits { ratio: 0, base, ..Limits::default() }).map(drop);
        let most = (0..1 << 16).find(|&base| passes(base).is_ok()).unwrap();
        let path = format!("graph.node.attribute.{name}[{}]", n - 1);
        assert_eq!(passes(most - 1), Err(OnnxError::Limit { limit: "ratio", path }));
    }
}

#[test]
fn messages_count_against_the_allowance_of_the_thread() {
    let bytes = Bytes::from(model(vec![NodeProto::default(); 1000]).encode_to_vec());
    let decoded =
        |limit| within(limit, limit, || decode_model(&bytes, &Limits::default()).map(drop));
    assert!(decoded(16 << 20).is_ok());
    assert!(
        matches!(decoded(10_000), Err(OnnxError::Memory { path, .. }) if path.contains("node"))
    );
}

/// The last of several single values, merged messages, and lists in parts, packed and not.
#[test]
fn repeated_fields_are_merged_as_prost_merges_them() {
    let tensor = |dims: &[i64], int32_data: &[i32], name: &str| {
        let (dims, int32_data, name) = (dims.to_vec(), int32_data.to_vec(), name.to_owned());
        let float_data = vec![0.5, -2.0];
        TensorProto { dims, int32_data, float_data, name, ..TensorProto::default() }
    };
    let with =
        |t| AttributeProto { t: Some(Box::new(t)), f: Some(2.0), ..AttributeProto::default() };
    let lists = AttributeProto {
        ints: vec![1, -1, i64::MAX, 300],
        floats: vec![1.0, -0.0, 0.25],
        strings: vec!["a".into(), "".into()],
        i: Some(-7),
        ..AttributeProto::default()
    };
    let parts = [with(tensor(&[2], &[-1, 7], "a")), lists.clone(), with(tensor(&[3], &[300], "b"))];
    let attribute: Vec<u8> =
        parts.iter().chain([&lists]).flat_map(|it| it.encode_to_vec()).collect();
    let field = |number: u8, content: Vec<u8>| {
        let [low, high] = [content.len() & 0x7f | 0x80, content.len() >> 7];
        let head =
            [usize::from(number << 3 | 2), low, high].map(|byte| u8::try_from(byte).unwrap());
        [head.to_vec(), content].concat()
    };
    let bytes = field(7, field(1, field(5, attribute)));
    let model = decoded(&bytes).unwrap();
    assert_eq!(model, ModelProto::decode(&*bytes).unwrap());
    let attribute = &model.graph.unwrap().node[0].attribute[0];
    assert_eq!((attribute.ints.len(), attribute.floats.len(), attribute.strings.len()), (8, 6, 4));
    assert_eq!(attribute.t.as_ref().unwrap().int32_data, [-1, 7, 300]);
}

/// What is decoded of damaged bytes is what prost decodes.
#[test]
fn damaged_bytes_are_rejected_or_decoded_as_by_prost() {
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
            match decoded(&wrong) {
                Ok(model) => {
                    passed += 1;
                    let by_prost = ModelProto::decode(&*wrong).unwrap();
                    // NaN is not equal to itself.
                    let [a, b] = [model, by_prost].map(|model| model.encode_to_vec());
                    assert_eq!(a, b, "byte {at}, bit {bit}");
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(passed > 100 && refused > 100, "{passed} and {refused}");
}
