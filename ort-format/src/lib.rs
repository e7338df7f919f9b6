//! Validates, reads in place, and writes `.ort` files, ONNX Runtime's model format.
//!
//! [`open`] takes the bytes of a file of version 1 to 6. It follows every offset within explicit [`Limits`] and validates
//! the references between tables. After that, the views ([`File`], [`Graph`],
//! [`Node`], [`Tensor`], …) never fail; they are `Copy` and borrow from the bytes. Stored edges, providers and runtime
//! optimizations are hints, and are exposed for display only.
//!
//! [`write()`] takes the same tables as [`record`]s. Equal records give equal bytes, and tensors are aligned to
//! 64 bytes, so that kernels can read a mapped file in place.
//!
//! The crate does not know the meaning of a tensor or an operator.
//!
//! Source: schema and loader of ONNX Runtime 1.31.
//!
//! # When to use it alone
//!
//! To inspect or write `.ort` files without a runtime.
//!
//! ```
//! use ort_format::{Limits, open, record, write};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let opset = record::OperatorSetId { domain: "".into(), version: 17 };
//! let model = record::Model { opset_import: vec![opset], ..record::Model::default() };
//! let bytes = write(&record::File { model, ..record::File::default() })?;
//! let file = open(&bytes, &Limits::default())?;
//! assert_eq!(file.model().opset_import().iter().map(|set| set.version()).collect::<Vec<_>>(), [17]);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]
#![deny(clippy::as_conversions)]

#[macro_use]
mod expand;
mod attribute;
mod check;
mod computed;
mod container;
mod edge;
mod enums;
mod error;
mod limits;
mod packed;
mod put;
mod schema;
mod to_record;
mod type_info;
mod wire;
mod writer;

pub use attribute::AttributeValue;
pub use container::{ADAPTER_VERSION, MAX_FILE_LENGTH, NEWEST_VERSION};
pub use edge::EdgeEnd;
pub use enums::{ArgType, AttributeType, DataType, DimensionValueType, NodeType};
pub use error::{Damage, Fault, FormatError, Oddity, Warning, WriteError};
pub use limits::Limits;
pub use schema::{record, view::*};
pub use type_info::TypeInfoValue;
pub use wire::{Element, Elements, Position, Vector};

use put::Root;
use schema::view;

/// Opens and validates the file in `bytes`.
///
/// Nothing is copied: views borrow from `bytes`. Validation takes at most three times the file's size of memory, which is
/// counted, and can be cancelled.
///
/// # Errors
/// [`FormatError`]: the first defect found, and its place.
pub fn open<'a>(bytes: &'a [u8], limits: &Limits) -> Result<File<'a>, FormatError> {
    let file = container::root(bytes, limits)?;
    check::check(file, bytes.len(), limits, None)?;
    Ok(file)
}

/// Opens a file like [`open`], and returns up to a hundred warnings about harmless oddities.
///
/// # Errors
/// [`FormatError`]: the first defect found, and its place.
pub fn open_with_warnings<'a>(
    bytes: &'a [u8],
    limits: &Limits,
) -> Result<(File<'a>, Vec<Warning>), FormatError> {
    let file = container::root(bytes, limits)?;
    let mut warnings = Vec::new();
    check::check(file, bytes.len(), limits, Some(&mut warnings))?;
    Ok((file, warnings))
}

/// The bytes of a file of version 6 that holds `file`.
///
/// Equal records give equal bytes. Edges between nodes follow from names; vectors with lookup keys are sorted by key;
/// equal strings are stored once; tensors start at multiples of 64 bytes. A resolver that lacks a
/// node's operator is left out, and the file then has version 4, for which ONNX Runtime derives its own resolver.
///
/// # Errors
/// [`WriteError`]: the file would be too big, there is no memory for it, writing was cancelled, or [`open`] would reject it.
pub fn write(file: &record::File<'_>) -> Result<Vec<u8>, WriteError> {
    let bytes = file.bytes()?;
    open(&bytes, &Limits::default())?;
    Ok(bytes)
}

/// The LoRA adapter in `bytes`, checked whole: tables of ONNX Runtime's adapter format, version [`ADAPTER_VERSION`].
///
/// # Errors
/// [`FormatError`]: the first fault found, and where.
///
/// Source: `adapter_schema.fbs` of ONNX Runtime 1.32.
pub fn open_adapter<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Adapter<'a>, FormatError> {
    let adapter = container::adapter(bytes, limits)?;
    check::check_adapter(adapter)?;
    Ok(adapter)
}

/// The bytes of a file that holds `adapter`. Elements start at multiples of 64 bytes.
///
/// # Errors
/// [`WriteError`]: the file would be too big, there is no memory for it, or [`open_adapter`] would reject it.
pub fn write_adapter(adapter: &record::Adapter<'_>) -> Result<Vec<u8>, WriteError> {
    let bytes = adapter.bytes()?;
    open_adapter(&bytes, &Limits::default())?;
    Ok(bytes)
}

impl File<'_> {
    /// The version as a number; `None` where it is another string, which counts as older than 5.
    pub fn version(self) -> Option<u32> {
        let text = self.ort_version()?;
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().unwrap_or(u32::MAX))
    }
}
