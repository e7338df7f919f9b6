//! Loading, unloading and replacing models.

use std::fs;

use serde_json::json;

use crate::Running;
use crate::models::{self, AFFINE, PICK};

const EXPLICIT: &[&str] = &["--model-control-mode", "explicit"];

#[test]
fn models_are_loaded_and_unloaded_on_request() {
    let server = Running::start(
        &[("a/1/model.ort", AFFINE), ("a/2/model.ort", AFFINE), ("b/model.ort", PICK)],
        EXPLICIT,
    );
    let unavailable = |name: &str| json!({"name": name, "state": "UNAVAILABLE", "reason": ""});
    let index = |body: &str| server.post("/v2/repository/index", body).ok();
    assert_eq!(index(""), json!([unavailable("a"), unavailable("b")]));
    server.get("/v2/models/a").error(404);
    assert_eq!(server.post("/v2/repository/models/a/load", "").status, 200);
    assert_eq!(server.get("/v2/models/a").ok()["versions"], json!(["1", "2"]));
    let ready =
        |version: &str| json!({"name": "a", "version": version, "state": "READY", "reason": ""});
    assert_eq!(index(r#"{"ready": true}"#), json!([ready("1"), ready("2")]));
    // A version that is gone is unloaded, and one that is new is loaded.
    fs::remove_dir_all(server.folder.path().join("a/2")).unwrap();
    models::write(&server.folder.path().join("a/3/model.ort"), PICK);
    assert_eq!(server.post("/v2/repository/models/a/load", "{}").status, 200);
    assert_eq!(server.get("/v2/models/a").ok()["versions"], json!(["1", "3"]));
    assert_eq!(server.get("/v2/models/a").ok()["inputs"][0]["name"], "index");
    server.get("/v2/models/a/versions/2/ready").error(503);
    assert_eq!(server.post("/v2/repository/models/a/unload", "").status, 200);
    let error = server.get("/v2/models/a").error(503);
    assert_eq!(error, "model `a`, version 3, is not available: unloaded");
    server.post("/v2/repository/models/a/unload", "").error(404);
}

#[test]
fn a_load_that_fails_names_the_model_and_keeps_the_server() {
    let server =
        Running::start(&[("a/model.ort", AFFINE)], &[EXPLICIT, &["--load-model", "*"]].concat());
    let long = "#".repeat((1 << 20) + 1);
    for (name, file, text, expected) in [
        (
            "config",
            "config/config.pbtxt",
            &*long,
            "model `config` cannot be loaded: config.pbtxt: it has more than 1 MiB",
        ),
        ("bad", "bad/model.onnx", "not a model", "model `bad` cannot be loaded: version 1: "),
        (
            "config",
            "config/config.pbtxt",
            "max_batch_size: x",
            "model `config` cannot be loaded: config.pbtxt, line 1",
        ),
    ] {
        models::write(&server.folder.path().join("config/model.ort"), AFFINE);
        models::write(&server.folder.path().join(file), text);
        let error = server.post(&format!("/v2/repository/models/{name}/load"), "").error(400);
        assert!(error.starts_with(expected), "{error}");
    }
    let config = server.folder.path().join("config/config.pbtxt");
    fs::remove_file(&config).unwrap();
    fs::create_dir(&config).unwrap();
    let error = server.post("/v2/repository/models/config/load", "").error(400);
    assert_eq!(error, "model `config` cannot be loaded: config.pbtxt: it is not a file");
    for name in ["none", "..%2F..%2Fetc", "%2E%2E", "a%2F1"] {
        server.post(&format!("/v2/repository/models/{name}/load"), "").error(404);
    }
    let parameters = r#"{"parameters": {"file:1/model.onnx": "AAAA"}}"#;
    server.post("/v2/repository/models/a/load", parameters).error(501);
    assert_eq!(server.get("/v2/models/a/ready").status, 200);
    server.get("/v2/models/bad/ready").error(503);
}

#[test]
fn clients_do_not_load_models_by_default() {
    let server = Running::start(&[("a/model.ort", AFFINE)], &[]);
    for action in ["load", "unload"] {
        server.post(&format!("/v2/repository/models/a/{action}"), "").error(403);
    }
}

#[test]
fn the_server_is_live_before_it_is_ready() {
    let server = Running::listening(&[("a/model.ort", AFFINE)], &[]);
    assert_eq!(server.get("/v2/health/live").status, 200);
    assert_eq!(server.get("/v2/health/ready").status, 503);
    server.load().unwrap();
    assert_eq!(server.get("/v2/health/ready").status, 200);
}

#[test]
fn a_model_that_does_not_load_ends_the_start_unless_that_is_allowed() {
    let models = &[("a/model.ort", AFFINE), ("bad/7/model.onnx", "not a model")];
    let error = Running::listening(models, &[]).load().unwrap_err().to_string();
    assert!(error.starts_with("model `bad` cannot be loaded: version 7: "), "{error}");
    let server = Running::start(models, &["--exit-on-error", "false"]);
    assert_eq!(server.get("/v2/models/a/ready").status, 200);
    server.get("/v2/models/bad/ready").error(503);
    let server = Running::listening(&[], &[]);
    fs::remove_dir(server.folder.path()).unwrap();
    assert!(matches!(server.load(), Err(ort_server::ServerError::Repository { .. })));
}
