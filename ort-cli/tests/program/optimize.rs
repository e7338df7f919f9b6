//! `optimize`.

use std::fs;
use std::path::Path;

use crate::{folder, keys, model, ort_cli};

/// A place for a file, as text.
fn at(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().unwrap().to_owned()
}

#[test]
fn json_has_these_keys() {
    let json = ort_cli(["optimize", &model("silero_vad"), "--json"]).json();
    let expected = [
        "applied",
        "file_bytes",
        "last",
        "left_out_bytes",
        "level",
        "model",
        "ms",
        "nodes",
        "operators",
        "output",
        "packed_bytes",
        "passes",
    ];
    assert_eq!(keys(&json), expected);
    for pair in ["file_bytes", "nodes"] {
        assert_eq!(keys(&json[pair]), ["after", "before"]);
    }
    let expected = ["applied", "exactness", "level", "ms", "name", "refused"];
    assert_eq!(keys(&json["passes"][0]), expected);
    assert_eq!(keys(&json["operators"][0]), ["after", "before", "domain", "op_type"]);
    assert!(json["output"].is_null() && json["file_bytes"]["after"].is_null(), "not saved");
}

#[test]
fn the_saved_model_passes_the_test_of_the_original() {
    let root = tempfile::tempdir().unwrap();
    for name in ["magika", "silero_vad"] {
        let case = root.path().join(name);
        let set = Path::new(&folder(name)).join("test_data_set_0");
        fs::create_dir_all(case.join("test_data_set_0")).unwrap();
        for file in fs::read_dir(set).unwrap().map(Result::unwrap) {
            fs::copy(file.path(), case.join("test_data_set_0").join(file.file_name())).unwrap();
        }
        let output = at(&case, "model.ort");
        let called = ort_cli(["optimize", &model(name), "-o", &output]);
        assert_eq!((called.code, called.stderr.as_str()), (Some(0), ""));
        assert!(called.stdout.contains(&output), "{}", called.stdout);
        // What is optimized is not optimized further. (Images are converted from NCHWc and back.)
        let nodes = &ort_cli(["optimize", &output, "--json"]).json()["nodes"];
        assert_eq!(nodes["after"], nodes["before"], "{nodes}");
    }
    let called = ort_cli(["test", root.path().to_str().unwrap()]);
    assert!(called.stdout.ends_with("2 passed, 0 failed, 0 skipped\n"), "{}", called.stdout);
}

#[test]
fn the_text_report_lists_what_each_pass_did() {
    let called = ort_cli(["optimize", &model("silero_vad"), "--explain"]);
    assert_eq!((called.code, called.stderr.as_str()), (Some(0), ""));
    for text in
        ["level all", "blocked by", "EliminateIdentity", "bitwise", "found nothing", "nodes →"]
    {
        assert!(called.stdout.contains(text), "{text} is not in\n{}", called.stdout);
    }
}

#[test]
fn a_pass_can_be_disabled_in_two_ways() {
    let key = "optimization.disable_specified_optimizers=EliminateIdentity;CastElimination";
    for option in [["--disable", "EliminateIdentity"], ["--config", key]] {
        let model = model("silero_vad");
        let json = ort_cli(["optimize", &model, "--json", option[0], option[1]]).json();
        let passes = json["passes"].as_array().unwrap();
        assert!(passes.iter().all(|pass| pass["name"] != "EliminateIdentity"), "{json}");
    }
}

#[test]
fn an_approximate_pass_can_be_enabled_in_two_ways() {
    let key = "optimization.enable_gelu_approximation";
    for (option, value, expected) in [
        ("--enable", "GeluApproximation", true),
        ("--config", &*format!("{key}=1"), true),
        ("--config", &*format!("{key}=0"), false),
    ] {
        let json = ort_cli(["optimize", &model("magika"), "--json", option, value]).json();
        let passes = json["passes"].as_array().unwrap();
        let has_run = passes.iter().any(|pass| pass["exactness"] == "approximate");
        assert_eq!(has_run, expected, "{option} {value}");
    }
}

#[test]
fn stopping_early_names_the_last_rewrite() {
    let root = tempfile::tempdir().unwrap();
    let arguments =
        |n| ["optimize", &model("silero_vad"), "--json", "--stop-after", n].map(String::from);
    let none = ort_cli(arguments("0").iter().map(String::as_str)).json();
    assert_eq!((&none["applied"], none["last"].is_null()), (&serde_json::json!(0), true));
    let output = at(root.path(), "none.ort");
    let called = ort_cli(["optimize", &model("silero_vad"), "-o", &output, "--stop-after", "0"]);
    assert!(called.stdout.contains("0 rewrites"), "{}", called.stdout);
}

#[test]
fn a_failure_to_save_is_reported_and_nothing_is_lost() {
    let root = tempfile::tempdir().unwrap();
    let (path, copy) = (model("magika"), at(root.path(), "model.ort"));
    fs::copy(&path, &copy).unwrap();
    let same = at(root.path(), "./model.ort");
    let (none, here) = (at(root.path(), "none/model.ort"), at(root.path(), ""));
    for (output, expected) in [
        (&copy, format!("{copy}: this would overwrite the model: choose another --output")),
        (&same, format!("{same}: this would overwrite the model: choose another --output")),
        (&here, format!("{here}: not a file")),
        (&none, format!("{none}: cannot be written: ")),
    ] {
        let called = ort_cli(["optimize", &copy, "-o", output]);
        assert_eq!((called.code, called.stdout.as_str()), (Some(1), ""), "{called:?}");
        assert!(called.stderr.starts_with(&format!("error: {expected}")), "{}", called.stderr);
    }
    assert_eq!(fs::read(&copy).unwrap(), fs::read(&path).unwrap());
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
}
