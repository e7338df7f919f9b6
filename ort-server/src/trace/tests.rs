//! Spans in files.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::*;

fn settings(path: &Path, max_bytes: u64) -> TraceSettings {
    TraceSettings { path: path.to_owned(), ratio: 1.0, max_bytes, scheme: "http" }
}

/// The spans of a file.
fn spans(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let spans = |line: Value| line["resourceSpans"][0]["scopeSpans"][0]["spans"].clone();
    lines.flat_map(|line| spans(line).as_array().unwrap().clone()).collect()
}

#[test]
fn a_span_and_its_parts_are_one_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("traces.jsonl");
    let tracer = Tracer::start(&settings(&path, 1 << 20)).unwrap();
    let span = tracer.begin(&HeaderMap::new(), "request").unwrap();
    span.set("n", 3_usize);
    span.set("n", 4_usize);
    span.fail("500");
    let (start, end) = (Instant::now(), Instant::now());
    let attributes = vec![("name", Attribute::from("é\"\n"))];
    span.child(Part { name: "part", start, end, attributes, has_failed: false });
    drop(span);
    tracer.close();
    let spans = spans(&path);
    let [part, request] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!(part["traceId"], request["traceId"]);
    assert_eq!(part["parentSpanId"], request["spanId"]);
    assert_eq!(part["attributes"][0]["value"]["stringValue"], "é\"\n");
    assert_eq!((&part["kind"], &request["kind"]), (&1.into(), &2.into()));
    assert_eq!(request["attributes"].as_array().unwrap().len(), 2);
    assert_eq!(request["attributes"][0]["value"]["intValue"], "4");
    assert_eq!(request["status"]["code"], 2);
    assert!(part.get("status").is_none() && request.get("parentSpanId").is_none());
    let time = |span: &Value, key: &str| span[key].as_str().unwrap().parse::<u128>().unwrap();
    assert!(time(request, "startTimeUnixNano") <= time(part, "startTimeUnixNano"));
    assert!(time(part, "endTimeUnixNano") <= time(request, "endTimeUnixNano"));
    // After the end, spans are lost, and nothing waits.
    drop(tracer.begin(&HeaderMap::new(), "late"));
    assert_eq!(tracer.n_lost(), 1);
}

#[test]
fn a_file_has_a_maximum_and_one_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("traces.jsonl");
    for _ in 0..5 {
        // Each tracer writes a line, which is longer than half of the maximum.
        let tracer = Tracer::start(&settings(&path, 700)).unwrap();
        drop(tracer.begin(&HeaderMap::new(), "request"));
        tracer.close();
        assert_eq!(tracer.n_lost(), 0);
        assert!(fs::metadata(&path).unwrap().len() <= 700);
    }
    assert_eq!(spans(&path).len(), 1);
    assert_eq!(spans(&folder.path().join("traces.jsonl.1")).len(), 1);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    Tracer::start(&settings(folder.path(), 700)).unwrap_err();
}
