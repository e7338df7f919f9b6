//! Each program works as documented, with small models instead of large ones.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its own functions too")]

mod audio;
mod extending;
mod pictures;
mod search;
mod sessions;

use std::path::{Path, PathBuf};
use std::process::Command;

/// What a program prints; it must succeed.
fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// A model that comes with the repository.
fn shipped(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models").join(path);
    path.to_str().unwrap().to_owned()
}

/// A file in `folder` with the model of this text.
fn model(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("model.ort");
    let model = ort_examples::model(text, &ort_ops::registry()).unwrap();
    std::fs::write(&path, model.as_slice()).unwrap();
    path
}

#[test]
fn a_program_without_arguments_prints_its_usage() {
    for program in [
        env!("CARGO_BIN_EXE_classify"),
        env!("CARGO_BIN_EXE_profile"),
        env!("CARGO_BIN_EXE_ocr"),
        env!("CARGO_BIN_EXE_custom_pass"),
        env!("CARGO_BIN_EXE_processes"),
        env!("CARGO_BIN_EXE_read_ort"),
        env!("CARGO_BIN_EXE_search"),
        env!("CARGO_BIN_EXE_serve"),
        env!("CARGO_BIN_EXE_vad"),
    ] {
        let output = Command::new(program).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains("usage: "), "{program}: {stderr}");
    }
}
