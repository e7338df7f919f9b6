//! Everything but inference: the server, its models, and loading and unloading them.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use super::admission::{read, reservation};
use super::json;
use crate::app::App;
use crate::failure::Failure;
use crate::model::Port;
use crate::report::{self, ModelConfig};
use crate::{EXTENSIONS, PLATFORM, SERVER};

/// The bytes of a message that is not for inference.
const MAX_CONTROL_BYTES: usize = 64 << 10;

/// The parts of a path that name a model: `name`, and maybe `version`.
pub(super) type ModelPath = Path<HashMap<String, String>>;

/// The name of a model, and its version or an empty text.
pub(super) fn of_path(path: &ModelPath) -> (&str, &str) {
    let part = |key| path.get(key).map_or("", String::as_str);
    (part("name"), part("version"))
}

#[derive(Serialize)]
struct ServerMetadata {
    name: &'static str,
    version: &'static str,
    extensions: &'static [&'static str],
}

pub(super) async fn server() -> Response {
    json(&ServerMetadata {
        name: SERVER,
        version: env!("CARGO_PKG_VERSION"),
        extensions: EXTENSIONS,
    })
}

pub(super) async fn live() -> StatusCode {
    StatusCode::OK
}

pub(super) async fn ready(State(app): State<Arc<App>>) -> StatusCode {
    if app.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

#[derive(Serialize)]
struct ModelMetadata<'a> {
    name: &'a str,
    versions: Vec<String>,
    platform: &'static str,
    inputs: Vec<TensorMetadata<'a>>,
    outputs: Vec<TensorMetadata<'a>>,
}

#[derive(Serialize)]
struct TensorMetadata<'a> {
    name: &'a str,
    datatype: &'static str,
    shape: &'a [i64],
}

impl<'a> From<&'a Port> for TensorMetadata<'a> {
    fn from(port: &'a Port) -> Self {
        Self { name: &port.name, datatype: port.datatype, shape: &port.shape }
    }
}

pub(super) async fn model(
    State(app): State<Arc<App>>,
    path: ModelPath,
) -> Result<Response, Failure> {
    let (name, version) = of_path(&path);
    let model = app.repository.get(name, version)?;
    let versions = app.repository.ready_versions(name);
    Ok(json(&ModelMetadata {
        name,
        versions: versions.iter().map(u64::to_string).collect(),
        platform: PLATFORM,
        inputs: model.description.inputs.iter().map(TensorMetadata::from).collect(),
        outputs: model.description.outputs.iter().map(TensorMetadata::from).collect(),
    }))
}

pub(super) async fn model_ready(
    State(app): State<Arc<App>>,
    path: ModelPath,
) -> Result<StatusCode, Failure> {
    let (name, version) = of_path(&path);
    app.repository.get(name, version).map(|_| StatusCode::OK)
}

pub(super) async fn config(
    State(app): State<Arc<App>>,
    path: ModelPath,
) -> Result<Response, Failure> {
    let (name, version) = of_path(&path);
    let model = app.repository.get(name, version)?;
    Ok(json(&ModelConfig::of(&model)))
}

pub(super) async fn statistics(
    State(app): State<Arc<App>>,
    path: ModelPath,
) -> Result<Response, Failure> {
    let (name, version) = of_path(&path);
    Ok(json(&report::statistics(&app, name, version)?))
}

pub(super) async fn all_statistics(State(app): State<Arc<App>>) -> Result<Response, Failure> {
    Ok(json(&report::statistics(&app, "", "")?))
}

#[derive(Default, Deserialize)]
struct IndexRequest {
    #[serde(default)]
    ready: bool,
}

#[derive(Serialize)]
struct IndexEntry {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    state: &'static str,
    reason: String,
}

pub(super) async fn index(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, Failure> {
    let request: IndexRequest = message(&whole(&app, request).await?)?;
    let entries = spawn_blocking(move || app.repository.index(request.ready)).await;
    let entries = entries.map_err(|_| Failure::Internal("the index panicked"))?;
    let entries = entries.map_err(|_| Failure::Internal("the model repository cannot be read"))?;
    let entry = |entry: crate::repository::Entry| IndexEntry {
        name: entry.name,
        version: entry.version.map(|version| version.to_string()),
        state: entry.state,
        reason: entry.reason,
    };
    Ok(json(&entries.into_iter().map(entry).collect::<Vec<_>>()))
}

#[derive(Default, Deserialize)]
struct ControlRequest {
    #[serde(default)]
    parameters: HashMap<String, IgnoredAny>,
}

pub(super) async fn load(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<StatusCode, Failure> {
    app.check_control()?;
    let request: ControlRequest = message(&whole(&app, request).await?)?;
    if let Some(parameter) = request.parameters.into_keys().next() {
        return Err(Failure::Unsupported { what: format!("the parameter `{parameter}`") });
    }
    let loaded = spawn_blocking(move || app.repository.load(&name)).await;
    loaded.map_err(|_| Failure::Internal("loading panicked"))??;
    Ok(StatusCode::OK)
}

pub(super) async fn unload(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<StatusCode, Failure> {
    app.check_control()?;
    // The body may have Triton's `unload_dependents`; models have no dependents here.
    let unloaded = spawn_blocking(move || app.repository.unload(&name)).await;
    unloaded.map_err(|_| Failure::Internal("unloading panicked"))??;
    Ok(StatusCode::OK)
}

/// The body of a request that is small.
async fn whole(app: &App, request: Request) -> Result<Bytes, Failure> {
    let (parts, body) = request.into_parts();
    let reservation = reservation(app, &parts.extensions);
    let reading = tokio::time::timeout(app.limits.max_time, read(body, &reservation));
    let body = reading.await.map_err(|_| Failure::Late)??;
    match body.len() > MAX_CONTROL_BYTES {
        true => Err(Failure::TooLarge { limit: MAX_CONTROL_BYTES }),
        false => Ok(body),
    }
}

/// The JSON of an optional body.
fn message<'a, T: Default + Deserialize<'a>>(text: &'a [u8]) -> Result<T, Failure> {
    if text.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(text).map_err(|error| Failure::Request(format!("invalid JSON: {error}")))
}
