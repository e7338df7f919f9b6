//! Sessions: in many tasks, in many processes, and what they cost.

use crate::{run, shipped};

#[test]
fn requests_are_answered_until_their_deadline() {
    let model = shipped("ppocr_cls/model.onnx");
    let serve = env!("CARGO_BIN_EXE_serve");
    assert_eq!(run(serve, &[&model, "3", "600000"]), "3 answered, 0 too late\n");
    assert_eq!(run(serve, &[&model, "3", "0"]), "0 answered, 3 too late\n");
}

#[test]
fn the_first_process_creates_the_cache_file_and_the_second_finds_it() {
    let folder = tempfile::tempdir().unwrap();
    let model = shipped("ppocr_cls/model.onnx");
    let args = [&model, folder.path().to_str().unwrap(), "2"];
    let printed = run(env!("CARGO_BIN_EXE_processes"), &args);
    let lines: Vec<_> = printed.lines().collect();
    assert_eq!(lines.len(), 2, "{printed}");
    assert!(lines[0].starts_with("process 0: cache Made"), "{printed}");
    assert!(lines[1].starts_with("process 1: cache Found"), "{printed}");
    assert!(lines[1].contains(", 0 KiB packed in private memory"), "{printed}");
}

#[test]
fn memory_and_time_are_listed() {
    let printed = run(env!("CARGO_BIN_EXE_profile"), &[&shipped("ppocr_cls/model.onnx")]);
    for row in [" steps, ", "Conv", "KiB  the model's bytes", "KiB  activations of the largest run"]
    {
        assert!(printed.contains(row), "{row}: {printed}");
    }
}
