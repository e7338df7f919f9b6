//! The message of an inference response: JSON, and after it the raw elements of those outputs that are not in the JSON.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use serde::Serialize;

use super::request::{Form, HEADER_LENGTH};
use super::text;
use crate::datatype;
use crate::failure::{Failure, in_output};
use crate::model::Model;
use crate::raw;
use crate::request::Outputs;

#[derive(Serialize)]
struct Head<'a> {
    model_name: &'a str,
    model_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
}

#[derive(Serialize)]
struct OutputHead<'a> {
    name: &'a str,
    datatype: &'static str,
    shape: &'a [usize],
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<OutputParameters>,
}

#[derive(Serialize)]
struct OutputParameters {
    binary_data_size: usize,
}

/// The encoded response.
#[derive(Debug)]
pub(super) struct Encoded {
    json: Vec<u8>,
    raw: Vec<Bytes>,
    has_raw: bool,
}

/// Encodes the outputs, in JSON or raw as `form` has it.
///
/// # Errors
/// If an output has a type that the protocol lacks.
pub(super) fn encode(
    model: &Model,
    id: Option<&str>,
    outputs: &Outputs,
    form: &Form,
) -> Result<Encoded, Failure> {
    let head = Head { model_name: &model.name, model_version: model.version.to_string(), id };
    let mut json = object(&head)?;
    json.extend_from_slice(b",\"outputs\":[");
    let mut parts = Vec::new();
    for (i, (name, tensor)) in outputs.iter().enumerate() {
        let datatype = datatype::name(tensor.dtype());
        let datatype = datatype.ok_or_else(|| {
            Failure::output(name, format!("the protocol has no type for {}", tensor.dtype().name()))
        })?;
        if i > 0 {
            json.push(b',');
        }
        let mut output = OutputHead { name, datatype, shape: tensor.shape(), parameters: None };
        if form.is_raw(name) {
            let bytes = raw::encode(name, tensor)?;
            output.parameters = Some(OutputParameters { binary_data_size: bytes.len() });
            json.extend_from_slice(&object(&output)?);
            parts.push(bytes);
        } else {
            json.extend_from_slice(&object(&output)?);
            json.extend_from_slice(b",\"data\":");
            text::write(&tensor.view(), &mut json).map_err(in_output(name))?;
        }
        json.push(b'}');
    }
    json.extend_from_slice(b"]}");
    Ok(Encoded { json, has_raw: !parts.is_empty(), raw: parts })
}

/// A JSON object without its end, so that fields can follow.
fn object(fields: &impl Serialize) -> Result<Vec<u8>, Failure> {
    let mut json = serde_json::to_vec(fields);
    if let Ok(json) = &mut json {
        json.pop();
    }
    json.map_err(|_| Failure::Internal("the response has no form in JSON"))
}

impl IntoResponse for Encoded {
    fn into_response(self) -> Response {
        if !self.has_raw {
            let json = [(header::CONTENT_TYPE, "application/json")];
            return (json, Body::from(self.json)).into_response();
        }
        let length = self.json.len().to_string();
        let mut parts = VecDeque::from([Bytes::from(self.json)]);
        parts.extend(self.raw.into_iter().filter(|bytes| !bytes.is_empty()));
        let headers = [
            (header::CONTENT_TYPE.as_str(), "application/octet-stream"),
            (HEADER_LENGTH, length.as_str()),
        ];
        (headers, Body::new(Parts(parts))).into_response()
    }
}

/// A body of several slices, which are not copied into one.
struct Parts(VecDeque<Bytes>);

impl http_body::Body for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let n_bytes: usize = self.0.iter().map(Bytes::len).sum();
        SizeHint::with_exact(u64::try_from(n_bytes).unwrap_or(u64::MAX))
    }
}
