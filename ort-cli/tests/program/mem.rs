//! `mem`, and `bench --hold`.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use ort_session::Process;
use serde_json::Value as Json;

use crate::{folder, keys, model, ort_cli};

const STAGES: [&str; 8] = [
    "before load",
    "after load",
    "after first run",
    "after runs",
    "after drop",
    "after second load",
    "after second runs",
    "after second drop",
];

/// Whether the system reports the memory of a process; if not, the skip is printed.
fn is_reported() -> bool {
    let is_reported = matches!(Process::Own.mappings(), Ok(Some(_)));
    if !is_reported {
        println!("skipped: this system does not report the memory of processes");
    }
    is_reported
}

fn silero() -> (String, String) {
    (model("silero_vad"), format!("{}/test_data_set_0", folder("silero_vad")))
}

#[test]
fn json_has_these_keys_in_every_stage() {
    if !is_reported() {
        return;
    }
    let (path, data) = silero();
    let json = ort_cli(["mem", &path, "--inputs", &data, "--runs", "2", "--json"]).json();
    let expected = ["answers", "isa", "level", "model_bytes", "models", "runs", "stages"];
    assert_eq!(keys(&json), expected);
    let stages = json["stages"].as_array().unwrap();
    let names: Vec<&str> = stages.iter().map(|it| it["stage"].as_str().unwrap()).collect();
    assert_eq!(names, STAGES);
    for stage in stages {
        assert_stage(stage);
        let has_sessions = !stage["sessions"].as_array().unwrap().is_empty();
        let name = stage["stage"].as_str().unwrap();
        assert_eq!(has_sessions, !name.ends_with("drop") && name != "before load", "{name}");
        let model = stage["model_files"]["resident"].as_u64().unwrap();
        assert_eq!(has_sessions, model > 0, "{name}: the mapping lives as long as the session");
    }
    assert_session(&stages[3]["sessions"][0]);
    assert_eq!(stages[1]["sessions"][0]["activations_planned"]["signatures"], 0);
    assert!(!json["answers"].as_array().unwrap().is_empty());
}

fn assert_stage(stage: &Json) {
    let pages = ["anonymous", "huge", "private", "pss", "resident", "shared", "virtual"];
    let more =
        ["mappings", "model_files", "peak_resident", "purposes", "sessions", "stage", "threads"];
    let mut expected: Vec<&str> = pages.into_iter().chain(more).collect();
    expected.sort_unstable();
    assert_eq!(keys(stage), expected);
    let kinds = [
        "anonymous",
        "file",
        "heap",
        "kernel",
        "library",
        "program",
        "reserved",
        "shared_memory",
        "stack",
        "thread_stack",
    ];
    assert_eq!(keys(&stage["mappings"]), kinds);
    assert_eq!(keys(&stage["mappings"]["heap"]), pages);
    let purposes =
        ["activations", "copied", "inputs", "model", "other_files", "packed", "program", "rest"];
    assert_eq!(keys(&stage["purposes"]), purposes);
    let sum = |json: &Json| -> u64 {
        let of = |it: &Json| it.as_u64().or_else(|| it["resident"].as_u64()).unwrap();
        json.as_object().unwrap().values().map(of).sum()
    };
    let resident = stage["resident"].as_u64().unwrap();
    assert_eq!(sum(&stage["mappings"]), resident);
    assert_eq!(sum(&stage["purposes"]), resident);
}

fn assert_session(session: &Json) {
    let expected = [
        "activations_planned",
        "activations_retained",
        "model",
        "objects",
        "packed_heap",
        "packed_mapped",
        "weights_copied",
        "weights_mapped",
        "weights_released",
    ];
    assert_eq!(keys(session), expected);
    assert_eq!(keys(&session["activations_planned"]), ["bytes", "largest", "signatures"]);
    assert_eq!(keys(&session["model"]), ["kind", "packed", "structure", "weights", "whole"]);
    assert_eq!(keys(&session["objects"]), ["graph", "plan"]);
    assert_eq!(keys(&session["weights_copied"]), ["computed", "not_aligned", "strings"]);
    let held = ["count", "largest", "private", "resident", "shared", "virtual"];
    assert_eq!(keys(&session["weights_mapped"]), held);
    assert_eq!(keys(&session["weights_copied"]["computed"]), held);
    assert_eq!(session["model"]["kind"], "mapped");
    assert!(session["activations_planned"]["signatures"].as_u64().unwrap() > 0);
}

#[test]
fn the_text_report_has_tables_and_a_summary() {
    if !is_reported() {
        return;
    }
    let (path, data) = silero();
    let called = ort_cli(["mem", &path, "--inputs", &data, "--load", "read"]);
    assert_eq!((called.code, called.stderr.as_str()), (Some(0), ""));
    for text in [
        "first run",
        "RSS",
        "for: model",
        "in: heap",
        "packed constants",
        "read into private memory",
        "Released: RSS grew by",
        "Growth: ",
    ] {
        assert!(called.stdout.contains(text), "{text} is not in\n{}", called.stdout);
    }
}

#[test]
fn several_models_are_loaded_together() {
    if !is_reported() {
        return;
    }
    let (path, data) = silero();
    let (other, its_data) =
        (model("ppocr_cls"), format!("{}/test_data_set_0", folder("ppocr_cls")));
    let both = ["mem", &path, &other, "--inputs", &data, "--inputs", &its_data, "--json"];
    let json = ort_cli(both).json();
    assert_eq!(json["stages"][3]["sessions"].as_array().unwrap().len(), 2);
    let called = ort_cli(["mem", &path, &other, "--inputs", &data]);
    let message =
        "error: --inputs is given 1 times for 2 models: give it once for each, or not at all";
    assert_eq!((called.code, called.stderr.trim_end()), (Some(1), message));
    let called = ort_cli(["mem", &path, &other, "--shape", "typo=1x3", "--runs", "1"]);
    assert_eq!(called.code, Some(1), "no model has such an input");
    assert!(called.stderr.contains("typo"), "{}", called.stderr);
}

#[test]
fn the_picture_is_one_file_with_escaped_names() {
    if !is_reported() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (path, picture) = (folder.path().join("a&b.ort"), folder.path().join("m.svg"));
    let (model, data) = silero();
    std::fs::copy(model, &path).unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (path, picture) = (text(&path), text(&picture));
    let called = ort_cli(["mem", &path, "--inputs", &data, "--picture", &picture]);
    assert_eq!(called.code, Some(0), "{called:?}");
    let svg = std::fs::read_to_string(&picture).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert!(svg.contains("a&amp;b.ort") && svg.contains(">activations<") && svg.contains("MiB"));
    let nowhere = format!("{picture}/m.svg");
    let called = ort_cli(["mem", &path, "--inputs", &data, "--picture", &nowhere]);
    assert_eq!(called.code, Some(1));
    assert!(called.stderr.starts_with(&format!("error: {nowhere}: cannot be written")));
}

#[test]
fn processes_with_one_model_are_reported_one_by_one_and_together() {
    if !is_reported() {
        return;
    }
    let (path, data) = silero();
    // What follows `--` is a model, even if it looks like an option.
    let words = ["mem", "--inputs", &data, "--processes", "2", "--json", "--", &path];
    let json = ort_cli(words).json();
    assert_eq!(keys(&json), ["models", "processes", "sum"]);
    let processes = json["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 2);
    assert_ne!(processes[0]["process"], processes[1]["process"]);
    let expected = [
        "activations",
        "anonymous",
        "huge",
        "inputs",
        "model_files",
        "private",
        "private_without_activations",
        "pss",
        "resident",
        "shared",
        "virtual",
    ];
    assert_eq!(keys(&json["sum"]), expected);
    for key in ["resident", "pss", "private", "activations"] {
        let sum: u64 = processes.iter().map(|row| row[key].as_u64().unwrap()).sum();
        assert_eq!(json["sum"][key].as_u64(), Some(sum), "{key}");
        assert!(sum > 0, "{key}");
    }
    // Both map the file: a page is private only if one process alone has accessed it, and the
    // kernel maps 64 KiB around each accessed page.
    let of_model = |key: &str| json["sum"]["model_files"][key].as_u64().unwrap();
    let slack = 64 << 10;
    assert!(of_model("private") <= slack, "{json}");
    assert!(of_model("pss") <= of_model("resident") / 2 + slack, "{json}");
}

#[test]
fn what_processes_share_is_drawn_in_a_file_or_in_the_terminal() {
    if !is_reported() {
        return;
    }
    let (path, data) = silero();
    let root = tempfile::tempdir().unwrap();
    let picture = root.path().join("m.svg").to_str().unwrap().to_owned();
    let mem =
        |more: &[&str]| ort_cli([&["mem", &path, "--inputs", &data, "--runs", "1"], more].concat());
    let called = mem(&["--processes", "2", "--json", "--picture", &picture]);
    let json = called.json();
    let svg = std::fs::read_to_string(&picture).unwrap();
    for row in json["processes"].as_array().unwrap() {
        assert!(svg.contains(&format!(">{}<", row["process"])), "{svg}");
    }
    for text in [">together<", ">model, shared<", ">activations<", ">rest, private<"] {
        assert!(svg.contains(text), "{text} is not in {svg}");
    }
    for (more, expected) in [
        (
            &["--processes", "2"][..],
            &["  together  ", "  █ model, shared  ", "  ░ rest, private"][..],
        ),
        (&[], &["  after second drop  ", "  █ model  ", "  ░ rest"]),
    ] {
        let called = mem(&[more, &["--picture", "-"]].concat());
        assert_eq!((called.code, called.stderr.as_str()), (Some(0), ""));
        let (_, drawn) = called.stdout.split_once("\nResident memory: ").expect("a picture");
        for text in expected {
            assert!(drawn.contains(text), "{text} is not in\n{drawn}");
        }
        // No terminal: 80 columns.
        assert!(drawn.lines().skip(1).all(|line| line.chars().count() <= 80), "{drawn}");
    }
    let called = mem(&["--picture", "-", "--json"]);
    assert_eq!((called.code, called.stdout.as_str()), (Some(2), ""));
    assert!(called.stderr.contains("cannot be used with --json"), "{}", called.stderr);
}

#[test]
fn processes_that_cannot_load_the_model_are_reported() {
    if !is_reported() {
        return;
    }
    let shape = ["--shape", "input=1x2x3", "--shape", "state=1"];
    let path = model("silero_vad");
    let called = ort_cli(["mem", &path, "--processes", "2"].into_iter().chain(shape));
    assert_eq!(called.code, Some(1), "{called:?}");
    assert!(called.stderr.contains("failed: exit status: 1"), "{}", called.stderr);
}

#[test]
fn a_held_session_lives_until_standard_input_ends() {
    let (path, data) = silero();
    let mut child = Command::new(env!("CARGO_BIN_EXE_ort-cli"))
        .args(["bench", &path, "--inputs", &data, "--seconds", "0", "--hold", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut ready = String::new();
    output.read_line(&mut ready).unwrap();
    assert_eq!(ready, "SESSION_READY\n");
    assert!(child.try_wait().unwrap().is_none(), "it waits");
    if let Ok(Some(mappings)) = Process::Id(child.id()).mappings() {
        let model = Path::new(&path).canonicalize().unwrap();
        let mapped = mappings.iter().filter(|mapping| mapping.name == model);
        assert!(mapped.map(|mapping| mapping.pages.resident).sum::<u64>() > 0);
    }
    drop(child.stdin.take());
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success());
    let json: Json = serde_json::from_str(&rest).unwrap();
    assert!(json["runs"].as_u64().unwrap() >= 3);
}

#[cfg(unix)]
#[test]
fn a_model_whose_name_is_not_text_is_reported_like_others() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    if !is_reported() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(OsStr::from_bytes(b"\xff.ort"));
    let (model, data) = silero();
    if std::fs::copy(model, &path).is_err() {
        return println!("skipped: this system has no such file names");
    }
    let mem = |n_processes: &[&str]| {
        let mut words: Vec<&OsStr> = vec![OsStr::new("mem"), path.as_os_str()];
        words.extend(["--inputs", &data, "--json"].map(OsStr::new));
        words.extend(n_processes.iter().map(OsStr::new));
        ort_cli(words).json()
    };
    let resident = |of: &Json| of["model_files"]["resident"].as_u64().unwrap();
    assert!(resident(&mem(&[])["stages"][3]) > 0);
    assert!(resident(&mem(&["--processes", "1"])["sum"]) > 0);
}
