//! `bench`.

use crate::{folder, keys, model, ort_cli};

const KEYS: [&str; 17] = [
    "cpus",
    "first_ms",
    "gflops",
    "isa",
    "level",
    "load_ms",
    "p10_ms",
    "p50_ms",
    "p90_ms",
    "p99_ms",
    "peak_rss_mib",
    "planned",
    "rss_anon_loaded_mib",
    "rss_anon_mib",
    "rss_file_mib",
    "runs",
    "threads",
];

#[test]
fn json_has_these_keys() {
    let data = format!("{}/test_data_set_0", folder("silero_vad"));
    let common = ["bench", &model("silero_vad"), "--inputs", &data, "--seconds", "0.01", "--json"];
    let json = ort_cli(common).json();
    assert_eq!(keys(&json), KEYS);
    assert!(json["runs"].as_u64().unwrap() >= 3);
    assert!(json["p10_ms"].as_f64().unwrap() <= json["p99_ms"].as_f64().unwrap());
}

#[test]
fn the_instruction_set_is_the_one_in_use() {
    let data = format!("{}/test_data_set_0", folder("silero_vad"));
    let common = ["bench", &model("silero_vad"), "--inputs", &data, "--seconds", "0.01", "--json"];
    let json = ort_cli(common.into_iter().chain(["--denormals", "preserve"])).json();
    assert_ne!(json["isa"], "amx", "matrix tiles flush denormals");
}

pub(crate) const OPERATOR_KEYS: [&str; 13] = [
    "bound",
    "bytes",
    "calls",
    "denormals",
    "flops",
    "gbytes_per_s",
    "gflops",
    "kernel",
    "ms",
    "operator",
    "share",
    "share_of_bound",
    "share_of_peak",
];

#[test]
fn json_lists_operators_and_nodes_on_request() {
    let data = format!("{}/test_data_set_0", folder("silero_vad"));
    let common = ["bench", &model("silero_vad"), "--inputs", &data, "--seconds", "0.01", "--json"];
    let with_ops = ort_cli(common.into_iter().chain(["--ops"])).json();
    assert_eq!(with_ops.as_object().unwrap().len(), KEYS.len() + 3);
    assert_eq!(keys(&with_ops["peak"]), ["gbytes_per_s", "gflops"]);
    let with_nodes = ort_cli(common.into_iter().chain(["--nodes=2"])).json();
    assert_eq!(with_nodes.as_object().unwrap().len(), KEYS.len() + 4);
    for json in [&with_ops, &with_nodes] {
        let operators = json["operators"].as_array().unwrap();
        assert!(operators.iter().all(|operator| keys(operator) == OPERATOR_KEYS));
        let sum = |key: &str| operators.iter().map(|row| row[key].as_f64().unwrap()).sum::<f64>();
        assert!((sum("share") - 1.0).abs() < 0.01, "shares add up to 1");
        assert!(sum("flops") > 0.0 && sum("bytes") > 0.0);
        let eval = operators.iter().filter(|row| row["kernel"] == "eval");
        let eval: f64 = eval.map(|row| row["share"].as_f64().unwrap()).sum();
        assert!((json["eval_share"].as_f64().unwrap() - eval).abs() < 0.01);
    }
    let nodes = with_nodes["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 2);
    assert!(nodes[0]["ms"].as_f64().unwrap() >= nodes[1]["ms"].as_f64().unwrap());
    let more = ["attributes", "inputs", "node", "nodes", "outputs"];
    let mut expected: Vec<&str> = OPERATOR_KEYS.into_iter().chain(more).collect();
    expected.sort_unstable();
    assert_eq!(keys(&nodes[0]), expected);
}

#[test]
fn options_and_onnx_runtimes_keys_choose_level_threads_and_instructions() {
    let shape = ["--shape", "input=1x512", "--shape", "state=2x1x128"];
    let of = |options: &[&str]| {
        let path = model("silero_vad");
        let fixed = ["bench", &path, "--seconds", "0", "--json"];
        let json = ort_cli(fixed.iter().chain(&shape).chain(options).copied()).json();
        let text = |key: &str| json[key].as_str().unwrap().to_owned();
        (text("level"), text("isa"), json["threads"].as_u64().unwrap())
    };
    let generic = |level: &str, n| (level.to_owned(), "generic".to_owned(), n);
    let options = ["--isa", "generic", "--threads", "1", "--level", "basic", "--load", "read"];
    assert_eq!(of(&options), generic("basic", 1));
    let config = |entry: &'static str| ["--config", entry];
    let [level, threads] =
        [config("session.graph_optimization_level=0"), config("session.intra_op_num_threads=1")];
    let options: Vec<&str> = [&["--isa", "generic"], &level[..], &threads].concat();
    assert_eq!(of(&options), generic("disable", 1));
    let wins: Vec<&str> = [&options[..], &["--level", "extended"]].concat();
    assert_eq!(of(&wins), generic("extended", 1));
}

#[test]
fn the_text_report_is_a_table() {
    let data = format!("{}/test_data_set_0", folder("silero_vad"));
    let path = model("silero_vad");
    let called =
        ort_cli(["bench", &path, "--inputs", &data, "--seconds", "0.01", "--ops", "--nodes"]);
    assert_eq!((called.code, called.stderr.as_str()), (Some(0), ""));
    for text in
        ["p50", "GFLOP/s", "operator", "LSTM", "share", "peak", "of peak", "node", "1x512x128"]
    {
        assert!(called.stdout.contains(text), "{text} is not in\n{}", called.stdout);
    }
}

#[test]
fn operations_are_those_of_whole_runs() {
    let data = format!("{}/test_data_set_0", folder("silero_vad"));
    let bench = |more: &[&str]| {
        let model = model("silero_vad");
        let call = ["bench", &model, "--inputs", &data, "--seconds", "0.01", "--json"];
        ort_cli([&call, more].concat())
    };
    assert!(bench(&[]).json()["gflops"].as_f64().unwrap() > 0.0);
    assert_eq!(bench(&["--only", "output"]).json()["gflops"].as_f64(), Some(0.0));
    assert_eq!(bench(&["--only", "output", "--ops"]).code, Some(2));
}
