//! Spans in the JSON of OpenTelemetry's protocol, a line for some.
//!
//! Source: OpenTelemetry Protocol, "JSON Protobuf Encoding", and "OpenTelemetry Protocol File Exporter"; `trace.proto`.

use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};

use super::{Attribute, Attributes};
use crate::SERVER;

/// A span that has ended.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) trace: u128,
    pub(super) span: u64,
    pub(super) parent: Option<u64>,
    pub(super) has_remote_parent: bool,
    pub(super) name: Cow<'static, str>,
    pub(super) kind: Kind,
    pub(super) start: SystemTime,
    pub(super) end: SystemTime,
    pub(super) attributes: Attributes,
    pub(super) has_failed: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Internal = 1,
    Server = 2,
}

/// `STATUS_CODE_ERROR`.
const ERROR: i32 = 2;

/// The flags of a span: it is sampled, and whether its parent is another process's is known.
const FLAGS: u32 = 0x101;
const REMOTE_PARENT: u32 = 0x200;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Traces<'a> {
    resource_spans: [ResourceSpans<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans<'a> {
    resource: Resource,
    scope_spans: [ScopeSpans<'a>; 1],
}

#[derive(Serialize)]
struct Resource {
    attributes: [KeyValue<'static>; 2],
}

#[derive(Serialize)]
struct ScopeSpans<'a> {
    scope: Scope,
    spans: Vec<Span<'a>>,
}

#[derive(Serialize)]
struct Scope {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Span<'a> {
    trace_id: String,
    span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<String>,
    flags: u32,
    name: &'a str,
    kind: i32,
    start_time_unix_nano: Nanoseconds,
    end_time_unix_nano: Nanoseconds,
    attributes: Vec<KeyValue<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
}

#[derive(Serialize)]
struct Status {
    code: i32,
}

#[derive(Serialize)]
struct KeyValue<'a> {
    key: &'static str,
    value: Value<'a>,
}

/// Integers of 64 bits are texts.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Value<'a> {
    StringValue(&'a str),
    IntValue(String),
}

struct Nanoseconds(SystemTime);

impl Serialize for Nanoseconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let time = self.0.duration_since(UNIX_EPOCH).unwrap_or_default();
        serializer.collect_str(&time.as_nanos())
    }
}

/// A line with these spans.
pub(super) fn line(records: &[Record]) -> Vec<u8> {
    let text = |key, text| KeyValue { key, value: Value::StringValue(text) };
    let version = env!("CARGO_PKG_VERSION");
    let attributes = [text("service.name", SERVER), text("service.version", version)];
    let scope = Scope { name: SERVER, version };
    let spans = records.iter().map(Span::from).collect();
    let scope_spans = [ScopeSpans { scope, spans }];
    let resource = Resource { attributes };
    let traces = Traces { resource_spans: [ResourceSpans { resource, scope_spans }] };
    // Texts and numbers always have a form in JSON.
    let mut line = serde_json::to_vec(&traces).unwrap_or_default();
    line.push(b'\n');
    line
}

impl<'a> From<&'a Record> for Span<'a> {
    fn from(record: &'a Record) -> Self {
        let remote = if record.has_remote_parent { REMOTE_PARENT } else { 0 };
        let attribute = |(key, value): &'a (&'static str, Attribute)| KeyValue {
            key,
            value: match value {
                Attribute::Text(text) => Value::StringValue(text),
                Attribute::Number(number) => Value::IntValue(number.to_string()),
            },
        };
        Self {
            trace_id: format!("{:032x}", record.trace),
            span_id: format!("{:016x}", record.span),
            parent_span_id: record.parent.map(|parent| format!("{parent:016x}")),
            flags: FLAGS | remote,
            name: &record.name,
            kind: record.kind as i32,
            start_time_unix_nano: Nanoseconds(record.start),
            end_time_unix_nano: Nanoseconds(record.end),
            attributes: record.attributes.iter().map(attribute).collect(),
            status: record.has_failed.then_some(Status { code: ERROR }),
        }
    }
}
