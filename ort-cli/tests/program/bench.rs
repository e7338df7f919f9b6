//! `bench`.

use crate::{folder, keys, model, ort_cli};

const KEYS: [&str; 14] = [
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
    let with_ops = ort_cli(common.into_iter().chain(["--ops"])).json();
    assert_eq!(with_ops.as_object().unwrap().len(), KEYS.len() + 1);
    assert_eq!(keys(&with_ops["ops"][0]), ["calls", "ms", "op_type", "variant"]);
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
fn people_get_a_table() {
    let data = format!("{}/test_data_set_0", folder("silero_vad"));
    let path = model("silero_vad");
    let called = ort_cli(["bench", &path, "--inputs", &data, "--seconds", "0.01", "--ops"]);
    assert_eq!((called.code, called.stderr.as_str()), (Some(0), ""));
    for text in ["p50", "GFLOP/s", "operator", "LSTM", "share"] {
        assert!(called.stdout.contains(text), "{text} is not in\n{}", called.stdout);
    }
}
