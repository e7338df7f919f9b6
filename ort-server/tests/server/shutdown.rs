//! Draining: requests in progress are answered, new ones rejected, and late ones cancelled.

use std::io::Write;
use std::net::TcpStream;
use std::thread;

use serde_json::json;

use crate::Running;
use crate::client::request;
use crate::models::{AFFINE, SLOW};

const MODELS: &[(&str, &str)] = &[("slow/model.ort", SLOW)];
const PATH: &str = "/v2/models/slow/infer";
const PENDING: &str = "nv_inference_pending_request_count{model=\"slow\",version=\"1\"}";
const FOREVER: u64 = 1 << 50;

fn slow(trips: u64) -> String {
    json!({"inputs": [{"name": "trips", "shape": [1], "datatype": "INT64", "data": [trips]}]})
        .to_string()
}

#[test]
fn a_draining_server_answers_what_it_has_and_rejects_what_is_new() {
    let server = Running::start(MODELS, &["--instances", "1", "--drain-timeout", "600"]);
    let address = server.address();
    let mut forever = TcpStream::connect(address).unwrap();
    let body = slow(FOREVER);
    write!(
        forever,
        "POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    server.wait_for("ort_active_requests", 1);
    server.wait_for(PENDING, 0);
    thread::scope(|scope| {
        let post = || request(address, "POST", PATH, &[], slow(3).as_bytes());
        let waiting = [(); 2].map(|()| scope.spawn(post));
        server.wait_for(PENDING, 2);
        let Running { runtime, server, folder: _folder } = server;
        let drained = runtime.spawn(server.drain());
        while request(address, "GET", "/v2/health/ready", &[], b"").status == 200 {}
        assert_eq!(request(address, "GET", "/v2/health/live", &[], b"").status, 200);
        let rejected = loop {
            let reply = post();
            if reply.status != 200 {
                break reply;
            }
        };
        assert_eq!(rejected.error(503), "the server is shutting down");
        // Its client goes away: the queue is next.
        drop(forever);
        for answer in waiting {
            assert_eq!(answer.join().unwrap().ok()["outputs"][0]["data"], json!([-1.0, -1.0]));
        }
        runtime.block_on(drained).unwrap();
    });
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn requests_that_take_too_long_are_cancelled() {
    let server = Running::start(MODELS, &["--instances", "1", "--drain-timeout", "0"]);
    let address = server.address();
    thread::scope(|scope| {
        let post = || request(address, "POST", PATH, &[], slow(FOREVER).as_bytes());
        let answers = [(); 2].map(|()| scope.spawn(post));
        server.wait_for("ort_active_requests", 2);
        server.wait_for(PENDING, 1);
        let Running { runtime, server, folder: _folder } = server;
        runtime.block_on(server.drain());
        for answer in answers {
            assert_eq!(
                answer.join().unwrap().error(503),
                "the request was cancelled: the server is shutting down"
            );
        }
    });
}

#[test]
fn a_batch_does_not_wait_for_requests_that_cannot_come() {
    let options = [
        "--max-batch",
        "8",
        "--max-batch-delay",
        "600000000",
        "--drain-timeout",
        "600",
        "--max-time",
        "900",
    ];
    let server = Running::start(&[("affine/model.ort", AFFINE)], &options);
    let address = server.address();
    let body =
        r#"{"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]}"#;
    thread::scope(|scope| {
        let post = || request(address, "POST", "/v2/models/affine/infer", &[], body.as_bytes());
        let answer = scope.spawn(post);
        server.wait_for("ort_active_requests", 1);
        let Running { runtime, server, folder: _folder } = server;
        runtime.block_on(server.drain());
        assert_eq!(answer.join().unwrap().ok()["outputs"][0]["data"], json!([2.0, 4.0, 6.0]));
    });
}
