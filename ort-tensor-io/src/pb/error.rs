//! What can be wrong with a `.pb` file.

use ort_onnx::{DecodeError, ElementsError};
use ort_tensor::{DType, TensorError};

/// Bytes that are not the value they should be, or a value that has no such file.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PbError {
    /// The bytes are no protocol buffer of this kind.
    #[error("not a {kind} file: {source}")]
    Decode {
        /// `tensor`, `sequence`, `map` or `optional`.
        kind: &'static str,
        /// What the decoder met.
        source: DecodeError,
    },
    /// The elements are not there, or not of the type.
    #[error(transparent)]
    Elements(#[from] ElementsError),
    /// The data is in another file.
    #[error("the data is in another file")]
    External,
    /// A number does not fit the element type.
    #[error("element {index} is {value}, which is no {dtype}")]
    OutOfRange {
        /// The element type.
        dtype: DType,
        /// The position of the number in its field.
        index: usize,
        /// The number.
        value: i128,
    },
    /// Type, shape and data do not go together.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// A sequence or optional says that it holds something unknown, or not what it holds.
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
    /// ONNX has no file for values of this kind.
    #[error("there is no file for a {kind}")]
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
    /// A map has more keys than values, or fewer.
    #[error("a map with {n_keys} keys and {n_values} values")]
    MapLength {
        /// How many keys there are.
        n_keys: usize,
        /// How many values there are.
        n_values: usize,
    },
    /// A value of a map is no single element of the type that the first one has.
    #[error("value {index} of the map is no single element of the map's type")]
    MapValue {
        /// The position of the value.
        index: usize,
    },
}
