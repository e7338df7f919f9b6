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
use ort_onnx::{Limits, OnnxError};
use ort_tensor::{TensorError, Value, with_room, within};
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
        // What this takes is free afterwards.
        match within(usize::MAX, usize::MAX, || decode(bytes, Kind::Tensor)) {
            Ok(_) | Err(PbError::Tensor(TensorError::NoMemory { .. })) => Kind::Tensor,
            Err(_) => Kind::Sequence,
        }
    }
}

/// Decodes the value in `bytes`. Tensors share their data with `bytes` where alignment allows; everything else counts against
/// the allowance of the thread (`ort_tensor::within`).
///
/// # Errors
/// If `bytes` are not a complete value of this kind, or there is no memory for it.
pub fn decode(bytes: &Bytes, kind: Kind) -> Result<Named, PbError> {
    let limits = Limits::default();
    let (name, value) = match kind {
        Kind::Tensor => {
            let proto = message("tensor", TensorProto::open(bytes, &limits))?;
            (proto.name.clone(), Value::Tensor(tensor::to_tensor(proto)?))
        }
        Kind::Sequence => {
            let proto = message("sequence", SequenceProto::open(bytes, &limits))?;
            (proto.name.clone(), Value::Sequence(nested::to_sequence(proto)?))
        }
        Kind::Map => {
            let proto = message("map", MapProto::open(bytes, &limits))?;
            (proto.name.clone(), Value::Map(nested::to_map(proto)?))
        }
        Kind::Optional => {
            let proto = message("optional", OptionalProto::open(bytes, &limits))?;
            (proto.name.clone(), Value::Optional(nested::to_optional(proto)?))
        }
    };
    Ok(Named { name, value })
}

/// Encodes `value` under `name`.
///
/// # Errors
/// If a sequence has values of several kinds, a map has different numbers of keys and values, or there is no memory.
pub fn encode(name: &str, value: &Value) -> Result<Vec<u8>, PbError> {
    match value {
        Value::Tensor(tensor) => encoded(&tensor::from_tensor(name, tensor)?),
        Value::Sequence(values) => encoded(&nested::from_sequence(name, values)?),
        Value::Map(map) => encoded(&nested::from_map(name, map)?),
        Value::Optional(value) => encoded(&nested::from_optional(name, value.as_deref())?),
        other => Err(PbError::NoFile { kind: other.kind() }),
    }
}

fn encoded(message: &impl Message) -> Result<Vec<u8>, PbError> {
    let mut bytes = with_room(message.encoded_len())?;
    message.encode_raw(&mut bytes);
    Ok(bytes)
}

fn message<M>(kind: &'static str, opened: Result<M, OnnxError>) -> Result<M, PbError> {
    opened.map_err(|source| match source {
        OnnxError::Memory { error, .. } => error.into(),
        source => PbError::Decode { kind, source: Box::new(source) },
    })
}

#[cfg(test)]
mod tests;
