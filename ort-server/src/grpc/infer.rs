//! Inference over gRPC.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::Call;
use super::contents;
use super::messages::{
    InferParameter, InferTensor, ModelInferRequest, ModelInferResponse, ParameterChoice,
};
use crate::datatype;
use crate::failure::Failure;
use crate::model::Model;
use crate::raw;
use crate::request::{Outputs, Request, declared};

/// The parameters that demand what the server does not have.
const UNSUPPORTED: [&str; 3] = ["classification", "shared_memory_region", "sequence_id"];

/// Runs a model. Outputs are raw, unless the inputs were typed.
pub(super) async fn infer(
    call: Call,
    mut message: ModelInferRequest,
) -> Result<ModelInferResponse, Failure> {
    let app = call.app.clone();
    let _active = app.begin()?;
    let model = app.repository.get(&message.model_name, &message.model_version)?;
    let is_raw = !message.raw_input_contents.is_empty() || message.inputs.is_empty();
    let id = std::mem::take(&mut message.id);
    let outputs = model.infer(decode(call, message)?).await?;
    encode(&model, id, &outputs, is_raw)
}

fn decode(call: Call, message: ModelInferRequest) -> Result<Request, Failure> {
    check(&message.parameters)?;
    let n_raw = message.raw_input_contents.len();
    if n_raw > 0 && n_raw != message.inputs.len() {
        let n = message.inputs.len();
        let what = format!("there are {n} inputs, but {n_raw} raw_input_contents");
        return Err(Failure::Request(what));
    }
    let mut raw_contents = message.raw_input_contents.into_iter();
    let mut inputs = Vec::with_capacity(message.inputs.len());
    for input in message.inputs {
        check(&input.parameters)?;
        let name = input.name;
        let (dtype, shape) = declared(&name, &input.datatype, &input.shape)?;
        let tensor = match (raw_contents.next(), input.contents) {
            (Some(bytes), None) => raw::decode(&name, dtype, &shape, bytes),
            (Some(_), Some(_)) => {
                Err(Failure::input(&name, "it has both contents and raw_input_contents"))
            }
            (None, typed) => contents::decode(&name, dtype, &shape, *typed.unwrap_or_default()),
        }?;
        inputs.push((name, tensor));
    }
    message.outputs.iter().try_for_each(|output| check(&output.parameters))?;
    let deadline = match message.parameters.get("timeout").and_then(microseconds) {
        Some(timeout) => call.deadline.min(Instant::now() + timeout),
        None => call.deadline,
    };
    let outputs = message.outputs.into_iter().map(|output| output.name).collect();
    let Call { reservation, span, .. } = call;
    Ok(Request { inputs, outputs, deadline, reservation, span })
}

/// # Errors
/// If the parameters demand what the server does not have, and ignoring them would give a wrong answer.
fn check(parameters: &HashMap<String, InferParameter>) -> Result<(), Failure> {
    match UNSUPPORTED.iter().find(|name| parameters.contains_key(**name)) {
        Some(name) => Err(Failure::Unsupported { what: format!("the parameter `{name}`") }),
        None => Ok(()),
    }
}

/// A timeout; Triton's default, 0, means none.
fn microseconds(parameter: &InferParameter) -> Option<Duration> {
    let number = match &parameter.choice {
        Some(ParameterChoice::Int64(number)) => u64::try_from(*number).ok(),
        Some(ParameterChoice::Uint64(number)) => Some(*number),
        Some(ParameterChoice::Text(text)) => text.parse().ok(),
        _ => None,
    };
    // A duration that an instant can be moved by.
    number.filter(|n| (1..=1_u64 << 50).contains(n)).map(Duration::from_micros)
}

fn encode(
    model: &Model,
    id: String,
    outputs: &Outputs,
    mut is_raw: bool,
) -> Result<ModelInferResponse, Failure> {
    let mut response = ModelInferResponse {
        model_name: model.name.clone(),
        model_version: model.version.to_string(),
        id,
        ..ModelInferResponse::default()
    };
    for (name, tensor) in outputs {
        let datatype = datatype::name(tensor.dtype()).ok_or_else(|| {
            Failure::output(name, format!("the protocol has no type for {}", tensor.dtype().name()))
        })?;
        let shape = tensor.shape().iter().map(|&n| i64::try_from(n).unwrap_or(i64::MAX)).collect();
        let contents = if is_raw { None } else { contents::encode(name, tensor)? };
        response.outputs.push(InferTensor {
            name: name.clone(),
            datatype: datatype.to_owned(),
            shape,
            contents: contents.map(Box::new),
            ..InferTensor::default()
        });
    }
    // Either all outputs are raw or none.
    if response.outputs.iter().any(|output| output.contents.is_none()) {
        is_raw = true;
    }
    if is_raw {
        for ((name, tensor), output) in outputs.iter().zip(&mut response.outputs) {
            output.contents = None;
            response.raw_output_contents.push(raw::encode(name, tensor)?);
        }
    }
    Ok(response)
}
