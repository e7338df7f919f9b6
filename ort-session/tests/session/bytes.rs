//! Sources of a model's bytes, and the errors for bytes that are not a model.

use std::path::PathBuf;
use std::sync::Arc;

use ort_session::{
    FileFormat, Level, Load, ModelBytes, Session, SessionBuilder, SessionError, Tensor, inspect,
};

use crate::model::gated;

/// A file that is removed at the end of the test.
struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("ort-session-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Self(path)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn run(session: &Session) -> Vec<f32> {
    let x = Tensor::from_slice(&[1, 3], &[1.0_f32, 2.0, 3.0]).unwrap();
    let outputs = session.run([("x", &x)]).unwrap();
    outputs[0].as_tensor().unwrap().as_slice::<f32>().unwrap().to_vec()
}

#[test]
fn every_source_of_bytes_gives_the_same_session() {
    let file = TempFile::new("sources.ort", &gated());
    let leaked: &'static [u8] = gated().leak();
    let shared: Arc<[u8]> = gated().into();
    let from_file = |load| Session::builder().load(load).commit_from_file(&file.0).unwrap();
    let from = |bytes| Session::builder().commit(bytes).unwrap();
    let sessions = [
        from_file(Load::Mapped),
        from_file(Load::Populated),
        from_file(Load::Read),
        from_file(Load::Sealed),
        from_file(Load::Auto),
        from(ModelBytes::from_vec(gated())),
        from(ModelBytes::from_static(leaked)),
        from(ModelBytes::from_owner(shared)),
    ];
    for session in &sessions {
        assert_eq!(run(session), [2.0, 0.0, 10.5], "{:?}", session.bytes().kind());
    }
}

#[test]
fn constants_are_slices_of_the_mapping() {
    let file = TempFile::new("mapped.ort", &gated());
    // At level `all` the sum and the gate would be one step.
    let builder = Session::builder().level(Level::Layout);
    let session = builder.commit_from_file(&file.0).unwrap();
    let memory = session.memory();
    assert_eq!((memory.weights_mapped.n_bytes(), memory.copied_bytes()), (12, 0));
    // The file may be removed: users of the mapping keep it alive.
    drop(file);
    assert_eq!(run(&session), [2.0, 0.0, 10.5]);
    // One arena: the sum, which the gate overwrites, in one cache line.
    assert_eq!(session.memory().activations_planned.n_bytes, 64);
}

#[test]
fn the_error_states_the_detected_format() {
    let message = |bytes: &[u8]| {
        let bytes = ModelBytes::from_vec(bytes.to_vec());
        Session::builder().commit(bytes).map(drop).unwrap_err().to_string()
    };
    let on = |builder: SessionBuilder, path: &PathBuf| {
        builder.commit_from_file(path).map(drop).unwrap_err().to_string()
    };
    let missing = std::env::temp_dir().join("no-such-model.ort");
    assert!(on(Session::builder(), &missing).contains("no-such-model.ort"));
    let empty = TempFile::new("empty.ort", b"");
    assert!(on(Session::builder(), &empty.0).contains("empty"));
    assert!(on(Session::builder(), &std::env::temp_dir()).contains("folder"));
    let short = b"\x04\0\0\0ORTM";
    assert!(message(short).contains("too few"), "{}", message(short));
    // Field 1 (ir_version) as a varint, then field 2 (producer_name): what ONNX files begin with.
    let onnx = b"\x08\x08\x12\x07pytorch\x1a\x051.9.0:\x10rest of the file";
    assert!(message(onnx).starts_with("graph, byte 20: the message ends"), "{}", message(onnx));
    assert!(message(&[7; 64]).contains("ORTM"), "{}", message(&[7; 64]));
}

#[test]
fn other_formats_are_named_in_errors() {
    for (bytes, expected) in [
        (&b""[..], FileFormat::Empty),
        (b"GGUF\x03\0\0\0\0", FileFormat::Gguf),
        (b"\x20\0\0\0TFL3\0\0", FileFormat::TfLite),
        // It begins like a `.onnx` file with the field ir_version.
        (b"\x08\0\0\0\0\0\0\0{\"a\": 1}", FileFormat::Safetensors),
        (b"<html>", FileFormat::Html),
    ] {
        let error = Session::builder().commit(ModelBytes::from_static(bytes)).unwrap_err();
        let SessionError::NotAModel { format } = error else { panic!("{error}") };
        assert_eq!(format, expected);
        let inspected = inspect(&ModelBytes::from_static(bytes)).unwrap_err().to_string();
        let message = format!("this is {format}, not an ONNX or ORT model: {}", format.advice());
        assert_eq!(inspected, message);
    }
}
