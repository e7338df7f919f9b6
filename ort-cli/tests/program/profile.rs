//! `profile`.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value as Json;

use crate::bench::OPERATOR_KEYS;
use crate::{folder, keys, model, ort_cli};

/// Calls `profile` for a model with subgraphs, with two runs.
fn profile(more: &[&str]) -> crate::Called {
    let (path, data) = (model("silero_vad"), format!("{}/test_data_set_0", folder("silero_vad")));
    let common = ["profile", &path, "--inputs", &data, "--runs", "2", "--threads", "2"];
    ort_cli(common.into_iter().chain(more.iter().copied()))
}

#[test]
fn json_has_these_keys() {
    let json = profile(&["--json"]).json();
    let expected = [
        "denormal_weights",
        "isa",
        "level",
        "load_ms",
        "nodes",
        "operators",
        "peak",
        "runs_ms",
        "stages",
        "threads",
    ];
    assert_eq!(keys(&json), expected);
    assert_eq!(json["runs_ms"].as_array().unwrap().len(), 3);
    let operators = json["operators"].as_array().unwrap();
    assert!(operators.iter().all(|operator| keys(operator) == OPERATOR_KEYS));
    let stages: BTreeSet<&str> = { json["stages"].as_array().unwrap().iter() }
        .map(|stage| stage["name"].as_str().unwrap())
        .collect();
    for stage in ["model_loading_uri", "verify", "build", "optimize", "ConstantFolding", "compile"]
    {
        assert!(stages.contains(stage), "{stage} is not in {stages:?}");
    }
    assert!(stages.contains("pack") && stages.contains("session_initialization"));
}

#[test]
fn weights_are_checked_even_if_a_cache_has_them_packed() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
    let (file, cache) = (path("model.ort"), path("cache"));
    let mut bytes = fs::read(model("magika")).unwrap();
    // Two denormal numbers in a matrix that kernels read only packed.
    let at = (bytes.len() / 10).next_multiple_of(4);
    bytes[at..at + 8].copy_from_slice(&[1, 0, 0, 0, 1, 0, 0, 0]);
    fs::write(&file, bytes).unwrap();
    for _ in 0..2 {
        let words = ["profile", &file, "--runs", "1", "--json", "--cache-dir", &cache];
        assert_eq!(ort_cli(words).json()["denormal_weights"], 2);
    }
}

#[test]
fn the_text_report_comes_with_a_trace_and_a_page() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
    let (trace, page) = (path("trace.json"), path("page.html"));
    let called = profile(&["-o", &trace, "--html", &page, "--nodes", "3"]);
    assert_eq!((called.code, called.stderr.as_str()), (Some(0), ""));
    for text in ["operator", "LSTM", "share", "of peak", "GB/s", "denormals", "kernel"] {
        assert!(called.stdout.contains(text), "{text} is not in\n{}", called.stdout);
    }

    let events: Json = serde_json::from_slice(&fs::read(trace).unwrap()).unwrap();
    let events = events.as_array().unwrap();
    let runs = events.iter().filter(|event| event["name"] == "model_run").count();
    assert_eq!(runs, 3);
    let of_lstm = |event: &&Json| event["cat"] == "Node" && event["args"]["op_name"] == "LSTM";
    assert_eq!(events.iter().filter(of_lstm).count(), 3, "it is in a subgraph");

    let page = fs::read_to_string(page).unwrap();
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("src="));
    for text in ["<svg", "class=roof", "class=lane", "One run", "Loading", "LSTM", "<script>"] {
        assert!(page.contains(text), "{text}");
    }
    let count = |text: &str| page.matches(text).count();
    for tag in ["div", "table", "i", "p", "h2", "svg", "dl", "style", "script"] {
        let opened = count(&format!("<{tag} ")) + count(&format!("<{tag}>"));
        assert_eq!(opened, count(&format!("</{tag}>")), "{tag}");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let missing = std::env::temp_dir().join("no-such-folder").join("x");
    let missing = missing.to_str().unwrap();
    for option in ["--output", "--html"] {
        let called = profile(&[option, missing]);
        assert_eq!((called.code, called.stdout.as_str()), (Some(1), ""));
        assert!(called.stderr.starts_with(&format!("error: {missing}: cannot be written: ")));
    }
}
