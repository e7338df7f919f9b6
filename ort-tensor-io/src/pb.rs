//! ONNX's value files: a serialized `TensorProto`, `SequenceProto`, `MapProto` or `OptionalProto`.
//!
//! The bytes do not identify the message, and a sequence of one value is encoded like
//! an optional that has one. So a caller that knows the type of the model's input passes the [`Kind`];
//! without it, [`Kind::guess`] distinguishes tensors from the rest.
//!
//! Source: onnx.proto and onnx-data.proto, ONNX 1.23.

mod error;
mod nested;
mod tensor;

use bytes::Bytes;
use ort_onnx::schema::{MapProto, OptionalProto, SequenceProto, TensorProto};
use ort_tensor::Value;
use prost::Message;

pub use self::error::PbError;

/// The kind of value in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A `TensorProto`.
    Tensor,
    /// A `SequenceProto`.
    Sequence,
    /// A `MapProto`.
    Map,
    /// An `OptionalProto`.
    Optional,
}

/// A value and its name, which is empty if the file has none.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// The name of the graph's input or output.
    pub name: String,
    /// The value.
    pub value: Value,
}

impl Kind {
    /// A tensor if `bytes` decode as one with as many elements as its shape requires; otherwise
    /// a sequence. Maps and optionals cannot be distinguished from sequences.
    pub fn guess(bytes: &Bytes) -> Self {
        match decode(bytes, Kind::Tensor) {
            Ok(_) => Kind::Tensor,
            Err(_) => Kind::Sequence,
        }
    }
}

/// Decodes the value in `bytes`. Tensors share their data with `bytes` where alignment allows.
///
/// # Errors
/// If `bytes` are not a complete value of this kind.
pub fn decode(bytes: &Bytes, kind: Kind) -> Result<Named, PbError> {
    let (name, value) = match kind {
        Kind::Tensor => {
            let proto: TensorProto = message(bytes, "tensor")?;
            (proto.name.clone(), Value::Tensor(tensor::to_tensor(proto)?))
        }
        Kind::Sequence => {
            let proto: SequenceProto = message(bytes, "sequence")?;
            (proto.name.clone(), Value::Sequence(nested::to_sequence(proto)?))
        }
        Kind::Map => {
            let proto: MapProto = message(bytes, "map")?;
            (proto.name.clone(), Value::Map(nested::to_map(proto)?))
        }
        Kind::Optional => {
            let proto: OptionalProto = message(bytes, "optional")?;
            (proto.name.clone(), Value::Optional(nested::to_optional(proto)?))
        }
    };
    Ok(Named { name, value })
}

/// Encodes `value` under `name`.
///
/// # Errors
/// If a sequence has values of several kinds, or a map has different numbers of keys and values.
pub fn encode(name: &str, value: &Value) -> Result<Vec<u8>, PbError> {
    Ok(match value {
        Value::Tensor(tensor) => tensor::from_tensor(name, tensor).encode_to_vec(),
        Value::Sequence(values) => nested::from_sequence(name, values)?.encode_to_vec(),
        Value::Map(map) => nested::from_map(name, map)?.encode_to_vec(),
        Value::Optional(value) => nested::from_optional(name, value.as_deref())?.encode_to_vec(),
        other => return Err(PbError::NoFile { kind: other.kind() }),
    })
}

fn message<M: Message + Default>(bytes: &Bytes, kind: &'static str) -> Result<M, PbError> {
    M::decode(bytes.clone()).map_err(|source| PbError::Decode { kind, source })
}

#[cfg(test)]
mod tests;
