//! `convert`.

use std::fs;
use std::path::Path;

use crate::{folder, keys, model, ort_cli};

/// A place for a file, as text.
fn at(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().unwrap().to_owned()
}

/// The `.onnx` file of one of the models that come with the repository.
fn onnx(name: &str) -> String {
    format!("{}/model.onnx", folder(name))
}

#[test]
fn a_model_goes_to_the_other_format_and_back() {
    let root = tempfile::tempdir().unwrap();
    let (ort, back) = (at(root.path(), "a.ort"), at(root.path(), "b.onnx"));
    for (from, to) in [(onnx("ppocr_cls"), &ort), (ort.clone(), &back)] {
        let json = ort_cli(["convert", &from, "-o", to, "--json"]).json();
        assert_eq!(keys(&json), ["file_bytes", "model", "output"]);
        assert_eq!(json["file_bytes"].as_u64(), Some(fs::metadata(to).unwrap().len()));
    }
    let inputs = at(Path::new(&folder("ppocr_cls")), "test_data_set_0");
    let outputs = [&onnx("ppocr_cls"), &ort, &back].map(|model| {
        let out = tempfile::tempdir().unwrap();
        let to = out.path().to_str().unwrap();
        let called = ort_cli(["run", model, "--inputs", &inputs, "--output", to]);
        assert_eq!(called.code, Some(0), "{called:?}");
        let files = fs::read_dir(out.path()).unwrap().map(|file| fs::read(file.unwrap().path()));
        files.map(Result::unwrap).collect::<Vec<_>>()
    });
    assert!(outputs[0] == outputs[1] && outputs[1] == outputs[2] && !outputs[0].is_empty());
}

#[test]
fn a_folder_is_converted_as_far_as_it_can_be() {
    let root = tempfile::tempdir().unwrap();
    let (from, to) = (root.path().join("from"), at(root.path(), "to"));
    fs::create_dir_all(from.join("below")).unwrap();
    fs::copy(model("magika"), from.join("below/good.ort")).unwrap();
    fs::write(from.join("bad.onnx"), "not a model").unwrap();
    let config = at(root.path(), "required.config");
    let words = ["--required-operators", &config, "--enable-type-reduction", "--format", "onnx"];
    let called = ort_cli(["convert", from.to_str().unwrap(), "-o", &to].iter().chain(&words));
    assert_eq!(called.code, Some(1), "{called:?}");
    assert!(called.stderr.contains("bad.onnx"), "{}", called.stderr);
    assert!(Path::new(&to).join("below/good.onnx").is_file());
    let config = fs::read_to_string(config).unwrap();
    assert!(config.contains("good.ort") && !config.contains("bad.onnx"), "{config}");
    let types = r#"Cast{"inputs": {"0": ["#;
    assert!(config.contains("\nai.onnx;13;") && config.contains(types), "{config}");
}

#[test]
fn a_style_and_a_platform_exclude_what_does_not_run_everywhere() {
    let root = tempfile::tempdir().unwrap();
    let to = at(root.path(), "a.ort");
    let operators = |words: &[&str]| {
        let from = onnx("ppocr_cls");
        let called = ort_cli(["convert", &from, "-o", &to].iter().chain(words));
        assert_eq!(called.code, Some(0), "{called:?}");
        ort_cli(["inspect", &to, "--json"]).json().to_string()
    };
    let layout = ["--level", "layout", "--target-platform", "amd64"];
    let (blocks, fused) = ("com.microsoft.nchwc", "FusedConv");
    assert!(operators(&layout).contains(blocks));
    assert!(!operators(&layout[..2]).contains(blocks));
    assert!(operators(&layout[..2]).contains(fused));
    let runtime = operators(&["--level", "all", "--optimization-style", "runtime"]);
    assert!(!runtime.contains(blocks) && !runtime.contains(fused));
}

#[test]
fn a_model_is_not_overwritten_by_its_conversion() {
    let root = tempfile::tempdir().unwrap();
    let at = at(root.path(), "a.ort");
    fs::copy(model("magika"), &at).unwrap();
    let called = ort_cli(["convert", &at, "-o", &at]);
    assert_eq!(called.code, Some(1));
    assert!(called.stderr.contains("this would overwrite the model"), "{}", called.stderr);
    let called = ort_cli(["convert", &at, "-o", "model"]);
    assert!(called.stderr.contains("ends in .ort or .onnx"), "{}", called.stderr);
}
