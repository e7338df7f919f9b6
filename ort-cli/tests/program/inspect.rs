//! `inspect`.

use crate::{keys, model, ort_cli};

#[test]
fn json_has_these_keys() {
    let json = ort_cli(["inspect", &model("silero_vad"), "--json"]).json();
    let expected = [
        "denormals",
        "file_bytes",
        "format",
        "hints",
        "inputs",
        "model",
        "operators",
        "outputs",
        "subgraphs",
        "version",
        "warnings",
        "weights",
    ];
    assert_eq!(keys(&json), expected);
    assert_eq!(keys(&json["hints"]), ["edges", "providers", "runtime_optimizations"]);
    assert_eq!(keys(&json["inputs"][0]), ["has_default", "name", "type"]);
    assert_eq!(
        keys(&json["operators"][0]),
        ["domain", "nodes", "op_type", "unsupported", "version"]
    );
    assert_eq!(keys(&json["weights"][0]), ["bytes", "tensors", "type"]);
    let expected = [
        "doc_string",
        "domain",
        "graph_doc_string",
        "ir_version",
        "metadata",
        "model_version",
        "opsets",
        "producer_name",
        "producer_version",
    ];
    assert_eq!(keys(&json["model"]), expected);
    assert!(json["denormals"].is_null(), "not requested");
}

#[test]
fn it_lists_the_contents_of_the_file() {
    let json = ort_cli(["inspect", &model("silero_vad"), "--weights", "--json"]).json();
    assert_eq!(json["inputs"][0]["name"], "input");
    assert_eq!(json["inputs"][0]["type"], "float[batch,sequence]");
    assert_eq!(json["outputs"][1]["name"], "stateN");
    assert_eq!(json["weights"][0]["type"], "float");
    assert!(json["subgraphs"].as_u64().unwrap() > 0, "it has If nodes");
    let operators = json["operators"].as_array().unwrap();
    assert!(operators.iter().all(|operator| operator["unsupported"].is_null()), "{operators:?}");
    let lstm = operators.iter().find(|operator| operator["op_type"] == "LSTM").unwrap();
    assert_eq!(lstm["nodes"], 2, "one for each sampling rate, both below If");
    assert!(json["denormals"].is_array());
}

#[test]
fn the_text_report_has_tables() {
    let called = ort_cli(["inspect", &model("silero_vad")]);
    assert_eq!((called.code, called.stderr.as_str()), (Some(0), ""));
    for text in ["float[batch,sequence]", "ai.onnx", "LSTM", "all supported", "weights: 1."] {
        assert!(called.stdout.contains(text), "{text} is not in\n{}", called.stdout);
    }
}
