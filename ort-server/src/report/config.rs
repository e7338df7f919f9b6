//! The configuration of a model, as the server runs it.

use serde::{Serialize, Serializer};

use crate::model::{Model, Port};
use crate::{PLATFORM, SERVER};

#[derive(Clone, PartialEq, Eq, Serialize, prost::Message)]
pub(crate) struct ModelConfig {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) platform: String,
    #[prost(string, tag = "17")]
    pub(crate) backend: String,
    /// 0 without batching.
    #[prost(int32, tag = "4")]
    pub(crate) max_batch_size: i32,
    #[prost(message, repeated, tag = "5")]
    pub(crate) input: Vec<ModelInput>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) output: Vec<ModelOutput>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) instance_group: Vec<InstanceGroup>,
    #[prost(message, optional, tag = "11")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dynamic_batching: Option<DynamicBatching>,
}

/// With batching, `dims` is the shape without its first dimension.
#[derive(Clone, PartialEq, Eq, Serialize, prost::Message)]
pub(crate) struct ModelInput {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(int32, tag = "2")]
    #[serde(serialize_with = "type_name")]
    pub(crate) data_type: i32,
    #[prost(int64, repeated, tag = "4")]
    pub(crate) dims: Vec<i64>,
}

#[derive(Clone, PartialEq, Eq, Serialize, prost::Message)]
pub(crate) struct ModelOutput {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(int32, tag = "2")]
    #[serde(serialize_with = "type_name")]
    pub(crate) data_type: i32,
    #[prost(int64, repeated, tag = "3")]
    pub(crate) dims: Vec<i64>,
}

#[derive(Clone, PartialEq, Eq, Serialize, prost::Message)]
pub(crate) struct InstanceGroup {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(int32, tag = "2")]
    pub(crate) count: i32,
    #[prost(int32, tag = "4")]
    #[serde(serialize_with = "kind_name")]
    pub(crate) kind: i32,
}

#[derive(Clone, PartialEq, Eq, Serialize, prost::Message)]
pub(crate) struct DynamicBatching {
    #[prost(uint64, tag = "2")]
    pub(crate) max_queue_delay_microseconds: u64,
    #[prost(message, optional, tag = "6")]
    pub(crate) default_queue_policy: Option<QueuePolicy>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, prost::Message)]
pub(crate) struct QueuePolicy {
    #[prost(uint32, tag = "4")]
    pub(crate) max_queue_size: u32,
}

/// `KIND_CPU`.
const CPU: i32 = 2;

/// The values of `DataType`, by the protocol's names of the types.
const TYPES: [(&str, &str, i32); 14] = [
    ("BOOL", "TYPE_BOOL", 1),
    ("UINT8", "TYPE_UINT8", 2),
    ("UINT16", "TYPE_UINT16", 3),
    ("UINT32", "TYPE_UINT32", 4),
    ("UINT64", "TYPE_UINT64", 5),
    ("INT8", "TYPE_INT8", 6),
    ("INT16", "TYPE_INT16", 7),
    ("INT32", "TYPE_INT32", 8),
    ("INT64", "TYPE_INT64", 9),
    ("FP16", "TYPE_FP16", 10),
    ("FP32", "TYPE_FP32", 11),
    ("FP64", "TYPE_FP64", 12),
    ("BYTES", "TYPE_STRING", 13),
    ("BF16", "TYPE_BF16", 14),
];

impl ModelConfig {
    pub(crate) fn of(model: &Model) -> Self {
        let scheduling = model.scheduling;
        let number = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
        let n_batch_dims = usize::from(scheduling.batching.is_some());
        let fields = |port: &Port| {
            let data_type = TYPES.iter().find(|(name, ..)| *name == port.datatype);
            let dims = port.shape.get(n_batch_dims..).unwrap_or_default();
            (port.name.clone(), data_type.map_or(0, |(.., number)| *number), dims.to_vec())
        };
        let input = |port| {
            let (name, data_type, dims) = fields(port);
            ModelInput { name, data_type, dims }
        };
        let output = |port| {
            let (name, data_type, dims) = fields(port);
            ModelOutput { name, data_type, dims }
        };
        let max_queue_size = u32::try_from(scheduling.max_queue).unwrap_or(u32::MAX);
        Self {
            name: model.name.clone(),
            platform: PLATFORM.to_owned(),
            backend: SERVER.to_owned(),
            max_batch_size: scheduling.batching.map_or(0, |batching| number(batching.max_rows)),
            input: model.description.inputs.iter().map(input).collect(),
            output: model.description.outputs.iter().map(output).collect(),
            instance_group: vec![InstanceGroup {
                name: model.name.clone(),
                count: number(scheduling.n_instances),
                kind: CPU,
            }],
            dynamic_batching: scheduling.batching.map(|batching| DynamicBatching {
                max_queue_delay_microseconds: u64::try_from(batching.max_delay.as_micros())
                    .unwrap_or(u64::MAX),
                default_queue_policy: Some(QueuePolicy { max_queue_size }),
            }),
        }
    }
}

/// Enumerations are names in JSON.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn type_name<S: Serializer>(number: &i32, serializer: S) -> Result<S::Ok, S::Error> {
    let found = TYPES.iter().find(|(.., known)| known == number);
    serializer.serialize_str(found.map_or("TYPE_INVALID", |(_, name, _)| name))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn kind_name<S: Serializer>(_: &i32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str("KIND_CPU")
}
