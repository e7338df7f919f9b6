//! The message of an inference request: JSON, and after it the raw elements of those inputs that are not in the JSON.
//!
//! Source: Open Inference Protocol, "Inference Request JSON Object"; Triton, "binary tensor data extension".

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ort_session::Tensor;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::data;
use crate::budget::Reservation;
use crate::failure::Failure;
use crate::raw;
use crate::request::{Request, declared};
use crate::trace::Span;

/// A decoded request, and what its response must know.
#[derive(Debug)]
pub(super) struct Decoded {
    pub(super) id: Option<String>,
    pub(super) request: Request,
    pub(super) form: Form,
}

/// What is known of a request before its message is decoded.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) max_time: Duration,
    pub(super) arrival: Instant,
    pub(super) reservation: Arc<Reservation>,
    pub(super) span: Option<Arc<Span>>,
}

/// Which outputs are raw.
#[derive(Debug, Default)]
pub(super) struct Form {
    /// All, unless they are listed.
    pub(super) is_raw: bool,
    /// By name.
    pub(super) of_outputs: Vec<(String, bool)>,
}

impl Form {
    /// Whether an output is raw.
    pub(super) fn is_raw(&self, name: &str) -> bool {
        let listed = self.of_outputs.iter().find(|(known, _)| known == name);
        listed.map_or(self.is_raw, |(_, is_raw)| *is_raw)
    }
}

#[derive(Deserialize)]
struct Message<'a> {
    id: Option<String>,
    #[serde(default)]
    parameters: Parameters,
    #[serde(borrow)]
    inputs: Vec<Input<'a>>,
    #[serde(default)]
    outputs: Vec<Output>,
}

#[derive(Deserialize)]
struct Input<'a> {
    name: String,
    shape: Vec<i64>,
    datatype: String,
    #[serde(default)]
    parameters: Parameters,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Output {
    name: String,
    #[serde(default)]
    parameters: Parameters,
}

/// The parameters that have a meaning; others are skipped.
#[derive(Default, Deserialize)]
struct Parameters {
    binary_data_size: Option<usize>,
    binary_data: Option<bool>,
    binary_data_output: Option<bool>,
    /// In microseconds.
    timeout: Option<u64>,
    classification: Option<IgnoredAny>,
    shared_memory_region: Option<IgnoredAny>,
    sequence_id: Option<IgnoredAny>,
}

impl Parameters {
    /// # Errors
    /// If they demand what the server does not have, and ignoring them would give a wrong answer.
    fn check(&self) -> Result<(), Failure> {
        let unsupported = [
            ("classification", &self.classification),
            ("shared_memory_region", &self.shared_memory_region),
            ("sequence_id", &self.sequence_id),
        ];
        match unsupported.iter().find(|(_, value)| value.is_some()) {
            Some((name, _)) => {
                Err(Failure::Unsupported { what: format!("the parameter `{name}`") })
            }
            None => Ok(()),
        }
    }
}

/// Decodes a body whose first `header` bytes are JSON; all if absent.
///
/// # Errors
/// If the message is not valid; the error names the input where there is one.
pub(super) fn decode(
    body: &Bytes,
    header: Option<usize>,
    context: Context,
) -> Result<Decoded, Failure> {
    let Context { max_time, arrival, reservation, span } = context;
    let header = header.unwrap_or(body.len());
    let Some((json, _)) = body.split_at_checked(header) else {
        let what = format!("{HEADER_LENGTH} is {header}, but the body has {} bytes", body.len());
        return Err(Failure::Request(what));
    };
    let message: Message<'_> = serde_json::from_slice(json)
        .map_err(|error| Failure::Request(format!("invalid inference request: {error}")))?;
    message.parameters.check()?;
    let mut rest = body.slice(header..);
    let mut inputs = Vec::with_capacity(message.inputs.len());
    for input in message.inputs {
        let tensor = tensor(&input, &mut rest, &reservation)?;
        inputs.push((input.name, tensor));
    }
    if !rest.is_empty() {
        let what = format!("the message has {} bytes more than its inputs", rest.len());
        return Err(Failure::Request(what));
    }
    let mut form =
        Form { is_raw: message.parameters.binary_data_output == Some(true), ..Form::default() };
    for output in &message.outputs {
        output.parameters.check()?;
        if let Some(is_raw) = output.parameters.binary_data {
            form.of_outputs.push((output.name.clone(), is_raw));
        }
    }
    let outputs = message.outputs.into_iter().map(|output| output.name).collect();
    // Triton's default, 0, means none.
    let timeout = message.parameters.timeout.filter(|&n| n > 0).map(Duration::from_micros);
    let deadline = arrival + timeout.map_or(max_time, |timeout| timeout.min(max_time));
    let request = Request { inputs, outputs, deadline, reservation, span };
    Ok(Decoded { id: message.id, request, form })
}

/// The header with the length of the JSON.
pub(super) const HEADER_LENGTH: &str = "Inference-Header-Content-Length";

fn tensor(
    input: &Input<'_>,
    rest: &mut Bytes,
    reservation: &Reservation,
) -> Result<Tensor, Failure> {
    let name = &input.name;
    input.parameters.check()?;
    let (dtype, shape) = declared(name, &input.datatype, &input.shape)?;
    match (input.parameters.binary_data_size, input.data) {
        (Some(n), None) if n <= rest.len() => raw::decode(name, dtype, &shape, rest.split_to(n)),
        (Some(n), None) => {
            let what = format!("binary_data_size is {n}, but the message has {} bytes", rest.len());
            Err(Failure::input(name, what))
        }
        (None, Some(data)) => data::decode(name, dtype, &shape, data, reservation),
        (Some(_), Some(_)) => Err(Failure::input(name, "it has both data and binary_data_size")),
        (None, None) => Err(Failure::input(name, "it has neither data nor binary_data_size")),
    }
}
