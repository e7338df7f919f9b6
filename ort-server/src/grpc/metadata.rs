//! The server, its models, and loading and unloading them.

use tokio::task::spawn_blocking;

use super::Call;
use super::messages::{
    Empty, ModelConfigResponse, ModelIndex, ModelMetadataResponse, ModelRequest,
    RepositoryIndexRequest, RepositoryIndexResponse, RepositoryModelRequest,
    ServerMetadataResponse, TensorMetadata,
};
use crate::failure::Failure;
use crate::model::Port;
use crate::report::{self, ModelConfig, StatisticsResponse};
use crate::{EXTENSIONS, PLATFORM, SERVER};

pub(super) async fn server(_: Call, _: Empty) -> Result<ServerMetadataResponse, Failure> {
    Ok(ServerMetadataResponse {
        name: SERVER.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        extensions: EXTENSIONS.iter().map(|&name| name.to_owned()).collect(),
    })
}

pub(super) async fn model(
    call: Call,
    request: ModelRequest,
) -> Result<ModelMetadataResponse, Failure> {
    let repository = &call.app.repository;
    let model = repository.get(&request.name, &request.version)?;
    let versions = repository.ready_versions(&request.name);
    Ok(ModelMetadataResponse {
        versions: versions.iter().map(u64::to_string).collect(),
        name: request.name,
        platform: PLATFORM.to_owned(),
        inputs: model.description.inputs.iter().map(TensorMetadata::from).collect(),
        outputs: model.description.outputs.iter().map(TensorMetadata::from).collect(),
    })
}

pub(super) async fn config(
    call: Call,
    request: ModelRequest,
) -> Result<ModelConfigResponse, Failure> {
    let model = call.app.repository.get(&request.name, &request.version)?;
    Ok(ModelConfigResponse { config: Some(ModelConfig::of(&model)) })
}

pub(super) async fn statistics(
    call: Call,
    request: ModelRequest,
) -> Result<StatisticsResponse, Failure> {
    report::statistics(&call.app, &request.name, &request.version)
}

impl From<&Port> for TensorMetadata {
    fn from(port: &Port) -> Self {
        let (name, datatype) = (port.name.clone(), port.datatype.to_owned());
        Self { name, datatype, shape: port.shape.clone() }
    }
}

pub(super) async fn index(
    call: Call,
    request: RepositoryIndexRequest,
) -> Result<RepositoryIndexResponse, Failure> {
    let entries = spawn_blocking(move || call.app.repository.index(request.ready)).await;
    let entries = entries.map_err(|_| Failure::Internal("the index panicked"))?;
    let entries = entries.map_err(|_| Failure::Internal("the model repository cannot be read"))?;
    let model = |entry: crate::repository::Entry| ModelIndex {
        name: entry.name,
        version: entry.version.map_or_else(String::new, |version| version.to_string()),
        state: entry.state.to_owned(),
        reason: entry.reason,
    };
    Ok(RepositoryIndexResponse { models: entries.into_iter().map(model).collect() })
}

pub(super) async fn load(call: Call, request: RepositoryModelRequest) -> Result<Empty, Failure> {
    call.app.check_control()?;
    if let Some(parameter) = request.parameters.into_keys().next() {
        return Err(Failure::Unsupported { what: format!("the parameter `{parameter}`") });
    }
    let loaded = spawn_blocking(move || call.app.repository.load(&request.model_name)).await;
    loaded.map_err(|_| Failure::Internal("loading panicked"))??;
    Ok(Empty {})
}

pub(super) async fn unload(call: Call, request: RepositoryModelRequest) -> Result<Empty, Failure> {
    call.app.check_control()?;
    let unloaded = spawn_blocking(move || call.app.repository.unload(&request.model_name)).await;
    unloaded.map_err(|_| Failure::Internal("unloading panicked"))??;
    Ok(Empty {})
}
