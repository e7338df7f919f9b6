//! The memory report, by kind.

use ort_format::{DataType, record};
use ort_session::{
    CopyReason, Kind, Level, Load, MemoryReport, ModelBytes, Retained, Session, Tensor,
};

use crate::model::{ModelWriter, gated};

/// Bytes that are not aligned for floats.
pub(crate) struct Shifted(Vec<u8>);

impl Shifted {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        // The allocator's alignment is larger than this.
        Self([&[0; 4], bytes].concat())
    }
}

impl AsRef<[u8]> for Shifted {
    fn as_ref(&self) -> &[u8] {
        &self.0[4..]
    }
}

fn copied(report: &MemoryReport, reason: CopyReason) -> &Retained {
    &report.weights_copied.iter().find(|(its, _)| *its == reason).unwrap().1
}

/// Asserts that resident parts add up, and do not exceed the total; also
/// true where the system does not report residency.
fn assert_adds_up(report: &MemoryReport) {
    let copied = report.weights_copied.iter().map(|(_, retained)| retained);
    let kinds = [
        &report.weights_mapped,
        &report.packed_mapped,
        &report.packed_heap,
        &report.activations_retained,
    ];
    let model = [report.model.whole, report.model.weights, report.model.structure];
    let usages = copied.chain(kinds).map(|retained| retained.usage).chain(model);
    for usage in usages {
        let Some(residency) = usage.residency else { continue };
        assert_eq!(residency.shared + residency.private, residency.resident, "{report:?}");
        assert!(residency.resident <= usage.virtual_bytes, "{report:?}");
    }
}

/// `y = (a + b) · x` with weights a and b, which are folded.
fn folded() -> Vec<u8> {
    ModelWriter::default()
        .input("x", &[-1, 3])
        .constant("a", &[3], &[1.0, 2.0, 3.0])
        .constant("b", &[3], &[1.0, -2.0, 0.5])
        .node("Add", 14, &["a", "b"], "sum")
        .node("Mul", 14, &["sum", "x"], "y")
        .output("y")
        .bytes()
}

#[test]
fn aligned_weights_are_mapped_and_others_copied() {
    let builder = || Session::builder().level(Level::Disable);
    let aligned = builder().commit(ModelBytes::from_vec(doubles())).unwrap().memory();
    assert_eq!(aligned.weights_mapped.largest, [("d".to_owned(), 24)]);
    assert_eq!(aligned.copied_bytes(), 0);
    let shifted = ModelBytes::from_owner(Shifted::new(&doubles()));
    let report = builder().commit(shifted).unwrap().memory();
    let retained = copied(&report, CopyReason::NotAligned);
    assert_eq!((retained.count, retained.n_bytes()), (1, 24));
    assert_eq!(retained.largest, [("d".to_owned(), 24)]);
    assert_eq!((report.weights_mapped.count, report.copied_bytes()), (0, 24));
    assert_eq!(report.model.kind, Kind::Owner);
    assert_adds_up(&report);
}

#[test]
fn a_folded_weight_is_computed_and_its_operands_are_dropped() {
    let session = Session::builder().commit(ModelBytes::from_vec(folded())).unwrap();
    let report = session.memory();
    let retained = copied(&report, CopyReason::Computed);
    assert_eq!((retained.count, retained.n_bytes()), (1, 12));
    assert_eq!(report.weights_mapped.count, 0);
    // The file still has both.
    assert_eq!(report.model.weights.virtual_bytes, 24);
    let whole = report.model.whole.virtual_bytes;
    assert_eq!(report.model.structure.virtual_bytes, whole - 24);
    assert_adds_up(&report);
}

#[test]
fn strings_are_copied() {
    let session = Session::builder().level(Level::Disable);
    let report = session.commit(ModelBytes::from_vec(strings())).unwrap().memory();
    let retained = copied(&report, CopyReason::Strings);
    assert_eq!(retained.count, 1);
    assert_eq!(retained.n_bytes(), 2 * size_of::<String>() + "onethree".len());
    assert_adds_up(&report);
}

#[test]
fn a_packed_constant_is_counted_once_for_all_its_nodes() {
    let weights: Vec<f32> = (0_u8..=255).cycle().map(f32::from).take(64 * 64).collect();
    let model = ModelWriter::default()
        .input("x", &[-1, 64])
        .input("z", &[-1, 64])
        .constant("w", &[64, 64], &weights)
        .node("MatMul", 13, &["x", "w"], "y")
        .output("y")
        .node("MatMul", 13, &["z", "w"], "u")
        .output("u")
        .bytes();
    let report = Session::builder().commit(ModelBytes::from_vec(model)).unwrap().memory();
    assert_eq!((report.packed_heap.count, report.packed_mapped.count), (1, 0), "{report:?}");
    assert!(report.packed_heap.n_bytes() >= 64 * 64 * 4);
    // Both kernels read the packed constant, and its elements are not read.
    assert_eq!((report.weights_mapped.count, report.weights_released), (0, 1));
    assert_adds_up(&report);
}

#[test]
fn activations_are_planned_by_the_first_run_and_held_after_it() {
    let path = std::env::temp_dir().join(format!("ort-session-memory-{}.ort", std::process::id()));
    std::fs::write(&path, gated()).unwrap();
    let builder = Session::builder().level(Level::Layout).load(Load::Mapped);
    let session = builder.commit_from_file(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let before = session.memory();
    assert_eq!((before.activations_planned.signatures, before.activations_retained.count), (0, 0));
    assert_eq!(before.model.kind, Kind::Mapped);
    for n in [2, 1000] {
        let x = Tensor::from_slice(&[n, 3], &vec![1.0_f32; n * 3]).unwrap();
        session.run([("x", &x)]).unwrap();
    }
    let after = session.memory();
    let planned = after.activations_planned;
    // The sum, which the gate overwrites: 24 bytes in a cache line, and 12,000 in 188.
    assert_eq!((planned.signatures, planned.n_bytes, planned.largest), (2, 12_096, 12_032));
    assert!(after.activations_retained.n_bytes() >= planned.largest, "{after:?}");
    assert!(after.objects.plan > before.objects.plan && before.objects.graph > 0);
    assert_adds_up(&after);
    if let Some(residency) = after.weights_mapped.usage.residency {
        assert_eq!(residency.resident, 12, "the weights were read");
    }
}

fn of_type(name: &'static str, elem_type: DataType, n: i64) -> record::ValueInfo<'static> {
    let dims = record::DimensionValue {
        dim_type: ort_format::DimensionValueType::Value,
        dim_value: n,
        ..record::DimensionValue::default()
    };
    let dim = vec![record::Dimension { value: dims, ..record::Dimension::default() }];
    let shape = Some(record::Shape { dim });
    let tensor = record::TensorTypeAndShape { elem_type, shape };
    let value = Some(record::TypeInfoValue::Tensor(tensor));
    let type_info = Some(record::TypeInfo { value, ..record::TypeInfo::default() });
    record::ValueInfo { name: name.into(), type_info, ..record::ValueInfo::default() }
}

/// `y = w`, with a weight of any type.
fn constant(weight: record::Tensor<'static>) -> Vec<u8> {
    let (data_type, n, name) = (weight.data_type, weight.dims[0], weight.name.clone());
    let node = record::Node {
        op_type: "Identity".into(),
        since_version: 16,
        inputs: vec![name],
        outputs: vec!["y".into()],
        input_arg_counts: vec![1],
        ..record::Node::default()
    };
    let graph = record::Graph {
        outputs: vec!["y".into()],
        node_args: vec![of_type("d", data_type, n), of_type("y", data_type, n)],
        initializers: vec![weight],
        nodes: vec![node],
        ..record::Graph::default()
    };
    let opset_import = vec![record::OperatorSetId { domain: "".into(), version: 17 }];
    let model = record::Model { ir_version: 8, opset_import, graph, ..record::Model::default() };
    ort_format::write(&record::File { model, ..record::File::default() }).unwrap()
}

/// A weight that must be aligned to 8.
pub(crate) fn doubles() -> Vec<u8> {
    let raw: Vec<u8> = [1.0_f64, 2.0, 3.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    constant(record::Tensor {
        name: "d".into(),
        dims: vec![3],
        data_type: DataType::Double,
        raw_data: Some(raw.into()),
        ..record::Tensor::default()
    })
}

fn strings() -> Vec<u8> {
    constant(record::Tensor {
        name: "d".into(),
        dims: vec![2],
        data_type: DataType::String,
        string_data: Some(vec!["one".into(), "three".into()]),
        ..record::Tensor::default()
    })
}
