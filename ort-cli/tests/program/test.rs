//! `test`.

use std::fs;
use std::path::Path;

use ort_session::Tensor;
use ort_tensor_io::write_value;
use serde_json::{Value as Json, json};

use crate::{folder, keys, model, ort_cli};

/// The case `silero_vad` as `name` in a folder, its model under these names.
fn copy(to: &Path, name: &str, models: &[&str]) -> String {
    let data = to.join(name).join("test_data_set_0");
    fs::create_dir_all(&data).unwrap();
    for entry in fs::read_dir(format!("{}/test_data_set_0", folder("silero_vad"))).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, data.join(path.file_name().unwrap())).unwrap();
    }
    for file in models {
        fs::copy(model("silero_vad"), to.join(name).join(file)).unwrap();
    }
    data.to_str().unwrap().to_owned()
}

#[test]
fn cases_that_pass_print_only_the_sum() {
    let called = ort_cli(["test", &folder("silero_vad"), &folder("ppocr_cls")]);
    assert_eq!((called.code, called.stderr.as_str()), (Some(0), ""));
    assert_eq!(called.stdout, "3 passed, 0 failed, 0 skipped\n");
}

#[test]
fn each_case_has_a_line_of_json_and_the_last_line_is_the_sum() {
    let root = tempfile::tempdir().unwrap();
    copy(root.path(), "good", &["model.raw.ort", "model.all.ort"]);
    let wrong = copy(root.path(), "wrong", &["model.ort"]);
    let value = Tensor::from_slice(&[1, 1], &[7_f32]).unwrap().into();
    write_value(&Path::new(&wrong).join("output_0.pb"), "output", &value).unwrap();
    copy(root.path(), "broken", &["model.ort"]);
    fs::write(root.path().join("broken/model.ort"), "not a model").unwrap();

    let called = ort_cli(["test", root.path().to_str().unwrap(), "--json"]);
    assert_eq!((called.code, called.stderr.as_str()), (Some(1), ""));
    let mut lines: Vec<&str> = called.stdout.lines().collect();
    assert_eq!(lines.pop(), Some("2 passed, 2 failed, 0 skipped"));
    let lines: Vec<Json> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().all(|line| keys(line) == ["case", "message", "status"]));
    let found: Vec<_> = lines.iter().map(|line| (&line["case"], &line["status"])).collect();
    let expected = [
        ("broken", "error"),
        ("good/model.all.ort", "pass"),
        ("good/model.raw.ort", "pass"),
        ("wrong", "fail"),
    ];
    assert_eq!(json!(found), json!(expected));
    let message = lines[3]["message"].as_str().unwrap();
    assert!(
        message.starts_with("test_data_set_0: output `output`: element [0, 0]: expected 7.0"),
        "{message}"
    );
}

#[test]
fn a_glob_selects_models_and_a_case_without_one_is_skipped() {
    let root = tempfile::tempdir().unwrap();
    copy(root.path(), "several", &["model.raw.ort", "model.all.ort"]);
    copy(root.path(), "one", &["model.ort"]);
    let called = ort_cli(["test", root.path().to_str().unwrap(), "--model", "*.raw.ort"]);
    assert_eq!(called.code, Some(0), "{called:?}");
    let expected = "skip   one  no model matches *.raw.ort\n1 passed, 0 failed, 1 skipped\n";
    assert_eq!(called.stdout, expected);
}

#[test]
fn a_folder_without_cases_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().to_str().unwrap();
    let called = ort_cli(["test", path]);
    assert_eq!((called.code, called.stdout.as_str()), (Some(1), ""));
    let expected =
        format!("error: {path}: no test case here: a .ort or .onnx file next to test_data_set_0\n");
    assert_eq!(called.stderr, expected);
}
