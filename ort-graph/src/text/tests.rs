//! Printing inverts parsing, and parsing inverts printing.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use crate::testing::arbitrary::{arbitrary_graph, arbitrary_tensor};
use crate::testing::{parse, registry};
use crate::{Graph, ValueId};

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
fn subgraphs_see_the_values_of_enclosing_graphs() {
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
    expect!["line 2, column 22: the contents are missing, only their hash is given"]
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
    fn a_graph_that_is_printed_and_read_prints_the_same(graph in arbitrary_graph(Some("mine"))) {
        prop_assert_eq!(graph.verify(), Ok(()));
        let text = graph.text().in_full().with_facts();
        let read = parse(&text.to_string());
        prop_assert_eq!(read.text().in_full().with_facts().to_string(), text.to_string());
    }
}
