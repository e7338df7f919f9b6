//! `run`.

use std::path::Path;

use ort_tensor_io::{Tolerance, compare, read_value};

use crate::{folder, keys, model, ort_cli, pooling};

#[test]
fn the_outputs_are_printed_with_times_and_memory() {
    let inputs = format!("{}/test_data_set_0", folder("silero_vad"));
    let called = ort_cli(["run", &model("silero_vad"), "--inputs", &inputs]);
    assert_eq!((called.code, called.stderr.as_str()), (Some(0), ""));
    for text in
        ["level all", "in one arena", "output", "stateN", "2x1x128", "load", "first run", "mapped"]
    {
        assert!(called.stdout.contains(text), "{text} is not in\n{}", called.stdout);
    }
}

#[test]
fn json_has_these_keys() {
    let called = ort_cli(["run", &model("magika"), "--json"]);
    let json = called.json();
    let expected =
        ["first_ms", "isa", "level", "load_ms", "memory", "model", "outputs", "planned", "threads"];
    assert_eq!(keys(&json), expected);
    let expected = ["first", "max", "mean", "min", "name", "not_finite", "shape", "type"];
    assert_eq!(keys(&json["outputs"][0]), expected);
    assert_eq!(
        keys(&json["memory"]),
        ["activations", "packed", "weights_copied", "weights_mapped"]
    );
    assert_eq!(json["outputs"][0]["name"], "target_label");
    assert_eq!(json["outputs"][0]["shape"], serde_json::json!([1, 214]));
}

#[test]
fn random_inputs_are_the_same_every_time_and_assumed_sizes_are_reported() {
    let once = || ort_cli(["run", &model("magika"), "--json"]);
    let (a, b) = (once(), once());
    assert_eq!(a.json()["outputs"], b.json()["outputs"]);
    let note =
        "note: input `bytes` (int32[unk__214,2048]) is assumed to be 1x2048; set --shape bytes=…";
    assert_eq!(a.stderr.trim_end(), note);
}

#[test]
fn a_given_shape_is_not_an_assumption_and_binds_its_symbols() {
    let called = ort_cli(["run", &model("silero_vad"), "--shape", "input=2x512", "--json"]);
    assert_eq!(called.stderr, "");
    assert_eq!(called.json()["outputs"][0]["shape"], serde_json::json!([2, 1]));
}

#[test]
fn outputs_are_written_under_their_names() {
    let results = tempfile::tempdir().unwrap();
    let data = format!("{}/test_data_set_0", folder("silero_vad"));
    let results_path = results.path().join("new/folder");
    let results_text = results_path.to_str().unwrap();
    let called =
        ort_cli(["run", &model("silero_vad"), "--inputs", &data, "--output", results_text]);
    assert_eq!(called.code, Some(0), "{called:?}");
    for (i, name) in ["output", "stateN"].into_iter().enumerate() {
        let file = format!("output_{i}.pb");
        let found = read_value(&results_path.join(&file), None).unwrap();
        let expected = read_value(&Path::new(&data).join(&file), None).unwrap();
        assert_eq!(found.name, name);
        // The tolerance of the model's own data.
        compare(&expected.value, &found.value, Tolerance::default()).unwrap();
    }
}

#[test]
fn an_input_can_come_from_a_file_of_any_name() {
    let file = format!("bytes={}/test_data_set_0/input_0.pb", folder("magika"));
    let from_file = ort_cli(["run", &model("magika"), "--input", &file, "--json"]);
    assert_eq!(from_file.stderr, "");
    let data = format!("{}/test_data_set_0", folder("magika"));
    let from_folder = ort_cli(["run", &model("magika"), "--inputs", &data, "--json"]);
    assert_eq!(from_file.json()["outputs"], from_folder.json()["outputs"]);
}

#[test]
fn the_arena_is_kept_according_to_our_option_or_onnx_runtimes_key() {
    let model = model("magika");
    for (options, is_kept) in [
        (&[][..], true),
        (&["--arena", "keep"], true),
        (&["--arena", "off"], false),
        (&["--config", "session.enable_cpu_mem_arena=0"], false),
        (&["--config", "session.enable_cpu_mem_arena=1"], true),
        (
            &[
                "--config",
                "session.enable_cpu_mem_arena=0",
                "--config",
                "session.enable_mem_pattern=0",
            ],
            false,
        ),
        (&["--config", "session.enable_cpu_mem_arena=0", "--arena", "shrink"], true),
    ] {
        let json = ort_cli(["run", &model, "--json"].iter().chain(options).copied()).json();
        let planned = json["planned"]["arena"].as_u64().unwrap();
        let expected = if is_kept { planned } else { 0 };
        assert_eq!(json["memory"]["activations"], expected, "{options:?}");
        assert!(planned >= json["planned"]["live"].as_u64().unwrap());
    }
}

#[test]
fn only_the_requested_outputs_are_computed() {
    let data = format!("{}/test_data_set_0", folder("silero_vad"));
    let called = |more: &[&str]| {
        let model = model("silero_vad");
        ort_cli([&["run", &model, "--inputs", &data, "--json"], more].concat())
    };
    let names = |more: &[&str]| {
        let json = called(more).json();
        let outputs = json["outputs"].as_array().unwrap().iter();
        outputs.map(|output| output["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["output", "stateN"]);
    assert_eq!(names(&["--only", "stateN"]), ["stateN"]);
    assert_eq!(names(&["--only", "stateN", "--only", "output"]), ["stateN", "output"]);
    let unknown = called(&["--only", "state"]);
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.stderr.contains("no output `state`; did you mean `stateN`?"), "{unknown:?}");
}

#[test]
fn a_run_that_takes_too_long_is_an_error() {
    for command in [&["run"][..], &["bench", "--seconds", "0.01"]] {
        let with = |timeout| {
            let model = model("magika");
            ort_cli([command, &[&model, "--json", "--timeout", timeout]].concat())
        };
        assert_eq!(with("3600").code, Some(0));
        let called = with("0");
        assert_eq!((called.code, called.stdout.as_str()), (Some(1), ""));
        assert!(called.stderr.contains("over the limit of 0ns"), "{}", called.stderr);
        assert_eq!(with("-1").code, Some(2));
    }
}

#[test]
fn limits_are_options_of_every_command_that_loads() {
    let model = model("magika");
    let cases: [(&[&str], &str); 5] = [
        (&["--max-nodes", "1"], "more nodes than the limit of 1"),
        (&["--max-elements", "1"], "elements, over the limit of 1"),
        (&["--max-load-time", "0"], "over the limit of 0ns"),
        (&["--max-run-mib", "0"], "bytes of memory, over the limit of 0"),
        (&["--max-run-time", "0"], "over the limit of 0ns"),
    ];
    for (limits, expected) in cases {
        let called = ort_cli([&["run", &model][..], limits].concat());
        assert_eq!(called.code, Some(1), "{limits:?}");
        assert!(called.stderr.contains(expected), "{limits:?}: {}", called.stderr);
    }
    let generous = ["--max-load-mib", "4096", "--max-run-mib", "4096", "--max-depth", "0"];
    let generous = [&["run", &model][..], &generous, &["--max-iterations", "0"]].concat();
    assert_eq!(ort_cli(generous).code, Some(0));
}

#[test]
fn sizes_are_searched_that_the_nodes_accept() {
    let root = tempfile::tempdir().unwrap();
    let file = |size: u16| {
        let path = root.path().join(format!("pool_{size}.onnx"));
        std::fs::write(&path, pooling::model(size)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let twenty = file(20);
    let note = "note: input `x` (float[n,1,h,w]) is assumed to be 1x1x32x32; set --shape x=…";
    for command in [
        &["run"][..],
        &["bench", "--seconds", "0"],
        &["profile", "--runs", "1"],
        &["mem", "--runs", "1"],
        &["compare", "--runs", "1", "--set-b", "level=basic"],
    ] {
        let called = ort_cli([command, &[&twenty, "--json"]].concat());
        assert_eq!(called.stderr.lines().next(), Some(note), "{called:?}");
        assert_eq!(called.code, Some(0), "{called:?}");
    }
    let json = ort_cli(["run", &twenty, "--json"]).json();
    assert_eq!(json["outputs"][0]["shape"], serde_json::json!([1, 1, 13, 13]));
    // A given shape is used as it is, even if it is wrong.
    let called = ort_cli(["run", &twenty, "--shape", "x=1x1x9x9"]);
    assert_eq!(called.code, Some(1));
    assert!(called.stderr.starts_with(&format!("error: {twenty}: ")), "{}", called.stderr);
    let called = ort_cli(["run", &file(5000)]);
    assert_eq!((called.code, called.stdout.as_str()), (Some(1), ""));
    let expected = "error: no valid sizes found for the free dimensions of `x`: set --shape x=…; ";
    assert!(
        called.stderr.starts_with(expected) && called.stderr.contains("`pool`"),
        "{}",
        called.stderr
    );
}
