//! Import restores what was exported; and what else a file requires.

use bytes::Bytes;
use expect_test::{Expect, expect};
use ort_format::record;
use ort_format::{ArgType, Limits};
use ort_tensor::{DType, Tensor};
use proptest::prelude::*;

use super::{Export, ExportError, export};
use crate::testing::arbitrary::arbitrary_graph;
use crate::testing::{parse, registry};
use crate::{Graph, ImportError, ImportLimits, Model, ModelInfo, PackedForm, import, parsed};

fn info() -> ModelInfo {
    ModelInfo { ir_version: 9, opsets: vec![(String::new(), 17)], ..ModelInfo::default() }
}

fn plain(info: &ModelInfo) -> Export<'_> {
    Export::new(info)
}

/// The model that a file of `graph` holds.
fn written_and_read(graph: &Graph, info: &ModelInfo) -> Model {
    let record = export(graph, plain(info)).unwrap();
    let bytes = Bytes::from(ort_format::write(&record).unwrap());
    let file = ort_format::open(&bytes, &Limits::default()).unwrap();
    import(parsed::Model::of_ort(file, &bytes).unwrap(), &registry(), ImportLimits::default())
        .unwrap()
}

fn text(graph: &Graph) -> String {
    graph.text().in_full().with_facts().to_string()
}

fn assert_read_back(graph: &str, expected: &Expect) {
    let read = written_and_read(&parse(graph), &info()).graph;
    read.verify().unwrap();
    expected.assert_eq(&text(&read));
}

fn record_of<R>(graph: &str, export: Export<'_>, of: impl FnOnce(record::File<'_>) -> R) -> R {
    of(super::export(&parse(graph), export).unwrap())
}

#[test]
fn every_form_reads_back_as_it_was() {
    for graph in [
        "graph() -> () {\n}",
        r#"graph(x: float[n,3,"a b",?], scale = float[1] [2], s: seq(int64[...])) -> (y, "1") {
  w = const float[4,3] fill 0.5
  t = const string[2] ["a\n", ""]
  y: float[...], _, "1": bool[] = Op-13 "stem" [a: 1, b: [0.5, 1e-7, NaN], c: "t\n\""] (x, w, _)
  m: map(string, float[?]), q: seq(map(int64, int8[])) = "org.example-1":"Odd op"-1 (scale)
}"#,
        "graph(x: float[2], c: bool[]) -> (y) {
  w = const int8[3] [1, 2, 3]
  h: float[2] = Op-1 (x)
  y: float[2] = Op-1 [a: ints [], body: graph(i: int64[]) -> (z) {
    w = const int8[3] [1, 2, 3]
    z: float[2] = Op-1 [other: graph() -> (q) {
      w = const int8[3] [1, 2, 3]
      q: uint2[2] = Op-1 (h, x, i, w)
    }] (c)
  }] (c)
}",
    ] {
        let graph = parse(graph);
        assert_eq!(text(&written_and_read(&graph, &info()).graph), text(&graph));
    }
}

#[test]
fn packed_forms_and_released_constants_read_back() {
    let graph = "graph(x: float[2]) -> (y) {
      w = const float[2] [1, 2]
      y: float[2] = Op-1 [body: graph() -> (z) {
        w = const float[2] [1, 2]
        v = const float[2] [3, 4]
        z: float[2] = Op-1 (w, v)
      }] (w)
    }";
    let mut graph = parse(graph);
    let released = Tensor::released(DType::F32, &[2]).unwrap();
    let form = |n: usize| PackedForm { label: format!("op/{n}"), bytes: vec![7; n].into() };
    graph.edit_constants(&mut |constant, packed| {
        if constant.as_slice::<f32>().is_ok_and(|elements| elements[0] == 1.0) {
            *constant = released.clone();
            *packed = vec![form(1), form(3)];
        } else {
            *packed = vec![form(2)];
        }
    });
    let mut read = written_and_read(&graph, &info()).graph;
    read.verify().unwrap();
    let mut found = Vec::new();
    read.edit_constants(&mut |constant, packed| {
        let forms: Vec<_> = packed.iter().map(|form| form.bytes.len()).collect();
        found.push((constant.is_released(), constant.shape().to_vec(), forms));
    });
    let (w, v) = ((true, vec![2], vec![1, 3]), (false, vec![2], vec![2]));
    assert_eq!(found, [w.clone(), v, w]);
}

#[test]
fn a_packed_form_without_a_constant_is_rejected() {
    let mut graph = parse("graph(x: float[2]) -> (y) { y: float[2] = Op-1 (x) }");
    let packed = vec![PackedForm { label: "op".to_owned(), bytes: Bytes::from_static(b"x") }];
    graph.value_mut(graph.inputs()[0]).packed = packed;
    let bytes = Bytes::from(ort_format::write(&export(&graph, plain(&info())).unwrap()).unwrap());
    let file = ort_format::open(&bytes, &Limits::default()).unwrap();
    let error =
        import(parsed::Model::of_ort(file, &bytes).unwrap(), &registry(), ImportLimits::default())
            .unwrap_err();
    assert_eq!(error, ImportError::StrayForm { name: "x#op".to_owned() });
}

#[test]
fn the_metadata_of_the_model_reads_back() {
    let some = |text: &str| text.to_owned();
    let info = ModelInfo {
        ir_version: 8,
        opsets: vec![(String::new(), 13), ("org.example".to_owned(), 3)],
        producer_name: some("tool"),
        producer_version: some("1"),
        domain: some("org.example"),
        model_version: Some(7),
        doc_string: some("about the model"),
        // No `.ort` file has one.
        graph_name: String::new(),
        graph_doc_string: some("about the graph"),
        metadata: vec![(some("key"), some("value")), (some("no value"), String::new())],
    };
    for info in [info, ModelInfo::default()] {
        assert_eq!(written_and_read(&parse("graph() -> () {}"), &info).info, info);
    }
}

#[test]
fn a_name_denotes_one_value_in_the_whole_file() {
    assert_read_back(
        "graph(x: float[2], y: float[2]) -> (z) {
           w = const float[1] [1]
           k = const float[1] [3]
           z: float[2] = Op-1 [body: graph(y: float[2], y_1: float[2]) -> (x, v, k) {
             outer_y = outer y
             mine = outer x
             w = const float[1] [2]
             x: float[2] = Op-1 (mine, y, outer_y)
             v: float[2] = Op-1 [other: graph() -> (y) { y: float[2] = Op-1 (w, x) }] (y_1)
           }] (w, k)
         }",
        &expect![[r#"
            graph(x: float[2], y: float[2]) -> (z) {
              w = const float[1] [1]
              k = const float[1] [3]
              w_1 = const float[1] [2]
              z: float[2] = Op-1 [body: graph(y_2: float[2], y_1: float[2]) -> (x_1, v, k_1) {
                k_1 = const float[1] [3]
                w_1 = const float[1] [2]
                x_1: float[2] = Op-1 (x, y_2, y)
                v: float[2] = Op-1 [other: graph() -> (y_3) {
                  w_1 = const float[1] [2]
                  y_3: float[2] = Op-1 (w_1, x_1)
                }] (y_1)
              }] (w, k)
            }"#]],
    );
}

#[test]
fn nodes_of_a_graph_have_unique_names() {
    let graph = r#"graph() -> () {
        a: float[] = Op-1 "node" ()
        b: float[] = Op-1 "node" [body: graph() -> () { c: float[] = Op-1 "node" () }] ()
        d: float[] = Op-1 "node" ()
        e: float[] = Op-1 ()
        f: float[] = Op-1 ()
    }"#;
    let info = info();
    record_of(graph, plain(&info), |file| {
        let names = |graph: &record::Graph<'_>| -> Vec<String> {
            graph.nodes.iter().map(|node| node.name.to_string()).collect()
        };
        let main = &file.model.graph;
        assert_eq!(names(main), ["node", "node_1", "node_2", "", ""]);
        assert_eq!(names(main.nodes[1].attributes[0].g.as_ref().unwrap()), ["node"]);
    });
}

#[test]
fn a_constant_that_several_subgraphs_hold_is_written_once() {
    let graph = "graph(c: bool[]) -> (y) {
       w = const int16[300] fill 5
       y: float[2] = Op-1 [
         body: graph() -> (z) { z: float[2] = Op-1 (w) },
         other: graph() -> (z) { z: float[2] = Op-1 [body: graph() -> (z) { z: float[2] = Op-1 (w) }] () }
       ] (c)
     }";
    // Only subgraphs read it: the outermost graph no longer has it.
    let graph = parse(graph).compact().unwrap();
    assert_eq!(graph.value_ids().count(), 2);
    let info = info();
    let record = export(&graph, plain(&info)).unwrap();
    let names = |graph: &record::Graph<'_>| -> Vec<String> {
        graph.initializers.iter().map(|tensor| tensor.name.to_string()).collect()
    };
    let main = record.model.graph;
    let (body, other) = (subgraph(&main, 0), subgraph(&main, 1));
    assert_eq!(names(&main), ["w"]);
    for graph in [body, other, subgraph(other, 0)] {
        assert_eq!(names(graph).len(), 0);
        assert!(graph.node_args.iter().any(|value| value.name == "w" && value.type_info.is_some()));
    }
    assert_eq!(main.nodes[0].implicit_inputs, ["w"]);
    assert_eq!(other.nodes[0].implicit_inputs, ["w"]);
}

fn subgraph<'r, 'a>(graph: &'r record::Graph<'a>, index: usize) -> &'r record::Graph<'a> {
    graph.nodes[0].attributes[index].g.as_ref().unwrap()
}

#[test]
fn domains_that_nodes_use_are_imported() {
    let opsets = |file: record::File<'_>| -> Vec<(String, i64)> {
        let sets = file.model.opset_import;
        sets.iter().map(|set| (set.domain.to_string(), set.version)).collect()
    };
    let graph = r#"graph() -> () {
        a: float[] = Op-4 [body: graph() -> () { b: float[] = "org.example-1":"Odd op"-3 () }] ()
        c: float[] = "org.example-1":"Odd op"-2 ()
    }"#;
    let other = ("org.example-1".to_owned(), 3);
    let (none, info) = (ModelInfo::default(), info());
    assert_eq!(record_of(graph, plain(&none), opsets), [(String::new(), 4), other.clone()]);
    assert_eq!(record_of(graph, plain(&info), opsets), [(String::new(), 17), other]);
}

#[test]
fn private_attributes_are_left_out() {
    let graph = r#"graph() -> () {
        a: float[] = Op-1 [a: 1, b: 2] ()
        c: float[] = "org.example-1":"Odd op"-1 [a: 1, b: 2] ()
    }"#;
    let info = info();
    let private = [("org.example-1", "b")];
    record_of(graph, Export { private: &private, ..plain(&info) }, |file| {
        let names = |node: &record::Node<'_>| -> Vec<String> {
            node.attributes.iter().map(|attribute| attribute.name.to_string()).collect()
        };
        let names: Vec<_> = file.model.graph.nodes.iter().map(names).collect();
        assert_eq!(names, [vec!["a", "b"], vec!["a"]]);
    });
}

#[test]
fn inputs_are_counted_by_formal_parameter() {
    let resolver = |op_id: &'static str, indices: &[u32]| {
        let arg = |&index: &u32| record::ArgTypeAndIndex { arg_type: ArgType::Input, index };
        let args = indices.iter().map(arg).collect();
        let constraint = record::KernelTypeStrArgsEntry { kernel_type_str: "T".into(), args };
        record::KernelTypeStrResolver {
            op_kernel_type_str_args: vec![record::OpIdKernelTypeStrArgsEntry {
                op_id: op_id.into(),
                kernel_type_str_args: vec![constraint],
            }],
        }
    };
    let graph = "graph(x: float[]) -> () { y: float[] = Op-1 (x, _, x) }";
    let info = info();
    for (op_id, indices, expected) in [
        (":Op:1", &[0][..], &[3][..]),
        (":Op:1", &[0, 1], &[1, 2]),
        (":Op:1", &[2, 0], &[1, 1, 1]),
        (":Op:1", &[4], &[1, 1, 1, 0, 0]),
        (":Op:2", &[0], &[1, 1, 1]),
        (":Op:1", &[], &[1, 1, 1]),
    ] {
        let resolver = Some(resolver(op_id, indices));
        record_of(graph, Export { resolver, ..plain(&info) }, |file| {
            assert_eq!(file.model.graph.nodes[0].input_arg_counts, expected, "{indices:?}");
        });
    }
}

#[test]
fn what_a_file_cannot_represent_is_named() {
    for (graph, expected) in [
        (
            "graph() -> () { y = Op-1 () }",
            "value `y` is of type unknown, which .ort files cannot hold",
        ),
        (
            "graph(x: seq(optional(float[2]))) -> () {}",
            "value `x` is of type seq(optional(float[2])), which .ort files cannot hold",
        ),
        (
            "graph() -> () { y: float[] = Op-18 \"late\" () }",
            "node `late` (Op) follows version 18 of ai.onnx, but the model imports version 17",
        ),
        (
            "graph(x: float[]) -> () { y: float[] = Op-1 [body: graph() -> (x) {}] () }",
            "a subgraph of node `Op` returns `x`, which it only captures",
        ),
    ] {
        let (graph, info) = (parse(graph), info());
        let error: ExportError = export(&graph, plain(&info)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

proptest! {
    #[test]
    fn a_graph_that_is_written_and_read_prints_the_same(graph in arbitrary_graph(None)) {
        let read = written_and_read(&graph, &info()).graph;
        prop_assert_eq!(read.verify(), Ok(()));
        prop_assert_eq!(text(&read), text(&graph));
    }

    #[test]
    fn names_are_stable_after_one_export(graph in arbitrary_graph(Some("mine"))) {
        let read = written_and_read(&graph, &info()).graph;
        prop_assert_eq!(text(&written_and_read(&read, &info()).graph), text(&read));
    }
}
