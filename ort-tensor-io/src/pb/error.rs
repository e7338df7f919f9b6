//! The errors of `.pb` files.

use ort_onnx::{ElementsError, OnnxError};
use ort_tensor::{DType, TensorError};

/// Bytes that are not the expected value, or a value that cannot be written.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PbError {
    /// The bytes are not a protocol buffer of this kind.
    #[error("not a {kind} file: {source}")]
    Decode {
        /// `tensor`, `sequence`, `map` or `optional`.
        kind: &'static str,
        /// The error of the decoder.
        source: Box<OnnxError>,
    },
    /// The elements are missing, or do not fit the type.
    #[error(transparent)]
    Elements(ElementsError),
    /// The data is external.
    #[error("external data is not supported")]
    External,
    /// A number does not fit the element type.
    #[error("element {index} is {value}, which is not a valid {dtype}")]
    OutOfRange {
        /// The element type.
        dtype: DType,
        /// The position of the number in its field.
        index: usize,
        /// The number.
        value: i128,
    },
    /// Type, shape and data are inconsistent, or there is no memory for a copy.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// The declared kind of a sequence or optional is unknown or wrong.
    #[error("a {kind} cannot hold values of kind {number}")]
    ElemType {
        /// `sequence` or `optional`.
        kind: &'static str,
        /// The number in the file.
        number: i32,
    },
    /// The values of a sequence are of several kinds.
    #[error("value {index} of the sequence is a {found} among values of kind {expected}")]
    MixedSequence {
        /// The position of the value.
        index: usize,
        /// The kind of the first value.
        expected: &'static str,
        /// The kind of this one.
        found: &'static str,
    },
    /// ONNX cannot store values of this kind in a file.
    #[error("a {kind} cannot be written to a file")]
    NoFile {
        /// The kind of the value.
        kind: &'static str,
    },
    /// The keys of a map are neither integers nor strings.
    #[error("the keys of a map cannot be {dtype}")]
    MapKeys {
        /// The type of the keys.
        dtype: DType,
    },
    /// The numbers of keys and values of a map differ.
    #[error("a map with {n_keys} keys and {n_values} values")]
    MapLength {
        /// The number of keys.
        n_keys: usize,
        /// The number of values.
        n_values: usize,
    },
    /// A value of a map is not a single element of the map's type.
    #[error("value {index} of the map is not a single element of the map's type")]
    MapValue {
        /// The position of the value.
        index: usize,
    },
}

impl From<ElementsError> for PbError {
    fn from(error: ElementsError) -> Self {
        match error {
            ElementsError::Memory(error) => Self::Tensor(error),
            error => Self::Elements(error),
        }
    }
}
