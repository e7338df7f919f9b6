//! Whether the server and its models are live and ready.

use super::Call;
use super::messages::{Empty, Flag, HealthCheckRequest, HealthCheckResponse, ModelRequest};
use crate::failure::Failure;

const SERVING: i32 = 1;
const NOT_SERVING: i32 = 2;

pub(super) async fn server_live(_: Call, _: Empty) -> Result<Flag, Failure> {
    Ok(Flag { is_set: true })
}

pub(super) async fn server_ready(call: Call, _: Empty) -> Result<Flag, Failure> {
    Ok(Flag { is_set: call.app.is_ready() })
}

pub(super) async fn model_ready(call: Call, request: ModelRequest) -> Result<Flag, Failure> {
    let found = call.app.repository.get(&request.name, &request.version);
    Ok(Flag { is_set: found.is_ok() })
}

/// The state of the server (`service` is empty or its own), or that of the model of this name.
pub(super) async fn check(
    call: Call,
    request: HealthCheckRequest,
) -> Result<HealthCheckResponse, Failure> {
    let is_serving = match request.service.as_str() {
        "" | "inference.GRPCInferenceService" => call.app.is_ready(),
        name => call.app.repository.get(name, "").map(|_| call.app.is_ready())?,
    };
    Ok(HealthCheckResponse { status: if is_serving { SERVING } else { NOT_SERVING } })
}
