//! `compare`.

use serde_json::Value as Json;

use crate::{Called, folder, keys, model, ort_cli};

fn silero(more: &[&str]) -> Called {
    let data = format!("{}/test_data_set_0", folder("silero_vad"));
    ort_cli([&["compare", &model("silero_vad"), "--inputs", &data, "--runs", "2"], more].concat())
}

/// What it prints as JSON, whatever the exit code is.
fn json(called: &Called) -> Json {
    serde_json::from_str(&called.stdout).unwrap_or_else(|_| panic!("{called:?}"))
}

#[test]
fn two_formats_of_a_model_compute_the_same() {
    let onnx = format!("{}/model.onnx", folder("ppocr_cls"));
    let data = format!("{}/test_data_set_0", folder("ppocr_cls"));
    let arguments = ["compare", &onnx, &model("ppocr_cls"), "--inputs", &data, "--json"];
    let json = ort_cli(arguments).json();
    assert_eq!(keys(&json), ["a", "b", "differs", "first_difference", "outputs", "values"]);
    let expected = [
        "first_ms", "isa", "level", "load_ms", "model", "p10_ms", "p50_ms", "p90_ms", "runs",
        "threads", "values",
    ];
    assert_eq!(keys(&json["a"]), expected);
    assert_eq!((&json["a"]["model"], &json["a"]["runs"]), (&Json::from(onnx), &Json::from(10)));
    let expected = ["beyond", "differs", "elements", "index", "max_abs", "max_rel", "name"];
    assert_eq!(keys(&json["outputs"][0]), expected);
    assert_eq!((&json["differs"], &json["first_difference"]), (&Json::from(false), &Json::Null));
}

#[test]
fn two_settings_of_a_model_are_compared_value_by_value() {
    let called = silero(&["--set-b", "provider=reference", "--set-b", "level=disable", "--json"]);
    let json = called.json();
    assert_eq!((&json["a"]["level"], &json["b"]["level"]), (&"all".into(), &"disable".into()));
    let values = json["values"].as_array().unwrap();
    assert!(values.len() >= 3, "{json}");
    let expected =
        ["a", "b", "beyond", "differs", "elements", "index", "max_abs", "max_rel", "name"];
    assert_eq!(keys(&values[0]), expected);
    assert_eq!(keys(&values[0]["a"]), ["node", "operator"]);
    // Sums in another order round differently: some value is not equal to the last bit.
    assert!(values.iter().any(|value| value["max_abs"].as_f64().unwrap() > 0.0));
    assert!(values.iter().all(|value| value["differs"] == false), "{json}");
}

#[test]
fn differing_outputs_have_their_own_exit_code_and_the_first_node_is_named() {
    let exact = ["--set-b", "provider=reference", "--rtol", "0", "--atol", "0"];
    let called = silero(&[&exact[..], &["--json"]].concat());
    assert_eq!(called.code, Some(3), "{called:?}");
    let report = json(&called);
    assert_eq!(report["differs"], true);
    let values = report["values"].as_array().unwrap();
    let first = values.iter().find(|value| value["differs"] == true).unwrap();
    assert_eq!(&report["first_difference"], first);
    assert!(first["beyond"].as_u64().unwrap() > 0 && first["index"].is_array(), "{first}");

    let called = silero(&exact);
    assert_eq!((called.code, called.stderr.as_str()), (Some(3), ""));
    let (name, node) = (first["name"].as_str().unwrap(), first["a"]["node"].as_str().unwrap());
    let first = format!("first difference: `{name}` of node `{node}`");
    for text in ["A  ", "B  ", "max abs", "output", "stateN", &first, " in A, ", "p50"] {
        assert!(called.stdout.contains(text), "{text} is not in\n{}", called.stdout);
    }
}

#[test]
fn the_same_model_is_the_same_to_the_last_bit() {
    let called = silero(&[&*model("silero_vad"), "--rtol", "0", "--atol", "0", "--nodes"]);
    assert_eq!((called.code, called.stderr.as_str()), (Some(0), ""));
    assert!(called.stdout.contains(": no difference"), "{}", called.stdout);
    assert!(called.stdout.contains("operator"), "{}", called.stdout);
}

#[test]
fn inputs_without_a_file_are_random_and_the_same_for_both() {
    let called = ort_cli(["compare", &model("magika"), "--set-b", "level=basic", "--runs", "1"]);
    assert_eq!(called.code, Some(0), "{called:?}");
    assert!(called.stderr.starts_with("note: input `bytes`"), "{}", called.stderr);
}

#[test]
fn models_with_different_outputs_or_inputs_are_reported() {
    let called = silero(&[&*model("magika")]);
    assert_eq!((called.code, called.stdout.as_str()), (Some(1), ""));
    let expected = format!("error: {}: there is no input `input`", model("magika"));
    assert!(called.stderr.starts_with(&expected), "{}", called.stderr);
}

#[test]
fn wrong_settings_of_b_are_wrong_usage() {
    for (more, expected) in [
        (&[][..], "<B>"),
        (&["--set-b", "level=most"], "invalid value 'most' for '--level <LEVEL>'"),
        (&["--set-b", "levle=all"], "a similar argument exists: '--level'"),
        (&["--set-b", "level=all", "--set-b", "level=basic"], "cannot be used multiple times"),
        (&["--set-b", "level=all", "--rtol", "-1"], "--rtol"),
    ] {
        let called = silero(more);
        assert_eq!((called.code, called.stdout.as_str()), (Some(2), ""), "{called:?}");
        assert!(called.stderr.contains(expected), "{}", called.stderr);
    }
}
