//! The messages of the Open Inference Protocol's `inference.GRPCInferenceService`, and of `grpc.health.v1.Health`.
//!
//! Source: Open Inference Protocol, `open_inference_grpc.proto`, and for the repository Triton's `grpc_service.proto`.

use std::collections::HashMap;

use bytes::Bytes;

use crate::report::ModelConfig;

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct Empty {}

/// Of the server: whether it is live, or ready; of a model: whether it is ready.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct Flag {
    #[prost(bool, tag = "1")]
    pub(super) is_set: bool,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct ServerMetadataResponse {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
    #[prost(string, repeated, tag = "3")]
    pub(super) extensions: Vec<String>,
}

/// Of `ModelReady`, `ModelMetadata`, `ModelConfig` and `ModelStatistics`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct ModelRequest {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ModelMetadataResponse {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, repeated, tag = "2")]
    pub(super) versions: Vec<String>,
    #[prost(string, tag = "3")]
    pub(super) platform: String,
    #[prost(message, repeated, tag = "4")]
    pub(super) inputs: Vec<TensorMetadata>,
    #[prost(message, repeated, tag = "5")]
    pub(super) outputs: Vec<TensorMetadata>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct TensorMetadata {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) datatype: String,
    #[prost(int64, repeated, tag = "3")]
    pub(super) shape: Vec<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ModelInferRequest {
    #[prost(string, tag = "1")]
    pub(super) model_name: String,
    #[prost(string, tag = "2")]
    pub(super) model_version: String,
    #[prost(string, tag = "3")]
    pub(super) id: String,
    #[prost(map = "string, message", tag = "4")]
    pub(super) parameters: HashMap<String, InferParameter>,
    #[prost(message, repeated, tag = "5")]
    pub(super) inputs: Vec<InferTensor>,
    #[prost(message, repeated, tag = "6")]
    pub(super) outputs: Vec<InferRequestedOutput>,
    #[prost(bytes = "bytes", repeated, tag = "7")]
    pub(super) raw_input_contents: Vec<Bytes>,
}

/// An input or an output.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct InferTensor {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) datatype: String,
    #[prost(int64, repeated, tag = "3")]
    pub(super) shape: Vec<i64>,
    #[prost(map = "string, message", tag = "4")]
    pub(super) parameters: HashMap<String, InferParameter>,
    #[prost(message, optional, boxed, tag = "5")]
    pub(super) contents: Option<Box<InferTensorContents>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct InferRequestedOutput {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(map = "string, message", tag = "2")]
    pub(super) parameters: HashMap<String, InferParameter>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct InferParameter {
    #[prost(oneof = "ParameterChoice", tags = "1, 2, 3, 4, 5")]
    pub(super) choice: Option<ParameterChoice>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum ParameterChoice {
    #[prost(bool, tag = "1")]
    Bool(bool),
    #[prost(int64, tag = "2")]
    Int64(i64),
    #[prost(string, tag = "3")]
    Text(String),
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(uint64, tag = "5")]
    Uint64(u64),
}

/// The elements of a tensor, in the field for its type.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct InferTensorContents {
    #[prost(bool, repeated, tag = "1")]
    pub(super) bools: Vec<bool>,
    /// INT8, INT16 and INT32.
    #[prost(int32, repeated, tag = "2")]
    pub(super) ints: Vec<i32>,
    #[prost(int64, repeated, tag = "3")]
    pub(super) int64s: Vec<i64>,
    /// UINT8, UINT16 and UINT32.
    #[prost(uint32, repeated, tag = "4")]
    pub(super) uints: Vec<u32>,
    #[prost(uint64, repeated, tag = "5")]
    pub(super) uint64s: Vec<u64>,
    #[prost(float, repeated, tag = "6")]
    pub(super) fp32s: Vec<f32>,
    #[prost(double, repeated, tag = "7")]
    pub(super) fp64s: Vec<f64>,
    #[prost(bytes = "bytes", repeated, tag = "8")]
    pub(super) bytes: Vec<Bytes>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ModelInferResponse {
    #[prost(string, tag = "1")]
    pub(super) model_name: String,
    #[prost(string, tag = "2")]
    pub(super) model_version: String,
    #[prost(string, tag = "3")]
    pub(super) id: String,
    #[prost(map = "string, message", tag = "4")]
    pub(super) parameters: HashMap<String, InferParameter>,
    #[prost(message, repeated, tag = "5")]
    pub(super) outputs: Vec<InferTensor>,
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub(super) raw_output_contents: Vec<Bytes>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ModelStreamInferResponse {
    #[prost(string, tag = "1")]
    pub(super) error_message: String,
    #[prost(message, optional, tag = "2")]
    pub(super) infer_response: Option<ModelInferResponse>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct ModelConfigResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) config: Option<ModelConfig>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct RepositoryIndexRequest {
    #[prost(bool, tag = "2")]
    pub(super) ready: bool,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct RepositoryIndexResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) models: Vec<ModelIndex>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct ModelIndex {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
    #[prost(string, tag = "3")]
    pub(super) state: String,
    #[prost(string, tag = "4")]
    pub(super) reason: String,
}

/// Of `RepositoryModelLoad` and `RepositoryModelUnload`. Only the names of the parameters matter.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct RepositoryModelRequest {
    #[prost(string, tag = "2")]
    pub(super) model_name: String,
    #[prost(map = "string, message", tag = "3")]
    pub(super) parameters: HashMap<String, Empty>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    pub(super) service: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct HealthCheckResponse {
    /// 1: serving; 2: not serving.
    #[prost(int32, tag = "1")]
    pub(super) status: i32,
}
