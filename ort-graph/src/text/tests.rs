//! Text that is read is printed as it was; graphs that are printed are read as they were.

use expect_test::{Expect, expect};
use ort_tensor::{AlignedBuf, DType, Tensor};
use proptest::prelude::*;

use crate::testing::{parse, registry};
use crate::{Attr, Attrs, Dim, Fact, Graph, NewNode, ValueId};

fn assert_printed(text: &str, expected: &Expect) {
    expected.assert_eq(&parse(text).text().with_facts().to_string());
}

#[test]
fn every_form_prints_as_it_was_read() {
    assert_printed(
        r#"graph(x: float[n,3,"a b",?], scale = float[1] [2], s: seq(int64[...])) -> (y, "1") {
             w = const float[4,3] fill 0.5
             y, _, "1" = Op-13 "stem" [a: 1, b: [0.5, 1e-7, NaN], c: "t\n\""] (x, w, _)
             m: map(string, float[?]), o: optional(float[2]) = "org.example-1":"Odd op"-1 (scale)
           }"#,
        &expect![[r#"
            graph(x: float[n,3,"a b",?], scale = float[1] [2], s: seq(int64[...])) -> (y, "1") {
              w = const float[4,3] fill 0.5
              y: unknown, _, "1": unknown = Op-13 "stem" [a: 1, b: [0.5, 1e-7, NaN], c: "t\n\""] (x, w, _)
              m: map(string, float[?]), o: optional(float[2]) = "org.example-1":"Odd op"-1 (scale)
            }"#]],
    );
}

#[test]
fn subgraphs_see_the_values_around_them() {
    assert_printed(
        "graph(x: float[2], c: bool[]) -> (y) {
           w = const int64[3] [1, 2, 3]
           h = Op-1 (x)
           y = Op-1 [body: graph(i: int64[]) -> (z, x) {
             mine = outer h
             z = Op-1 [other: graph() -> (q) { q = Op-1 (mine, x, i, w) }] (c)
           }, a: ints []] (c)
         }",
        &expect![[r#"
            graph(x: float[2], c: bool[]) -> (y) {
              w = const int64[3] [1, 2, 3]
              h: unknown = Op-1 (x)
              y: unknown = Op-1 [a: ints [], body: graph(i: int64[]) -> (z, x) {
                mine = outer h
                w = const int64[3] [1, 2, 3]
                z: unknown = Op-1 [other: graph() -> (q) {
                  w = const int64[3] [1, 2, 3]
                  q: unknown = Op-1 (mine, x, i, w)
                }] (c)
              }] (c)
            }"#]],
    );
}

#[test]
fn long_contents_print_as_a_hash_that_cannot_be_read() {
    let elements = ["1", "2"].repeat(10).join(", ");
    let text = format!("graph() -> (c) {{\n  c = const int8[20] [{elements}]\n}}");
    assert_eq!(parse(&text).text().in_full().to_string(), text);
    let short = parse(&text).to_string();
    expect![[r#"
        graph() -> (c) {
          c = const int8[20] #b44014188892ee59
        }"#]]
    .assert_eq(&short);
    let error = Graph::parse(&short, &registry()).unwrap_err();
    expect!["line 2, column 22: the contents are not there, only their hash"]
        .assert_eq(&error.to_string());
}

#[test]
fn errors_say_where_and_what() {
    let cases = [
        ("graph(x) -> (y", "line 1, column 15: expected ,"),
        ("graph() -> (y) {}", "line 1, column 13: there is no value `y`"),
        ("graph(x, x) -> () {}", "line 1, column 10: `x` is defined twice"),
        ("graph() -> () {\n  é", "line 2, column 3: expected the name of a value, or `}`"),
        ("graph() -> () { y = No-1 () }", "line 1, column 21: there is no operator ai.onnx:No"),
        ("graph() -> () { y = Op-1 (z) }", "line 1, column 27: there is no value `z`"),
        ("graph() -> () { y = Op (y) }", "line 1, column 24: expected -"),
        (
            "graph() -> () { y = Op-1 [a: ] () }",
            "line 1, column 30: expected the value of an attribute",
        ),
        ("graph() -> () { c = const int8[1] [300] }", "line 1, column 36: `300` is no int8"),
        (
            "graph() -> () { c: float[] = const bool[] true }",
            "line 1, column 17: expected a type that fits the contents",
        ),
        ("graph() -> () { a = outer b }", "line 1, column 27: there is no value `b`"),
        ("graph() -> () { c = const \"", "line 1, column 27: expected an element type"),
        ("graph() -> () {} graph", "line 1, column 18: expected the end"),
    ];
    for (text, expected) in cases {
        let error = Graph::parse(text, &registry()).unwrap_err();
        assert_eq!(error.to_string(), expected, "{text}");
    }
}

fn arbitrary_tensor() -> impl Strategy<Value = Tensor> {
    let shape = prop::collection::vec(0_usize..4, 0..3);
    let bytes = prop::collection::vec(any::<u8>(), 9 * 16);
    (0..DType::ALL.len(), shape, bytes, ".*").prop_map(|(dtype, shape, bytes, string)| {
        let (dtype, n) = (DType::ALL[dtype], shape.iter().product());
        if dtype == DType::String {
            return Tensor::from_strings(&shape, vec![string; n]).unwrap();
        }
        let bytes = &bytes[..dtype.n_bytes(n).unwrap()];
        let mut tensor = Tensor::zeros(dtype, &shape).unwrap();
        if dtype.is_packed() {
            let codes: Vec<u8> = bytes.iter().cycle().take(n).map(|byte| byte & 3).collect();
            tensor.view_mut().pack(&codes).unwrap();
            return tensor;
        }
        Tensor::from_bytes(dtype, &shape, bytes::Bytes::from_owner(AlignedBuf::copy_of(bytes)))
            .unwrap()
    })
}

fn arbitrary_attr() -> impl Strategy<Value = Attr> {
    let float = prop_oneof![any::<f32>(), Just(f32::INFINITY), Just(-0.0)];
    prop_oneof![
        any::<i64>().prop_map(Attr::Int),
        float.clone().prop_map(Attr::Float),
        ".*".prop_map(Attr::String),
        arbitrary_tensor().prop_map(Attr::Tensor),
        prop::collection::vec(any::<i64>(), 0..3).prop_map(Attr::Ints),
        prop::collection::vec(float, 0..3).prop_map(Attr::Floats),
        prop::collection::vec(".*", 0..3).prop_map(Attr::Strings),
        prop::collection::vec(arbitrary_tensor(), 0..3).prop_map(Attr::Tensors),
    ]
}

/// A chain of nodes, each of which reads earlier values and may have a subgraph that captures one.
fn arbitrary_graph() -> impl Strategy<Value = Graph> {
    let node = ("\\PC*", arbitrary_attr(), any::<[u8; 3]>());
    let parts = (arbitrary_tensor(), "\\PC*", prop::collection::vec(node, 0..5));
    parts.prop_map(|(tensor, symbol, nodes)| {
        let mut graph = Graph::new();
        let dims = [Dim::Symbol(symbol.as_str().into()), Dim::Unknown, Dim::Known(2)];
        let x = graph.add_value("x", Fact::tensor(DType::F32, dims)).unwrap();
        let w = graph.add_value("w", Fact::shaped(tensor.dtype(), tensor.shape())).unwrap();
        graph.value_mut(w).default = Some(tensor.clone());
        graph.set_inputs(vec![x, w]);
        let c = graph.add_constant("c", tensor).unwrap();
        let mut values = vec![x, w, c];
        for (i, (name, attr, picks)) in nodes.into_iter().enumerate() {
            let pick = |pick: u8| values[usize::from(pick) % values.len()];
            let mut attrs = Attrs::new().with("a", attr);
            let there = pick(picks[2]);
            let mut captured = Vec::new();
            if picks[2] % 2 == 0 {
                let mut body = Graph::new();
                let here = body.add_captured("mine", &graph, there).unwrap();
                body.set_outputs(vec![here]);
                captured.extend(body.captures().iter().map(|&(_, there)| there));
                attrs.set("body", Attr::Graph(Box::new(body)));
            }
            let y = graph.add_value(format!("{name}{i}"), Fact::UNKNOWN).unwrap();
            let inputs = vec![Some(pick(picks[0])), None, Some(pick(picks[1]))];
            let (op_type, outputs) = ("Op".to_owned(), vec![None, Some(y)]);
            let new = NewNode {
                name,
                op_type,
                since_version: 7,
                inputs,
                outputs,
                captured,
                attrs,
                ..NewNode::default()
            };
            graph.add_node(new, &registry()).unwrap();
            values.push(y);
        }
        graph.set_outputs(values.split_off(1));
        graph
    })
}

proptest! {
    #[test]
    fn contents_are_read_back_bit_by_bit(tensor in arbitrary_tensor()) {
        let mut graph = Graph::new();
        let c: ValueId = graph.add_constant("c", tensor.clone()).unwrap();
        graph.set_outputs(vec![c]);
        let read = parse(&graph.text().in_full().to_string());
        prop_assert_eq!(read.constant(read.outputs()[0]), Some(&tensor));
    }

    #[test]
    fn a_graph_that_is_printed_and_read_prints_the_same(graph in arbitrary_graph()) {
        prop_assert_eq!(graph.verify(), Ok(()));
        let text = graph.text().in_full().with_facts();
        let read = parse(&text.to_string());
        prop_assert_eq!(read.text().in_full().with_facts().to_string(), text.to_string());
    }
}
