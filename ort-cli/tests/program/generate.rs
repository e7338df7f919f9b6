//! `generate`.

use std::fs;

use serde_json::{Value as Json, json};

use crate::{folder, keys, model, ort_cli};

fn decoder() -> String {
    format!("{}/model.onnx", folder("tiny_decoder"))
}

/// What is generated after these ids.
fn generated(ids: &str, more: &[&str]) -> Json {
    let decoder = decoder();
    let call = ["generate", &decoder, "--json", "--ids", ids];
    ort_cli(call.iter().chain(more)).json()
}

fn ids(json: &Json) -> Vec<u64> {
    json["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect()
}

#[test]
fn tokens_are_printed_as_they_come_with_times_and_memory() {
    let called = ort_cli(["generate", &decoder(), "--ids", "7", "--max-tokens", "6"]);
    assert_eq!((called.code, called.stderr.as_str()), (Some(0), ""));
    let shown: Vec<u64> =
        called.stdout.lines().next().unwrap().split(' ').map(|id| id.parse().unwrap()).collect();
    assert_eq!(shown, ids(&generated("7", &["--max-tokens", "6"])));
    for text in ["tokens  6", "first token", "tokens/s", "cache", "peak"] {
        assert!(called.stdout.contains(text), "{text} is not in\n{}", called.stdout);
    }
}

#[test]
fn json_has_these_keys() {
    let json = generated("1,2,3", &["--max-tokens", "4"]);
    let expected = [
        "first_token_ms",
        "ids",
        "memory",
        "model",
        "prompt_ids",
        "stop",
        "text",
        "threads",
        "token_ms",
        "tokens_per_s",
    ];
    assert_eq!(keys(&json), expected);
    assert_eq!(keys(&json["memory"]), ["cache", "peak"]);
    assert_eq!((&json["prompt_ids"], &json["stop"]), (&json!([1, 2, 3]), &json!("max_tokens")));
    assert_eq!((ids(&json).len(), &json["text"]), (4, &Json::Null));
}

#[test]
fn tokens_follow_from_all_before_them() {
    let whole = ids(&generated("7,3", &["--max-tokens", "12"]));
    let begun: Vec<String> = [7, 3].iter().chain(&whole[..5]).map(u64::to_string).collect();
    let rest = ids(&generated(&begun.join(","), &["--max-tokens", "7"]));
    assert_eq!(rest, whole[5..]);
}

#[test]
fn the_seed_determines_the_samples() {
    let sampled = |seed: &str, more: &[&str]| {
        let options = ["--temperature", "1.5", "--max-tokens", "20", "--seed", seed];
        ids(&generated("7", &[&options, more].concat()))
    };
    assert_eq!(sampled("1", &[]), sampled("1", &[]));
    assert_ne!(sampled("1", &[]), sampled("2", &[]));
    let greedy = ids(&generated("7", &["--max-tokens", "20"]));
    assert_eq!(sampled("1", &["--top-k", "1"]), greedy);
    assert_eq!(sampled("1", &["--top-p", "0"]), greedy);
    let penalized = generated("7", &["--max-tokens", "20", "--repetition-penalty", "1000"]);
    let mut seen = ids(&penalized);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 20, "{penalized}");
}

#[test]
fn a_token_ends_the_text() {
    let whole = ids(&generated("7", &["--max-tokens", "10"]));
    let end = whole[4];
    let at = whole.iter().position(|&id| id == end).unwrap();
    let json = generated("7", &["--max-tokens", "10", "--end", &end.to_string()]);
    assert_eq!((ids(&json), &json["stop"]), (whole[..at].to_vec(), &json!("end")));
}

#[test]
fn a_configuration_next_to_the_model_is_read() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("model.onnx");
    fs::copy(decoder(), &path).unwrap();
    let config = root.path().join("genai_config.json");
    let call = |more: &[&str]| {
        let call = ["generate", path.to_str().unwrap(), "--json", "--ids", "7"];
        ort_cli(call.iter().chain(more))
    };
    let names = json!({
        "inputs": { "input_ids": "input_ids", "past_key_names": "past.%d.key", "past_value_names": "past.%d.value" },
        "outputs": { "logits": "logits", "present_key_names": "present.%d.key", "present_value_names": "present.%d.value" },
    });
    let text = |model: Json, search: Json| json!({ "model": model, "search": search }).to_string();
    let whole = ids(&generated("7", &["--max-tokens", "10"]));
    let model = json!({ "decoder": names, "eos_token_id": [whole[2], 999], "context_length": 40 });
    fs::write(&config, text(model, json!({ "do_sample": false, "temperature": 3.0 }))).unwrap();
    assert_eq!(call(&[]).json()["stop"], "end");
    let model = json!({ "decoder": names, "context_length": 9 });
    fs::write(&config, text(model, json!({ "do_sample": true, "top_k": 1, "temperature": 1.0 })))
        .unwrap();
    let json = call(&[]).json();
    assert_eq!((ids(&json), &json["stop"]), (whole[..9].to_vec(), &json!("context")));
    let model = json!({ "decoder": { "outputs": { "present_key_names": "present.%d.k" }, "inputs": { "past_key_names": "past.%d.key" } } });
    fs::write(&config, text(model, json!({}))).unwrap();
    let called = call(&[]);
    assert!(called.stderr.ends_with("there is no output `present.%d.k`\n"), "{called:?}");
    fs::write(&config, "{").unwrap();
    let called = call(&[]);
    assert_eq!(called.code, Some(1));
    assert!(called.stderr.contains("genai_config.json: EOF"), "{called:?}");
}

#[test]
fn unsupported_models_and_arguments_are_reported() {
    let decoder = decoder();
    for (call, code, message) in [
        (&["generate", &decoder][..], 2, "required arguments were not provided"),
        (&["generate", &decoder, "--ids", "1", "--temperature", "-1"], 2, "non-negative"),
        (&["generate", &decoder, "--prompt", "x"], 2, "--tokenizer"),
        (&["generate", &decoder, "--ids", "99"], 1, "index 99 is out of range"),
        (
            &["generate", &model("silero_vad"), "--ids", "1"],
            1,
            "input `input` (float[batch,sequence]) does not follow",
        ),
        (&["generate", &decoder, "--ids", "1", "--max-tokens", "70"], 1, "model.onnx: node"),
    ] {
        let called = ort_cli(call);
        assert_eq!(called.code, Some(code), "{called:?}");
        assert!(called.stderr.contains(message), "{message} is not in {}", called.stderr);
    }
}

#[cfg(not(feature = "tokenizers"))]
#[test]
fn a_build_without_tokenizers_says_so() {
    let call = ["generate", &decoder(), "--tokenizer", "tokenizer.json", "--prompt", "x"];
    let called = ort_cli(call);
    let message =
        "error: tokenizer.json: this program was built without the feature `tokenizers`: use --ids";
    assert_eq!((called.code, called.stderr.trim_end()), (Some(1), message));
}

#[cfg(feature = "tokenizers")]
#[test]
fn a_text_becomes_tokens_and_tokens_a_text() {
    let words: serde_json::Map<String, Json> =
        (0..64).map(|id| (format!("w{id}"), json!(id))).collect();
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": { "type": "Whitespace" }, "post_processor": null, "decoder": null,
        "model": { "type": "WordLevel", "vocab": words, "unk_token": "w0" },
    });
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("tokenizer.json");
    let call = |more: &[&str]| {
        let decoder = decoder();
        let path = path.to_str().unwrap();
        let call = ["generate", &decoder, "--tokenizer", path, "--max-tokens", "5"];
        ort_cli(call.iter().chain(more))
    };
    fs::write(&path, "{}").unwrap();
    let called = call(&["--prompt", "w1"]);
    assert!(called.code == Some(1) && called.stderr.contains("tokenizer.json: "), "{called:?}");
    fs::write(&path, tokenizer.to_string()).unwrap();
    let json = call(&["--prompt", "w7 w3", "--json"]).json();
    assert_eq!(json["prompt_ids"], json!([7, 3]));
    assert_eq!(ids(&json), ids(&generated("7,3", &["--max-tokens", "5"])));
    let text: Vec<String> = ids(&json).iter().map(|id| format!("w{id}")).collect();
    assert_eq!(json["text"], text.join(" "));
    let called = call(&["--prompt", "w7 w3"]);
    assert_eq!(called.stdout.lines().next(), Some(text.join(" ").as_str()));
    assert_eq!(call(&["--prompt", ""]).stderr, "error: the prompt has no tokens\n");
}
