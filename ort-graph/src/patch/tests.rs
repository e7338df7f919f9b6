//! Patches that fit, and patches that do not.

use expect_test::{Expect, expect};

use super::*;
use crate::testing::{parse, registry};

fn id(graph: &Graph, name: &str) -> ValueId {
    graph.value_ids().find(|&id| graph.value(id).name == name).unwrap()
}

/// Replaces `old` by `new` and prints the graph, or the error if it left the graph alone.
fn replaced(text: &str, old: &str, new: &str) -> String {
    let mut graph = parse(text);
    let before = graph.to_string();
    let mut patch = Patch::new(&graph);
    patch.replace(id(&graph, old), id(&graph, new));
    if let Err(error) = patch.commit(&mut graph, &registry()) {
        assert_eq!(graph.to_string(), before);
        return error.to_string();
    }
    graph.verify().unwrap();
    let printed = graph.to_string();
    assert_eq!(graph.compact().unwrap().to_string(), printed);
    printed
}

fn assert_replaced(text: &str, (old, new): (&str, &str), expected: &Expect) {
    expected.assert_eq(&replaced(text, old, new));
}

#[test]
fn the_replacement_of_a_returned_value_takes_its_name() {
    let text = "graph(x: float[2]) -> (y, y) { a = Op-1 (x) y = Op-1 (a) z = Op-1 (y, y) }";
    assert_replaced(
        text,
        ("y", "a"),
        &expect![[r#"
        graph(x: float[2]) -> (y, y) {
          y = Op-1 (x)
          z = Op-1 (y, y)
        }"#]],
    );
}

#[test]
fn what_only_served_the_replaced_value_is_swept() {
    let text = "graph(x: float[2]) -> (y, b) {
        c = const int64[1] [7]
        a = Op-1 (x) b = Op-1 (a) d = Op-1 (c, a) e = Op-1 (d, b) y = Op-1 (e)
    }";
    assert_replaced(
        text,
        ("e", "a"),
        &expect![[r#"
        graph(x: float[2]) -> (y, b) {
          a = Op-1 (x)
          b = Op-1 (a)
          y = Op-1 (a)
        }"#]],
    );
}

#[test]
fn subgraphs_capture_the_replacement_under_their_own_name() {
    let text = "graph(x: float[2]) -> (y) {
        a = Op-1 (x) b = Op-1 (a)
        y = Op-1 [body: graph() -> (z) { z = Op-1 [body: graph() -> (b) {}] (b) }] (b)
    }";
    assert_replaced(
        text,
        ("b", "a"),
        &expect![[r#"
        graph(x: float[2]) -> (y) {
          a = Op-1 (x)
          y = Op-1 [body: graph() -> (z) {
            b = outer a
            z = Op-1 [body: graph() -> (b) {
            }] (b)
          }] (a)
        }"#]],
    );
}

#[test]
fn an_unused_output_of_a_used_node_is_dropped() {
    let text = "graph(x: float[2]) -> (y, s) { r, s = Op-1 (x) y = Op-1 (r) }";
    assert_replaced(
        text,
        ("r", "x"),
        &expect![[r#"
        graph(x: float[2]) -> (y, s) {
          _, s = Op-1 (x)
          y = Op-1 (x)
        }"#]],
    );
}

#[test]
fn an_invalid_patch_is_rejected_and_changes_nothing() {
    let text = "graph(x: float[n,2], i: int64[2], w = float[2] [1, 2]) -> (y, v) {
        c = const float[2] [3, 4]
        a: float[3,?] = Op-1 (x) b: float[4,2] = Op-1 (a) u = Op-1 (x)
        y: float[n,2] = Op-1 (a, b, u, i, w, c) v: float[n,2] = Op-1 (x)
    }";
    let cases = [
        ("a", "i", "the replacement of `a`: int64[2] is not float[3,?]"),
        ("b", "a", "the replacement of `b`: float[3,?] is not float[4,2]"),
        ("a", "u", "the replacement of `a`: unknown is not float[3,?]"),
        ("y", "x", "`x` cannot take over the name of the output `y`"),
        ("y", "v", "`v` cannot take over the name of the output `y`"),
        ("x", "y", "`x` is an input or captured and cannot be replaced"),
        ("w", "c", "`w` is an input or captured and cannot be replaced"),
    ];
    for (old, new, expected) in cases {
        assert_eq!(replaced(text, old, new), expected, "{old} by {new}");
    }
}

fn op(inputs: Vec<Option<ValueId>>) -> NewNode {
    NewNode { op_type: "Op".to_owned(), since_version: 1, inputs, ..NewNode::default() }
}

#[test]
fn a_patch_can_insert_nodes_after_a_value() {
    let mut graph = parse("graph(x: float[2]) -> (y) { y: float[2] = Op-1 (x) z = Op-1 (y) }");
    let y = id(&graph, "y");
    let mut patch = Patch::new(&graph);
    let c = patch.constant("y", Tensor::scalar(1_i8)).unwrap();
    let inner = patch.output_of(op(vec![Some(y), Some(c)])).unwrap();
    let fact = graph.fact(y).clone();
    let outer = patch.value("outer", fact).unwrap();
    patch.node(NewNode { outputs: vec![Some(outer)], ..op(vec![Some(inner)]) });
    patch.replace(y, outer);
    patch.commit(&mut graph, &registry()).unwrap();
    graph.verify().unwrap();
    expect![[r#"
        graph(x: float[2]) -> (y) {
          y_2 = const int8[] 1
          replaced = Op-1 (x)
          value = Op-1 (replaced, y_2)
          y = Op-1 (value)
          z = Op-1 (y)
        }"#]]
    .assert_eq(&graph.to_string());
}

#[test]
fn an_invalid_node_reverts_the_whole_patch() {
    let mut graph = parse("graph(x: float[2]) -> (y) { a = Op-1 (x) y = Op-1 (a) }");
    let before = graph.clone();
    let (a, x) = (id(&graph, "a"), id(&graph, "x"));
    let mut patch = Patch::new(&graph);
    let b = patch.output_of(op(vec![Some(x)])).unwrap();
    patch.replace(a, b);
    let c = patch.output_of(NewNode { op_type: "No".to_owned(), ..op(vec![Some(b)]) });
    c.unwrap();
    let error = patch.commit(&mut graph, &registry()).unwrap_err();
    assert_eq!(error.to_string(), "new node No: there is no operator ai.onnx:No");
    assert_eq!((graph.to_string(), graph.verify()), (before.to_string(), Ok(())));
    assert_eq!(graph.sizes(), before.sizes());
}

#[test]
fn a_patch_of_another_graph_is_stale() {
    let mut graph = parse("graph(x: float[2]) -> () {}");
    let patch = Patch::new(&graph);
    graph.add_constant("c", Tensor::scalar(1_i8)).unwrap();
    assert_eq!(patch.commit(&mut graph, &registry()), Err(PatchError::Stale));
}

#[test]
fn a_change_tells_whether_its_readers_know_more() {
    let text = "graph(x: float[2], z: float[n]) -> (y) { a = Op-1 (x) b = Op-1 (x) y = Op-1 (b) }";
    for (new, informs) in [("a", false), ("constant", true)] {
        let mut graph = parse(text);
        let mut patch = Patch::new(&graph);
        let constant = Tensor::from_slice(&[2], &[1.0_f32, 2.0]).unwrap();
        let constant = patch.constant("", constant).unwrap();
        let old = id(&graph, "b");
        patch.replace(old, if new == "a" { id(&graph, "a") } else { constant });
        let change = patch.commit(&mut graph, &registry()).unwrap();
        assert_eq!((change.readers.len(), change.informs), (1, informs), "{new}");
    }
}
