//! Limits: what exceeds one fails at once, and what is within works.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

use serde_json::json;

use crate::Running;
use crate::client::{Reply, reply, request};
use crate::models::{AFFINE, SLOW};

const MODELS: &[(&str, &str)] = &[("affine/model.ort", AFFINE), ("slow/model.ort", SLOW)];
const PENDING: &str = "nv_inference_pending_request_count{model=\"slow\",version=\"1\"}";

/// A request that takes this many iterations.
fn slow(trips: u64, parameters: &str) -> String {
    let input = json!({"name": "trips", "shape": [1], "datatype": "INT64", "data": [trips]});
    format!(r#"{{"inputs": [{input}], "parameters": {{{parameters}}}}}"#)
}

const FOREVER: u64 = 1 << 50;

fn post_slow(server: &Running, body: &str) -> Reply {
    server.post("/v2/models/slow/infer", body)
}

#[test]
fn a_full_queue_rejects_at_once_and_recovers() {
    let server = Running::start(MODELS, &["--instances", "1", "--max-queue", "2"]);
    let forever = slow(FOREVER, "");
    let open = || {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let head = "POST /v2/models/slow/infer HTTP/1.1\r\nHost: x\r\nContent-Length:";
        write!(stream, "{head} {}\r\n\r\n{forever}", forever.len()).unwrap();
        stream
    };
    let running = open();
    server.wait_for("ort_active_requests", 1);
    server.wait_for(PENDING, 0);
    let waiting = [open(), open()];
    server.wait_for(PENDING, 2);
    let rejected = post_slow(&server, &slow(1, ""));
    assert_eq!(rejected.error(429), "model `slow` has 2 waiting requests, the maximum");
    assert_eq!(rejected.header("retry-after"), Some("1"));
    // Other models have their own queues.
    let one = r#"{"inputs": [{"name": "x", "shape": [0, 3], "datatype": "FP32", "data": []}]}"#;
    assert_eq!(server.post("/v2/models/affine/infer", one).status, 200);
    // Clients that disconnect cancel their requests.
    drop((running, waiting));
    server.wait_for("ort_active_requests", 0);
    assert_eq!(post_slow(&server, &slow(1, "")).status, 200);
    server.wait_for("ort_request_memory_bytes", 0);
}

#[test]
fn a_late_request_fails_whether_it_runs_or_waits() {
    let server = Running::start(MODELS, &["--instances", "1", "--max-time", "0.1"]);
    thread::scope(|scope| {
        let replies = [(); 3].map(|()| scope.spawn(|| post_slow(&server, &slow(FOREVER, ""))));
        for reply in replies {
            let error = reply.join().unwrap().error(504);
            assert!(
                error == "the request was not answered in time" || error.contains("deadline"),
                "{error}"
            );
        }
    });
    server.wait_for("ort_active_requests", 0);
}

#[test]
fn a_client_sets_a_shorter_time() {
    let server = Running::start(MODELS, &[]);
    post_slow(&server, &slow(FOREVER, r#""timeout": 1000"#)).error(504);
    assert_eq!(post_slow(&server, &slow(3, r#""timeout": 0"#)).status, 200);
}

#[test]
fn a_message_has_a_maximum_size() {
    let server = Running::start(MODELS, &["--max-body-mib", "1"]);
    let expected = "the message has more than 1048576 bytes";
    let path = "/v2/models/affine/infer";
    let length = [("Content-Length", "1048577")];
    assert_eq!(request(server.address(), "POST", path, &length, b"").error(413), expected);
    // Of unknown length: it is read until it is too large.
    let chunked = [("Transfer-Encoding", "chunked")];
    let chunk = [b"110000\r\n".to_vec(), vec![b' '; 0x11_0000], b"\r\n0\r\n\r\n".to_vec()].concat();
    assert_eq!(request(server.address(), "POST", path, &chunked, &chunk).error(413), expected);
}

#[test]
fn all_requests_together_have_a_maximum_size() {
    let server = Running::start(MODELS, &["--max-body-mib", "2", "--max-requests-mib", "2"]);
    let open = |n: usize| {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let head = "POST /v2/models/affine/infer HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length:";
        write!(stream, "{head} {n}\r\n\r\n").unwrap();
        stream
    };
    let mib = 1 << 20;
    let mut first = open(2 * mib);
    first.write_all(&vec![b' '; mib + 1]).unwrap();
    server.wait_for("ort_request_memory_bytes", mib as u64 + 1);
    let mut second = open(mib);
    let _ = second.write_all(&vec![b' '; mib]);
    let expected = "the requests in progress hold 2097152 bytes, the maximum";
    assert_eq!(reply(&mut second).error(429), expected);
    drop(first);
    server.wait_for("ort_request_memory_bytes", 0);
}

#[test]
fn a_run_has_a_maximum_memory() {
    let server = Running::start(MODELS, &["--max-run-mib", "1"]);
    let rows = 100_000;
    let json = format!(
        r#"{{"inputs": [{{"name": "x", "shape": [{rows}, 3], "datatype": "FP32", "parameters": {{"binary_data_size": {}}}}}]}}"#,
        rows * 12
    );
    let length = json.len().to_string();
    let headers = [("Inference-Header-Content-Length", length.as_str())];
    let body = [json.as_bytes(), &vec![0; rows * 12]].concat();
    let reply = request(server.address(), "POST", "/v2/models/affine/infer", &headers, &body);
    let error = reply.error(413);
    assert!(error.ends_with("over the limit of 1048576"), "{error}");
}

#[test]
fn bytes_that_are_not_http_end_their_connection_only() {
    let server = Running::start(MODELS, &[]);
    for bytes in [
        &b"\0\xff\x16\x03\x01"[..],
        b"GET\r\n\r\n",
        b"POST /v2 HTTP/1.1\r\nContent-Length: x\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        // The server may close the connection at any point.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400 "), "{answer:?}");
    }
    assert_eq!(server.get("/v2/health/ready").status, 200);
}
