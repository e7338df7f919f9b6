//! Dynamic batching: requests share runs, and each gets its own answer.

use std::thread;

use serde_json::{Value, json};

use crate::Running;
use crate::client::Reply;
use crate::models::{AFFINE, PICK, SLOW};

/// A batch waits long enough for all requests of a test, which fill it.
const DELAY: &[&str] = &["--max-batch-delay", "600000000"];

fn options(max_batch: &'static str) -> Vec<&'static str> {
    [&["--max-batch", max_batch], DELAY].concat()
}

/// The replies to requests that are sent at once, in their order.
fn at_once(server: &Running, path: &str, bodies: &[Value]) -> Vec<Reply> {
    thread::scope(|scope| {
        let send = |body: &Value| {
            let text = body.to_string();
            scope.spawn(move || server.post(path, &text))
        };
        let sent: Vec<_> = bodies.iter().map(send).collect();
        sent.into_iter().map(|reply| reply.join().unwrap()).collect()
    })
}

fn rows(rows: &[[f32; 3]]) -> Value {
    json!({"inputs": [{"name": "x", "shape": [rows.len(), 3], "datatype": "FP32", "data": rows}]})
}

fn index(index: &[i64]) -> Value {
    json!({"inputs": [{"name": "index", "shape": [index.len()], "datatype": "INT64", "data": index}]})
}

#[test]
fn requests_of_different_sizes_share_a_run() {
    let server = Running::start(&[("affine/model.ort", AFFINE)], &options("6"));
    let bodies =
        [rows(&[[0.0; 3]]), rows(&[[1.0; 3], [2.0; 3]]), rows(&[[3.0; 3], [4.0; 3], [5.0; 3]])];
    let replies = at_once(&server, "/v2/models/affine/infer", &bodies);
    let data = |reply: &Reply, output: usize| reply.ok()["outputs"][output]["data"].clone();
    assert_eq!(data(&replies[0], 0), json!([1.0, 2.0, 3.0]));
    assert_eq!(data(&replies[1], 0), json!([2.0, 3.0, 4.0, 3.0, 4.0, 5.0]));
    let expected = [-3.0, -3.0, -3.0, -4.0, -4.0, -4.0, -5.0, -5.0, -5.0];
    assert_eq!(data(&replies[2], 1), json!(expected));
    let count = |name: &str| server.metric(&format!("{name}{{model=\"affine\",version=\"1\"}}"));
    assert_eq!(count("nv_inference_exec_count"), 1);
    assert_eq!(count("nv_inference_count"), 6);
    assert_eq!(count("nv_inference_request_success"), 3);
}

#[test]
fn a_failing_request_does_not_fail_those_it_shares_a_batch_with() {
    let server = Running::start(&[("pick/model.ort", PICK)], &options("4"));
    let bodies = [index(&[0]), index(&[7]), index(&[1, 2])];
    let replies = at_once(&server, "/v2/models/pick/infer", &bodies);
    assert_eq!(replies[0].ok()["outputs"][0]["data"], json!([10.0]));
    assert!(replies[1].error(400).contains("node `"));
    assert_eq!(replies[2].ok()["outputs"][0]["data"], json!([20.0, 30.0]));
}

#[test]
fn requests_that_do_not_fit_run_apart() {
    // A batch is full with one row: a request waits for no other.
    let server = Running::start(
        &[("affine/model.ort", AFFINE), ("slow/model.ort", SLOW)],
        &["--max-batch", "2"],
    );
    let reply = server.post("/v2/models/affine/infer", &rows(&[[1.0; 3]; 5]).to_string());
    assert_eq!(reply.ok()["outputs"][0]["shape"], json!([5, 3]));
    // Neither a missing input nor a model without a batch dimension waits.
    server.post("/v2/models/affine/infer", r#"{"inputs": []}"#).error(400);
    let trips =
        json!({"inputs": [{"name": "trips", "shape": [1], "datatype": "INT64", "data": [3]}]});
    let reply = server.post("/v2/models/slow/infer", &trips.to_string());
    assert_eq!(reply.ok()["outputs"][0]["data"], json!([-1.0, -1.0]));
}

#[test]
fn config_pbtxt_enables_batching_for_its_model() {
    let config =
        "max_batch_size: 2\ndynamic_batching { max_queue_delay_microseconds: 600000000 }\n";
    let server = Running::start(&[("pick/1/model.ort", PICK), ("pick/config.pbtxt", config)], &[]);
    let replies = at_once(&server, "/v2/models/pick/infer", &[index(&[2]), index(&[0])]);
    assert_eq!(replies[0].ok()["outputs"][0]["data"], json!([30.0]));
    assert_eq!(replies[1].ok()["outputs"][0]["data"], json!([10.0]));
    assert_eq!(server.metric("nv_inference_exec_count{model=\"pick\",version=\"1\"}"), 1);
}
