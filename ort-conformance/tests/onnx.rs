//! A model is the same in both formats: every node case, random networks, and one whose elements
//! are in another file.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its own functions too")]

use std::path::Path;

use bytes::Bytes;
use ort_conformance::{differential, node_cases};
use ort_onnx::schema::{GraphProto, StringStringEntryProto};
use ort_onnx::{Limits, ModelProto};
use ort_session::{
    Level, Load, ModelBytes, Optimized, Session, SessionBuilder, SessionError, Tensor, Value,
};

fn builder(level: Level) -> SessionBuilder {
    Session::builder().level(level).threads(1)
}

fn optimize(level: Level, bytes: Bytes) -> Result<Optimized, SessionError> {
    builder(level).optimize(ModelBytes::from_owner(bytes))
}

/// The text of the same model from a `.onnx` file; `None` if a file cannot represent it.
fn from_onnx(level: Level, plain: &Optimized) -> Option<String> {
    let bytes = Bytes::from(plain.to_onnx_bytes().ok()?);
    Some(optimize(level, bytes).unwrap().text())
}

#[test]
fn every_node_case_is_the_same_graph_from_both_formats() {
    let files = node_cases::unpack(include_bytes!("../fixtures/node_cases.bin")).unwrap();
    let (mut n_same, mut different) = (0, Vec::new());
    for (path, bytes) in files.into_iter().filter(|(path, _)| path.ends_with(".ort")) {
        // Models with unsupported operators are skipped.
        let Ok(plain) = optimize(Level::Disable, bytes) else { continue };
        match from_onnx(Level::Disable, &plain) {
            Some(text) if text == plain.text() => n_same += 1,
            Some(text) => different.push(format!("{path}:\n{}\n{text}", plain.text())),
            None => println!("{path}: not written"),
        }
    }
    println!("{n_same} graphs are the same");
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different[0]);
    assert!(n_same > 1500);
}

#[test]
fn random_networks_compute_the_same_from_both_formats() {
    let n_families = differential::families().len();
    for i in 0..3 * n_families {
        let (bytes, inputs) = differential::drawn(i % n_families, i as u64, 200_000).unwrap();
        let plain = optimize(Level::Disable, bytes.clone()).unwrap();
        let onnx = Bytes::from(plain.to_onnx_bytes().unwrap());
        let run = |bytes: Bytes| -> Vec<Value> {
            let session = builder(Level::All).commit(ModelBytes::from_owner(bytes)).unwrap();
            let inputs = inputs.iter().map(|(name, tensor)| (name.as_str(), tensor));
            session.run(inputs.collect::<Vec<_>>()).unwrap().into_values()
        };
        // Compared as text, since NaN does not equal itself.
        assert_eq!(format!("{:?}", run(bytes)), format!("{:?}", run(onnx)), "case {i}");
    }
}

/// A model of the repository with its initializers moved to another file, and that file.
fn with_external_data() -> (Vec<u8>, Vec<u8>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/ppocr_cls/model.onnx");
    let plain = builder(Level::Disable).optimize_from_file(path).unwrap();
    let bytes = Bytes::from(plain.to_onnx_bytes().unwrap());
    let mut model: ModelProto = ort_onnx::open(&bytes, &Limits::default()).unwrap();
    let mut data = Vec::new();
    let graph: &mut GraphProto = model.graph.as_mut().unwrap();
    for tensor in &mut graph.initializer {
        let Some(raw) = tensor.raw_data.take() else { continue };
        let entries = [("offset", data.len().to_string()), ("length", raw.len().to_string())];
        let location = ("location", "weights.bin".to_owned());
        let entry =
            |(key, value): (&str, String)| StringStringEntryProto { key: key.to_owned(), value };
        tensor.external_data = std::iter::once(location).chain(entries).map(entry).collect();
        tensor.data_location = 1;
        data.extend_from_slice(&raw);
        data.resize(data.len().next_multiple_of(64), 0);
    }
    assert!(data.len() > 100_000);
    (ort_onnx::encode(&model).unwrap(), data)
}

#[test]
fn external_data_is_mapped_from_any_folder() {
    let (model, data) = with_external_data();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    std::fs::write(&path, &model).unwrap();
    let missing = builder(Level::Disable).commit_from_file(&path).unwrap_err();
    assert!(missing.to_string().contains("weights.bin: no such file"), "{missing}");
    std::fs::write(folder.path().join("weights.bin"), &data).unwrap();
    let session = builder(Level::Disable).commit_from_file(&path).unwrap();
    assert_eq!(session.external_data()[0].len(), data.len());
    let memory = session.memory();
    assert_eq!(memory.copied_bytes(), 0, "{memory:?}");
    assert!(memory.model.whole.virtual_bytes >= model.len() + data.len());
    // From memory, under its name; and without it.
    let bytes = || ModelBytes::from_vec(model.clone());
    let given = builder(Level::Disable).external_data("weights.bin", ModelBytes::from_vec(data));
    assert!(given.commit(bytes()).is_ok());
    let absent = builder(Level::Disable).commit(bytes()).unwrap_err();
    assert!(absent.to_string().contains("there is no file `weights.bin`"), "{absent}");
    let elsewhere = builder(Level::Disable).external_data_folder(folder.path());
    assert!(elsewhere.commit(bytes()).is_ok());
}

/// Without the file, too.
#[test]
fn provided_external_data_is_not_read_from_files() {
    let (model, data) = with_external_data();
    let plain = ort_onnx::open(&Bytes::from(model.clone()), &Limits::default()).unwrap();
    let files = [("weights.bin".to_owned(), Bytes::from(data.clone()))].into();
    let mut given = builder(Level::All);
    for tensor in plain.graph.unwrap().initializer {
        let (name, dtype, shape) = (tensor.name.clone(), tensor.dtype(), tensor.shape());
        if tensor.is_external() {
            let elements = tensor.into_elements(&files).unwrap();
            let ort_onnx::Elements::Bytes(bytes) = elements else { continue };
            let value = Tensor::from_bytes(dtype.unwrap(), &shape.unwrap(), bytes).unwrap();
            given = given.external_initializer(name, value);
        }
    }
    let bytes = || ModelBytes::from_vec(model.clone());
    let with_file = builder(Level::All).external_data("weights.bin", ModelBytes::from_vec(data));
    let [given, with_file] = [given, with_file].map(|builder| builder.optimize(bytes()).unwrap());
    assert_eq!(given.to_bytes().unwrap(), with_file.to_bytes().unwrap());
}

/// A packed file of a cache depends on all files of a model.
#[test]
fn a_cache_notices_changed_external_data() {
    let (model, mut data) = with_external_data();
    let (folder, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (path, weights) = (folder.path().join("model.onnx"), folder.path().join("weights.bin"));
    std::fs::write(&path, &model).unwrap();
    let n_packed = |data: &[u8]| {
        std::fs::write(&weights, data).unwrap();
        let builder = builder(Level::Disable).load(Load::Read).cache_dir(cache.path());
        builder.commit_from_file(&path).unwrap();
        let files = std::fs::read_dir(cache.path()).unwrap().flatten();
        files.filter(|file| file.file_name().to_string_lossy().ends_with(".packed.ort")).count()
    };
    assert_eq!([n_packed(&data), n_packed(&data)], [1, 1]);
    data[0] ^= 1;
    assert_eq!(n_packed(&data), 2);
}

#[cfg(unix)]
#[test]
fn links_out_of_the_folder_are_followed_only_if_allowed() {
    let (model, data) = with_external_data();
    let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = folder.path().join("model.onnx");
    std::fs::write(&path, &model).unwrap();
    std::fs::write(outside.path().join("secret"), &data).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), folder.path().join("weights.bin"))
        .unwrap();
    let refused = builder(Level::Disable).commit_from_file(&path).unwrap_err();
    assert!(refused.to_string().contains("a link leads out of the folder"), "{refused}");
    let with_folder = builder(Level::Disable).external_data_folder(folder.path());
    assert!(with_folder.commit_from_file(&path).is_ok());
}
