//! A gigabyte of external data stays out of private memory: in a separate process, as other tests
//! would count, too.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its own functions too")]

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};

use ort_onnx::schema::{
    GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto, TensorProto,
    TensorTypeProto, TypeProto, ValueInfoProto,
};
use ort_session::{Session, Tensor, process_memory};

const ROW_LEN: usize = 256;
const N_ROWS: usize = 1 << 20;
/// The limit of a session's private memory besides packed constants, of which there are none here.
const MAX_PRIVATE_BYTES: u64 = 60 << 20;

#[test]
fn a_gigabyte_of_external_data_is_mapped_and_not_copied() {
    let Some(_) = process_memory().unwrap() else {
        println!("skipped: this system does not report the memory of a process");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    std::fs::write(&path, model()).unwrap();
    // A sparse file with one row: it takes a page of the disk.
    let mut weights = File::create(folder.path().join("weights.bin")).unwrap();
    weights.set_len((N_ROWS * ROW_LEN * 4) as u64).unwrap();
    weights.seek(SeekFrom::Start((77_777 * ROW_LEN * 4) as u64)).unwrap();
    weights.write_all(&2.5_f32.to_le_bytes()).unwrap();
    let before = private_bytes();
    let session = Session::builder().threads(1).commit_from_file(&path).unwrap();
    let loaded = private_bytes();
    assert_eq!(session.memory().weights_mapped.n_bytes(), N_ROWS * ROW_LEN * 4);
    assert_eq!(session.memory().copied_bytes(), 0);
    let ids = Tensor::from_slice(&[2], &[77_777_i64, 1]).unwrap();
    let values = session.run([("ids", &ids)]).unwrap().into_values();
    let ran = private_bytes();
    let rows = values[0].as_tensor().unwrap().as_slice::<f32>().unwrap();
    assert_eq!((rows.len(), rows[0], rows[1..].iter().sum::<f32>()), (2 * ROW_LEN, 2.5, 0.0));
    for (when, now) in [("loaded", loaded), ("ran", ran)] {
        let grown = now.saturating_sub(before);
        println!("{} KiB of private memory more once it {when}", grown >> 10);
        assert!(grown < MAX_PRIVATE_BYTES, "{before} bytes before, {now} once it {when}");
    }
}

fn private_bytes() -> u64 {
    process_memory().unwrap().unwrap().rss_anon
}

/// `y = Gather(w, ids)`, with external `w`.
fn model() -> Vec<u8> {
    let entry = |(key, value): (&str, &str)| {
        let (key, value) = (key.to_owned(), value.to_owned());
        StringStringEntryProto { key, value }
    };
    let w = TensorProto {
        name: "w".to_owned(),
        data_type: 1,
        dims: [N_ROWS, ROW_LEN].map(|dim| i64::try_from(dim).unwrap()).to_vec(),
        external_data: [("location", "weights.bin"), ("offset", "0")].map(entry).to_vec(),
        data_location: 1,
        ..TensorProto::default()
    };
    let node = NodeProto {
        op_type: "Gather".to_owned(),
        input: vec!["w".to_owned(), "ids".to_owned()],
        output: vec!["y".to_owned()],
        ..NodeProto::default()
    };
    let value = |(name, elem_type): (&str, i32)| {
        let tensor_type = Some(TensorTypeProto { elem_type, shape: None });
        let r#type = Some(TypeProto { tensor_type, ..TypeProto::default() });
        ValueInfoProto { name: name.to_owned(), r#type }
    };
    let graph = GraphProto {
        node: vec![node],
        initializer: vec![w],
        input: vec![value(("ids", 7))],
        output: vec![value(("y", 1))],
        ..GraphProto::default()
    };
    let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: 17 }];
    let model =
        ModelProto { ir_version: 8, graph: Some(graph), opset_import, ..ModelProto::default() };
    ort_onnx::encode(&model).unwrap()
}
