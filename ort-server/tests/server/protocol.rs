//! The protocol over HTTP: metadata, JSON, raw tensors, and errors.

use std::fs;

use ort_session::{Session, Tensor};
use serde_json::{Value, json};

use crate::Running;
use crate::client::{Reply, request};
use crate::models::{AFFINE, PICK, identities};

const INFER: &str = "/v2/models/affine/infer";

fn affine() -> Running {
    Running::start(&[("affine/model.ort", AFFINE)], &[])
}

#[test]
fn metadata_describes_server_and_models() {
    let server = affine();
    for path in ["/v2/health/live", "/v2/health/ready", "/v2/models/affine/ready"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    let expected = json!({
        "name": "ort-server",
        "version": env!("CARGO_PKG_VERSION"),
        "extensions": ["binary_tensor_data", "model_configuration", "model_repository", "statistics"],
    });
    assert_eq!(server.get("/v2").ok(), expected);
    let tensor = |name: &str| json!({"name": name, "datatype": "FP32", "shape": [-1, 3]});
    let expected = json!({
        "name": "affine",
        "versions": ["1"],
        "platform": "onnx_onnxv1",
        "inputs": [tensor("x")],
        "outputs": [tensor("y"), tensor("negated")],
    });
    assert_eq!(server.get("/v2/models/affine").ok(), expected);
    assert_eq!(server.get("/v2/models/affine/versions/1").ok(), expected);
}

#[test]
fn json_in_and_out_flat_or_nested() {
    let server = affine();
    for data in ["[[1, 2, 3], [4.5, -0.5, 0]]", "[1, 2, 3, 4.5, -0.5, 0]"] {
        let body = format!(
            r#"{{"id": "a7", "inputs": [{{"name": "x", "shape": [2, 3], "datatype": "FP32", "data": {data}}}]}}"#
        );
        let expected = json!({
            "model_name": "affine",
            "model_version": "1",
            "id": "a7",
            "outputs": [
                {"name": "y", "datatype": "FP32", "shape": [2, 3], "data": [2.0, 4.0, 6.0, 5.5, 1.5, 3.0]},
                {"name": "negated", "datatype": "FP32", "shape": [2, 3], "data": [-1.0, -2.0, -3.0, -4.5, 0.5, -0.0]},
            ],
        });
        assert_eq!(server.post(INFER, &body).ok(), expected);
    }
}

/// A request of one row, with these fields in addition to the inputs.
fn one_row(more: &str) -> String {
    let input = r#"{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}"#;
    format!(r#"{{"inputs": [{input}]{more}}}"#)
}

#[test]
fn outputs_are_selected_in_the_requested_order() {
    let server = affine();
    let names = |reply: Value| {
        let outputs = reply["outputs"].as_array().unwrap().clone();
        outputs.iter().map(|output| output["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let select = |outputs: &str| names(server.post(INFER, &one_row(outputs)).ok());
    assert_eq!(select(r#", "outputs": [{"name": "negated"}]"#), ["negated"]);
    assert_eq!(select(r#", "outputs": [{"name": "negated"}, {"name": "y"}]"#), ["negated", "y"]);
    assert_eq!(select(r#", "outputs": []"#), ["y", "negated"]);
}

#[test]
fn raw_tensors_in_and_out() {
    let server = affine();
    let json = r#"{"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "parameters": {"binary_data_size": 12}}],
        "parameters": {"binary_data_output": true}, "outputs": [{"name": "y"}, {"name": "negated", "parameters": {"binary_data": false}}]}"#;
    let raw: Vec<u8> = [1.0_f32, 2.0, 3.0].iter().flat_map(|it| it.to_le_bytes()).collect();
    let length = json.len().to_string();
    let headers = [("Inference-Header-Content-Length", length.as_str())];
    let reply =
        request(server.address(), "POST", INFER, &headers, &[json.as_bytes(), &raw].concat());
    assert_eq!(reply.status, 200, "{:?}", String::from_utf8_lossy(&reply.body));
    assert_eq!(reply.header("content-type"), Some("application/octet-stream"));
    let length: usize = reply.header("inference-header-content-length").unwrap().parse().unwrap();
    let (head, raw) = reply.body.split_at(length);
    let head: Value = serde_json::from_slice(head).unwrap();
    assert_eq!(head["outputs"][0]["parameters"]["binary_data_size"], 12);
    assert_eq!(head["outputs"][1]["data"], json!([-1.0, -2.0, -3.0]));
    let expected: Vec<u8> = [2.0_f32, 4.0, 6.0].iter().flat_map(|it| it.to_le_bytes()).collect();
    assert_eq!(raw, expected);
}

#[test]
fn every_datatype_survives() {
    let server = Running::start(&[("types/model.ort", &identities())], &[]);
    let cases = [
        ("bool", "BOOL", json!([true, false])),
        ("uint8", "UINT8", json!([0, 255])),
        ("uint16", "UINT16", json!([0, 65535])),
        ("uint32", "UINT32", json!([1, 4_294_967_295_u32])),
        ("uint64", "UINT64", json!([1, u64::MAX])),
        ("int8", "INT8", json!([-128, 127])),
        ("int16", "INT16", json!([-32768, 1])),
        ("int32", "INT32", json!([i32::MIN, 1])),
        ("int64", "INT64", json!([i64::MIN, i64::MAX])),
        ("float16", "FP16", json!([0.5, -65504.0])),
        ("bfloat16", "BF16", json!([0.5, -3.0])),
        ("float", "FP32", json!([0.1, -1.5e30])),
        ("double", "FP64", json!([0.1, -1.5e300])),
        ("string", "BYTES", json!(["é\"\n", ""])),
    ];
    let input = |(name, datatype, data): &(&str, &str, Value)| json!({"name": format!("{name}_in"), "datatype": datatype, "shape": [2], "data": data});
    let inputs: Vec<_> = cases.iter().map(input).collect();
    let reply = server.post("/v2/models/types/infer", &json!({"inputs": inputs}).to_string()).ok();
    for ((name, datatype, data), output) in cases.iter().zip(reply["outputs"].as_array().unwrap()) {
        assert_eq!(output["name"], format!("{name}_out"));
        assert_eq!(output["datatype"], *datatype);
        assert_eq!(output["data"], *data, "{name}");
    }
}

#[test]
fn numbers_that_json_lacks_are_written_as_triton_writes_them() {
    let server = affine();
    let json = r#"{"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "parameters": {"binary_data_size": 12}}]}"#;
    let numbers = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    let raw: Vec<u8> = numbers.iter().flat_map(|it| it.to_le_bytes()).collect();
    let length = json.len().to_string();
    let headers = [("Inference-Header-Content-Length", length.as_str())];
    let reply =
        request(server.address(), "POST", INFER, &headers, &[json.as_bytes(), &raw].concat());
    assert!(reply.text().contains("\"data\":[NaN,Infinity,-Infinity]"), "{}", reply.text());
}

#[test]
fn an_invalid_input_is_named() {
    let server = affine();
    let with = |input: &str| server.post(INFER, &format!(r#"{{"inputs": [{input}]}}"#));
    let x = |shape: &str, datatype: &str, data: &str| {
        with(&format!(
            r#"{{"name": "x", "shape": {shape}, "datatype": "{datatype}", "data": {data}}}"#
        ))
    };
    for (reply, expected) in [
        (x("[1, 3]", "FP32", "[1, 2]"), "input `x`: data has 2 elements, the shape has 3"),
        (x("[1, 3]", "FP32", "[1, 2, 3, 4]"), "input `x`: data: there are more than 3 elements"),
        (
            x("[1, 3]", "FP32", r#"[1, 2, "a"]"#),
            "input `x`: data: element 2 is not a number of FP32",
        ),
        (x("[1, 3]", "FP32", "[1, 2, 1e39]"), "input `x`: data: element 2 is not a number of FP32"),
        (x("[1, 3]", "FP32", r#""abc""#), "input `x`: data: invalid type"),
        (x("[1, -3]", "FP32", "[]"), "input `x`: the dimension -3 is invalid"),
        (x("[1, 9223372036854775807]", "FP32", "[]"), "input `x`: the shape"),
        (x("[4611686018427387904, 4]", "FP32", "[]"), "input `x`: the shape"),
        (x("[1, 3]", "fp32", "[1, 2, 3]"), "input `x`: unknown datatype `fp32`"),
        (x("[1, 3]", "INT64", "[1, 2, 3]"), "input `x`: expected"),
        (x("[1, 4]", "FP32", "[1, 2, 3, 4]"), "input `x`: expected"),
        (x("[3]", "FP32", "[1, 2, 3]"), "input `x`: expected"),
        (
            with(r#"{"name": "z", "shape": [0], "datatype": "FP32", "data": []}"#),
            "input `z`: the model has no such input; its inputs are x",
        ),
        (with(r#"{"name": "x", "shape": [0], "datatype": "FP32"}"#), "input `x`: it has neither"),
        (with(""), "input `x`"),
        (
            server.post(INFER, &one_row(r#", "outputs": [{"name": "z"}]"#)),
            "output `z`: the model has no such output",
        ),
        (server.post(INFER, "{"), "invalid inference request: "),
        (server.post(INFER, ""), "invalid inference request: "),
        (server.post(INFER, "{}"), "invalid inference request: missing field `inputs`"),
    ] {
        let error = reply.error(400);
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn invalid_raw_messages_are_errors() {
    let server = affine();
    let send = |header: &str, n: usize, raw: &[u8]| {
        let json = format!(
            r#"{{"inputs": [{{"name": "x", "shape": [1, 3], "datatype": "FP32", "parameters": {{"binary_data_size": {n}}}}}]}}"#
        );
        let length = if header.is_empty() { json.len().to_string() } else { header.to_owned() };
        let headers = [("Inference-Header-Content-Length", length.as_str())];
        request(server.address(), "POST", INFER, &headers, &[json.as_bytes(), raw].concat())
    };
    for (reply, expected) in [
        (send("", 12, &[0; 11]), "input `x`: binary_data_size is 12, but the message has 11 bytes"),
        (send("", 12, &[0; 13]), "the message has 1 bytes more than its inputs"),
        (send("", 8, &[0; 8]), "input `x`: "),
        (send("100000", 12, &[0; 12]), "Inference-Header-Content-Length is 100000, but"),
        (send("x", 12, &[0; 12]), "Inference-Header-Content-Length is not a number"),
        (send("-1", 12, &[0; 12]), "Inference-Header-Content-Length is not a number"),
    ] {
        let error = reply.error(400);
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn unknown_paths_models_and_methods_are_errors() {
    let server = Running::start(&[("affine/model.ort", AFFINE), ("pick/model.ort", PICK)], &[]);
    let check = |reply: Reply, status: u16, expected: &str| {
        let error = reply.error(status);
        assert!(error.starts_with(expected), "{error}");
    };
    check(server.get("/v2/models/none"), 404, "there is no model `none`");
    check(server.get("/v2/models/none/ready"), 404, "there is no model `none`");
    check(server.post("/v2/models/none/infer", &one_row("")), 404, "there is no model `none`");
    check(server.get("/v2/models/affine/versions/2"), 404, "model `affine` has no version `2`");
    check(server.get("/v2/models/affine/versions/x"), 404, "model `affine` has no version `x`");
    check(server.get("/v2/models/..%2Faffine"), 404, "there is no model `../affine`");
    check(server.get("/v3"), 404, "there is no such path");
    check(server.get(INFER), 405, "the path does not have this method");
    let parameter = r#", "parameters": {"sequence_id": 1}"#;
    check(
        server.post(INFER, &one_row(parameter)),
        501,
        "the parameter `sequence_id` is not supported",
    );
    let compressed = [("Content-Encoding", "gzip")];
    let reply = request(server.address(), "POST", INFER, &compressed, b"x");
    check(reply, 501, "a compressed message is not supported");
    // A node that fails says which, and the next request is not affected.
    let index = |index: i64| {
        let body = json!({"inputs": [{"name": "index", "shape": [1], "datatype": "INT64", "data": [index]}]});
        server.post("/v2/models/pick/infer", &body.to_string())
    };
    check(index(3), 400, "node `");
    assert_eq!(index(2).ok()["outputs"][0]["data"], json!([30.0]));
}

#[test]
fn a_real_model_gives_the_outputs_of_its_session() {
    let server = Running::listening(&[], &[]);
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/ppocr_cls/model.onnx");
    let folder = server.folder.path().join("ppocr_cls/3");
    fs::create_dir_all(&folder).unwrap();
    fs::copy(file, folder.join("model.onnx")).unwrap();
    server.load().unwrap();
    let values: Vec<f32> = (0_u16..3 * 48 * 192).map(|i| f32::from(i % 97) / 97.0).collect();
    let x = Tensor::from_slice(&[1, 3, 48, 192], &values).unwrap();
    let session = Session::builder().threads(1).commit_from_file(file).unwrap();
    let name = session.inputs()[0].name.clone();
    let expected = session.run([(name.as_str(), &x)]).unwrap();
    let expected = expected[0].as_tensor().unwrap().as_slice::<f32>().unwrap().to_vec();
    let input = json!({"name": name, "shape": x.shape(), "datatype": "FP32", "data": values});
    let body = json!({"inputs": [input]}).to_string();
    let reply = server.post("/v2/models/ppocr_cls/versions/3/infer", &body).ok();
    assert_eq!(reply["model_version"], "3");
    let found: Vec<f32> = serde_json::from_value(reply["outputs"][0]["data"].clone()).unwrap();
    assert_eq!(found, expected);
}
