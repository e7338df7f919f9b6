//! A mapped model stays out of private memory: in a separate process, as other tests would
//! count, too.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its own functions too")]

use std::sync::Arc;

use ort_ep::Reference;
use ort_format::{DataType, record};
use ort_session::{Level, Session, process_memory};

const N_WEIGHTS: usize = 16 << 20;
/// The limit of a session's private memory beyond what it reports.
const MAX_PRIVATE_BYTES: u64 = 5 << 20;

#[test]
fn loading_a_mapped_model_copies_no_weights_and_dropping_it_leaves_nothing() {
    let Some(_) = process_memory().unwrap() else {
        println!("skipped: this system does not report the memory of a process");
        return;
    };
    let path = std::env::temp_dir().join(format!("ort-private-memory-{}.ort", std::process::id()));
    std::fs::write(&path, model()).unwrap();
    let before = private_bytes();
    let builder = Session::builder().level(Level::Disable).provider(Arc::new(Reference));
    let session = builder.commit_from_file(&path).unwrap();
    let loaded = private_bytes();
    let memory = session.memory();
    assert_eq!(
        (memory.weights_mapped.n_bytes(), memory.copied_bytes(), memory.packed_heap.n_bytes()),
        (N_WEIGHTS * 4, 0, 0)
    );
    drop(session);
    let dropped = private_bytes();
    std::fs::remove_file(&path).unwrap();
    assert!(loaded < before + MAX_PRIVATE_BYTES, "{before} bytes before, {loaded} after");
    assert!(dropped < before + MAX_PRIVATE_BYTES, "{before} bytes before, {dropped} in the end");
}

fn private_bytes() -> u64 {
    process_memory().unwrap().unwrap().rss_anon
}

/// `y = x + w` with 64 MiB of weights.
fn model() -> Vec<u8> {
    let n = i64::try_from(N_WEIGHTS).unwrap();
    let value = |name: &'static str| {
        let dims = record::DimensionValue {
            dim_type: ort_format::DimensionValueType::Value,
            dim_value: n,
            ..Default::default()
        };
        let dim = vec![record::Dimension { value: dims, ..Default::default() }];
        let shape = Some(record::Shape { dim });
        let tensor = record::TensorTypeAndShape { elem_type: DataType::Float, shape };
        let value = Some(record::TypeInfoValue::Tensor(tensor));
        let type_info = Some(record::TypeInfo { value, ..Default::default() });
        record::ValueInfo { name: name.into(), type_info, ..Default::default() }
    };
    let weights = record::Tensor {
        name: "w".into(),
        dims: vec![n],
        data_type: DataType::Float,
        raw_data: Some(vec![1; N_WEIGHTS * 4].into()),
        ..Default::default()
    };
    let node = record::Node {
        op_type: "Add".into(),
        since_version: 14,
        inputs: vec!["x".into(), "w".into()],
        outputs: vec!["y".into()],
        input_arg_counts: vec![1, 1],
        ..Default::default()
    };
    let graph = record::Graph {
        inputs: vec!["x".into()],
        outputs: vec!["y".into()],
        node_args: ["x", "w", "y"].map(value).into(),
        initializers: vec![weights],
        nodes: vec![node],
        ..Default::default()
    };
    let opset_import = vec![record::OperatorSetId { domain: "".into(), version: 14 }];
    let model = record::Model { ir_version: 8, opset_import, graph, ..Default::default() };
    ort_format::write(&record::File { model, ..Default::default() }).unwrap()
}
