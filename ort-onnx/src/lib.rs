//! ONNX's protobuf files: models, and the tensors, sequences, maps and optionals of `.pb` files.
//!
//! [`open`] takes the bytes of a model. Every field is validated, and counted against explicit [`Limits`], before anything
//! is allocated for it; errors have a path and an offset. Strings and lists are copied,
//! but the elements of tensors remain slices of the bytes. Calls of model-local functions are inlined, so that the
//! result has operators only.
//!
//! Elements may be in external files ([`external::locations`]), which the caller passes as [`ExternalFiles`].
//!
//! The messages are declared with derives of `prost`, which encode them: there is no schema compiler and no build script, and
//! its `Bytes` fields share the memory of the input. (`protobuf` copies them; `quick-protobuf` and `micropb` need
//! generated code.) They are decoded here, with the checks and in one pass.
//!
//! ```
//! use ort_onnx::{Limits, open};
//!
//! let cut = bytes::Bytes::from_static(&[8, 8, 58, 4, 10, 2, 34, 9]);
//! let error = open(&cut, &Limits::default()).unwrap_err();
//! assert_eq!(error.to_string(), "graph.node, byte 6: the message ends within a field");
//! ```
//!
//! # When to use it alone
//!
//! To read and write `.onnx` and `.pb` files without a graph or a runtime.

#![forbid(unsafe_code)]

mod decode;
mod error;
pub mod external;
mod functions;
pub mod opsets;
pub mod schema;
mod tensor;

use bytes::Bytes;
use ort_tensor::{TensorError, with_room};
use prost::Message;

pub use crate::decode::{Limits, is_onnx};
pub use crate::error::{Damage, ElementsError, OnnxError};
pub use crate::external::ExternalFiles;
pub use crate::schema::ModelProto;
pub use crate::tensor::{Elements, shape, strings};

/// The newest supported IR version.
pub const NEWEST_IR: i64 = 14;

/// The model in `bytes`, with its functions inlined. Elements of tensors are slices of `bytes`.
///
/// # Errors
/// If the bytes are not a model, exceed the limits, or have functions that call themselves.
pub fn open(bytes: &Bytes, limits: &Limits) -> Result<ModelProto, OnnxError> {
    let mut model = decode(bytes, limits)?;
    functions::inline(&mut model, limits)?;
    Ok(model)
}

/// The model in `bytes` as it is stored, with its functions.
///
/// # Errors
/// If the bytes are not a model, or exceed the limits.
pub fn decode(bytes: &Bytes, limits: &Limits) -> Result<ModelProto, OnnxError> {
    let model = decode::decode_model(bytes, limits)?;
    if !(1..=NEWEST_IR).contains(&model.ir_version) {
        return Err(OnnxError::IrVersion { found: model.ir_version });
    }
    match model.graph {
        Some(_) => Ok(model),
        None => Err(OnnxError::NoGraph),
    }
}

/// The encoded model. Equal models give equal bytes. The memory counts against the allowance of the thread
/// (`ort_tensor::within`).
///
/// # Errors
/// If it has 2 GiB or more, which readers of protobuf reject, there is no memory for it, or the thread was cancelled.
pub fn encode(model: &ModelProto) -> Result<Vec<u8>, OnnxError> {
    let length = model.encoded_len();
    i32::try_from(length).map_err(|_| OnnxError::TooLarge { length })?;
    let memory = |error| OnnxError::Memory { path: "model".to_owned(), error };
    let mut bytes = with_room(length).map_err(memory)?;
    model.encode_raw(&mut bytes);
    // The rest of a tensor is left out when the thread is cancelled.
    match bytes.len() == length {
        true => Ok(bytes),
        false => Err(memory(TensorError::Ended)),
    }
}
