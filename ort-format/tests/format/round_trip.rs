//! Files read as they were written, and writing is deterministic.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use expect_test::expect;
use ort_format::record::{File, Graph, OperatorSetId, Tensor};
use ort_format::{
    AttributeValue, DataType, File as View, FormatError, Limits, Oddity, WriteError, open,
    open_with_warnings, write,
};
use ort_tensor::{Ending, TensorError, ended_by, within};

use crate::models::{self, conv_relu, floats, node, resolver, texts, values};

fn view(bytes: &[u8]) -> View<'_> {
    open(bytes, &Limits::default()).unwrap()
}

#[test]
fn every_model_round_trips() {
    for (name, record) in models::all() {
        let bytes = write(&record).unwrap();
        // Lookups by key use binary search: the writer has sorted what the model lists in any order.
        assert_eq!(view(&bytes).to_record(), sorted(record), "{name}");
    }
}

fn sorted(mut file: File<'_>) -> File<'_> {
    if let Some(resolver) = &mut file.kernel_type_str_resolver {
        resolver.op_kernel_type_str_args.sort_by(|a, b| a.op_id.cmp(&b.op_id));
    }
    file
}

#[test]
fn equal_models_have_equal_bytes() {
    for (name, record) in models::all() {
        let bytes = write(&record).unwrap();
        assert_eq!(bytes, write(&record.clone()).unwrap(), "{name}");
        assert_eq!(bytes, write(&view(&bytes).to_record()).unwrap(), "{name}");
    }
}

#[test]
fn a_record_of_a_view_borrows_its_tensors() {
    let bytes = write(&conv_relu()).unwrap();
    let record = view(&bytes).to_record();
    let tensor = &record.model.graph.initializers[0];
    assert!(matches!(tensor.raw_data, Some(Cow::Borrowed(_))));
    assert!(matches!(tensor.name, Cow::Borrowed(_)));
}

#[test]
fn tensors_start_at_multiples_of_64_bytes() {
    for (name, record) in models::all() {
        let bytes = write(&record).unwrap();
        assert_eq!(bytes.len() % 64, 0, "{name}");
        let graph = view(&bytes).model().graph();
        let data = graph.initializers().iter().filter_map(|tensor| tensor.raw_data());
        for data in
            data.chain(graph.sparse_initializers().iter().filter_map(|s| s.indices().raw_data()))
        {
            let offset = data.as_ptr().addr() - bytes.as_ptr().addr();
            assert_eq!(offset % 64, 0, "{name}");
        }
    }
}

#[test]
fn equal_texts_are_stored_once() {
    let long = "a name that is long enough to be recognized";
    let graph = Graph {
        node_args: values(&[long, "y"]),
        nodes: vec![node(long, "Add", 0, &[long, long], &["y"])],
        inputs: texts(&[long]),
        ..Graph::default()
    };
    let bytes = write(&models::file(graph)).unwrap();
    assert_eq!(bytes.windows(long.len()).filter(|window| *window == long.as_bytes()).count(), 1);
}

#[test]
fn edges_follow_from_names() {
    let dump = |file: &File<'_>| {
        let bytes = write(file).unwrap();
        let graph = view(&bytes).model().graph();
        let mut text = format!("{} slots\n", graph.max_node_index());
        for edge in graph.node_edges() {
            let ends = |ends: ort_format::Vector<'_, ort_format::EdgeEnd>| -> Vec<String> {
                ends.iter()
                    .map(|end| {
                        format!("{}:{}>{}", end.node_index, end.src_arg_index, end.dst_arg_index)
                    })
                    .collect()
            };
            text += &format!(
                "node {} from {:?} to {:?}\n",
                edge.node_index(),
                ends(edge.input_edges()),
                ends(edge.output_edges()),
            );
        }
        text
    };
    expect![[r#"
        3 slots
        node 0 from ["2:0>0"] to []
        node 2 from [] to ["0:0>0"]
    "#]]
    .assert_eq(&dump(&conv_relu()));
    // The captures of a subgraph come after the explicit inputs.
    expect![[r#"
        2 slots
        node 0 from [] to ["1:0>1"]
        node 1 from ["0:0>1"] to []
    "#]]
    .assert_eq(&dump(&models::branches()));
}

#[test]
fn the_version_follows_from_the_resolver() {
    let mut file = conv_relu();
    let mut versions = Vec::new();
    for ops in [&[":Conv:13", ":Relu:13", ":Unused:1"][..], &[":Conv:13", ":Relu:6"], &[]] {
        file.kernel_type_str_resolver = Some(resolver(ops));
        let bytes = write(&file).unwrap();
        versions.push((view(&bytes).version(), view(&bytes).kernel_type_str_resolver().is_some()));
    }
    assert_eq!(versions, [(Some(6), true), (Some(4), false), (Some(4), false)]);
}

#[test]
fn a_resolver_must_know_the_nodes_of_subgraphs() {
    let mut file = models::branches();
    for (ops, version) in [
        (&[":If:13", ":Exp:13", ":Neg:13", ":Abs:13"][..], 6),
        (&[":If:13", ":Exp:13", ":Neg:13"], 4),
    ] {
        file.kernel_type_str_resolver = Some(resolver(ops));
        let bytes = write(&file).unwrap();
        assert_eq!(view(&bytes).version(), Some(version));
    }
}

#[test]
fn an_attribute_reads_by_its_type() {
    let bytes = write(&models::attributes()).unwrap();
    let node = view(&bytes).model().graph().nodes().get(0).unwrap();
    let dump: Vec<String> =
        node.attributes().iter().map(|attribute| brief(attribute.value())).collect();
    assert_eq!(
        dump,
        [
            "-0",
            "-9223372036854775808",
            "text",
            "t 2",
            "g 1",
            "[inf, 1.5]",
            "[]",
            r#"["a", "", "a"]"#,
            "2",
            "2"
        ],
    );
}

fn brief(value: AttributeValue<'_>) -> String {
    match value {
        AttributeValue::Float(f) => f.to_string(),
        AttributeValue::Int(i) => i.to_string(),
        AttributeValue::String(s) => s.to_owned(),
        AttributeValue::Tensor(t) => format!("t {}", t.dims().get(0).unwrap()),
        AttributeValue::Graph(g) => format!("g {}", g.node_args().len()),
        AttributeValue::Floats(floats) => format!("{:?}", floats.iter().collect::<Vec<_>>()),
        AttributeValue::Ints(ints) => format!("{:?}", ints.iter().collect::<Vec<_>>()),
        AttributeValue::Strings(strings) => format!("{:?}", strings.iter().collect::<Vec<_>>()),
        AttributeValue::Tensors(tensors) => tensors.len().to_string(),
        AttributeValue::Graphs(graphs) => graphs.len().to_string(),
        other => format!("{other:?}"),
    }
}

#[test]
fn two_initializers_with_the_same_name_cause_a_warning() {
    let initializers = vec![floats("w", &[1], 1), floats("w", &[2], 2)];
    let bytes = write(&models::file(Graph { initializers, ..Graph::default() })).unwrap();
    let (_, warnings) = open_with_warnings(&bytes, &Limits::default()).unwrap();
    assert_eq!(warnings[0].oddity, Oddity::DuplicateInitializer { name: "w".into() });
    assert_eq!(warnings.len(), 1);
}

/// Ends a computation when it has checked so many times.
#[derive(Debug)]
struct After {
    left: AtomicUsize,
}

impl Ending for After {
    fn is_ended(&self) -> bool {
        let less = |left: usize| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_err()
    }
}

/// Calls `body`, which ends at its check number `n`, counted from 0.
fn ended_at<R>(n: usize, body: impl FnOnce() -> R) -> R {
    let ending: Arc<dyn Ending> = Arc::new(After { left: AtomicUsize::new(n) });
    ended_by(&ending, body)
}

#[test]
fn reading_and_writing_many_parts_can_be_cancelled() {
    const N: usize = 200_000;
    let base = conv_relu;
    let with = |tensor: Tensor<'static>| {
        let mut file = base();
        file.model.graph.initializers.push(tensor);
        file
    };
    let mut tables = base();
    tables.model.opset_import = vec![OperatorSetId { domain: "".into(), version: 1 }; N];
    let texts = with(Tensor {
        name: "x".into(),
        dims: vec![N as i64],
        data_type: DataType::String,
        string_data: Some(vec!["text".into(); N]),
        ..Tensor::default()
    });
    let bytes = with(Tensor {
        name: "x".into(),
        dims: vec![128 << 20],
        data_type: DataType::Uint8,
        raw_data: Some(vec![1; 128 << 20].into()),
        ..Tensor::default()
    });
    let read = |bytes: &[u8], n| {
        ended_at(n, || open(bytes, &Limits::default()).map(drop))
            .is_err_and(|error| error == FormatError::Memory(TensorError::Ended))
    };
    let written = |file: &File<'_>, n| {
        ended_at(n, || write(file))
            .is_err_and(|error| error == WriteError::Memory(TensorError::Ended))
    };
    // The model alone checks a few times in all.
    const FEW: usize = 14;
    assert!(!read(&write(&base()).unwrap(), FEW) && !written(&base(), FEW));
    for (name, file, is_read) in
        [("tables", tables, true), ("texts", texts, true), ("bytes", bytes, false)]
    {
        assert!(written(&file, 0) && written(&file, FEW), "{name}");
        assert_eq!(read(&write(&file).unwrap(), FEW), is_read, "{name}");
    }
}

#[test]
fn memory_for_a_file_and_its_checks_is_counted() {
    let file = conv_relu();
    let bytes = write(&file).unwrap();
    let error = within(100, 100, || write(&file)).unwrap_err();
    assert!(matches!(error, WriteError::Memory(TensorError::NoMemory { .. })), "{error}");
    let error = within(1, 1, || open(&bytes, &Limits::default()).map(drop)).unwrap_err();
    assert!(matches!(error, FormatError::Memory(TensorError::NoMemory { .. })), "{error}");
}
