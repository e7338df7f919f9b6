//! The messages of onnx.proto (ONNX 1.23) that hold values, field by field.
//!
//! `Option` appears where the presence of a field carries meaning; elsewhere the default does.

use bytes::Bytes;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TensorProto {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub(super) dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub(super) data_type: i32,
    #[prost(message, optional, tag = "3")]
    pub(super) segment: Option<Segment>,
    #[prost(float, repeated, tag = "4")]
    pub(super) float_data: Vec<f32>,
    #[prost(int32, repeated, tag = "5")]
    pub(super) int32_data: Vec<i32>,
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub(super) string_data: Vec<Bytes>,
    #[prost(int64, repeated, tag = "7")]
    pub(super) int64_data: Vec<i64>,
    #[prost(string, tag = "8")]
    pub(super) name: String,
    #[prost(bytes = "bytes", tag = "9")]
    pub(super) raw_data: Bytes,
    #[prost(double, repeated, tag = "10")]
    pub(super) double_data: Vec<f64>,
    #[prost(uint64, repeated, tag = "11")]
    pub(super) uint64_data: Vec<u64>,
    /// 1 if the data is in another file.
    #[prost(int32, tag = "14")]
    pub(super) data_location: i32,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct Segment {
    #[prost(int64, tag = "1")]
    pub(super) begin: i64,
    #[prost(int64, tag = "2")]
    pub(super) end: i64,
}

/// Which field of a sequence or optional holds its values: the numbers of `elem_type`.
pub(super) mod elem_type {
    pub(crate) const UNDEFINED: i32 = 0;
    pub(crate) const TENSOR: i32 = 1;
    pub(crate) const SEQUENCE: i32 = 3;
    pub(crate) const MAP: i32 = 4;
    pub(crate) const OPTIONAL: i32 = 5;
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SequenceProto {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(int32, tag = "2")]
    pub(super) elem_type: i32,
    #[prost(message, repeated, tag = "3")]
    pub(super) tensor_values: Vec<TensorProto>,
    #[prost(message, repeated, tag = "5")]
    pub(super) sequence_values: Vec<SequenceProto>,
    #[prost(message, repeated, tag = "6")]
    pub(super) map_values: Vec<MapProto>,
    #[prost(message, repeated, tag = "7")]
    pub(super) optional_values: Vec<OptionalProto>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MapProto {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(int32, tag = "2")]
    pub(super) key_type: i32,
    #[prost(int64, repeated, packed = "false", tag = "3")]
    pub(super) keys: Vec<i64>,
    #[prost(bytes = "bytes", repeated, tag = "4")]
    pub(super) string_keys: Vec<Bytes>,
    #[prost(message, optional, tag = "5")]
    pub(super) values: Option<SequenceProto>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OptionalProto {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(int32, tag = "2")]
    pub(super) elem_type: i32,
    #[prost(message, optional, tag = "3")]
    pub(super) tensor_value: Option<TensorProto>,
    #[prost(message, optional, tag = "5")]
    pub(super) sequence_value: Option<SequenceProto>,
    #[prost(message, optional, tag = "6")]
    pub(super) map_value: Option<MapProto>,
    #[prost(message, optional, boxed, tag = "7")]
    pub(super) optional_value: Option<Box<OptionalProto>>,
}
