//! The errors of ONNX files.

use ort_tensor::{DType, TensorError};

/// Why bytes cannot be used as a model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OnnxError {
    /// The bytes are not messages of the schema.
    #[error("{path}, byte {offset}: {damage}")]
    Damaged {
        /// The field, as a path from the model.
        path: String,
        /// The offset in the file.
        offset: usize,
        /// The defect.
        damage: Damage,
    },
    /// The file exceeds a limit.
    #[error("{path}: the file exceeds the limit on {limit}")]
    Limit {
        /// The field of [`Limits`](crate::Limits).
        limit: &'static str,
        /// The field at which the limit was exceeded.
        path: String,
    },
    /// There is no memory for the messages, or loading was cancelled.
    #[error("{path}: {error}")]
    Memory {
        /// The field.
        path: String,
        /// The reason.
        error: TensorError,
    },
    /// The model is too large to be written.
    #[error("the file would have {length} bytes; readers of protobuf reject 2 GiB or more")]
    TooLarge {
        /// Its length.
        length: usize,
    },
    /// An unsupported IR version.
    #[error("the model has IR version {found}; versions 1 to {newest} are supported", newest = crate::NEWEST_IR)]
    IrVersion {
        /// The version.
        found: i64,
    },
    /// The graph is missing.
    #[error("the model has no graph")]
    NoGraph,
    /// A function cannot be inlined.
    #[error("function `{function}`: {what}")]
    Function {
        /// The function.
        function: String,
        /// The reason.
        what: &'static str,
    },
}

/// The defect of a field's bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The field reaches past the end of its message.
    #[error("the message ends within a field")]
    Cut,
    /// An integer of more than 64 bits.
    #[error("an integer has more than 64 bits")]
    Varint,
    /// An invalid tag.
    #[error("{tag} is not a valid tag")]
    Tag {
        /// The tag.
        tag: u64,
    },
    /// An integer where the schema has bytes, or vice versa.
    #[error("the field has the wrong wire type")]
    WireType,
    /// A string is not UTF-8.
    #[error("the text is not UTF-8")]
    NotUtf8,
    /// The bytes of a packed list end within an element.
    #[error("a packed list ends within an element")]
    Packed,
    /// Messages are nested too deeply.
    #[error("messages are nested too deeply")]
    Depth,
    /// The decoded messages would take too much memory.
    #[error("the messages take too much memory")]
    Objects,
    /// There is no memory for them, or loading was cancelled.
    #[error(transparent)]
    Memory(TensorError),
}

/// Why the elements of a tensor cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ElementsError {
    /// The element type is unknown or undefined.
    #[error("unknown element type {number}")]
    DType {
        /// The number in the file.
        number: i32,
    },
    /// A dimension is negative or too large for this machine's address space.
    #[error("dimension {index} is {dim}")]
    Dim {
        /// The position of the dimension.
        index: usize,
        /// Its value.
        dim: i64,
    },
    /// The file holds only a part of the tensor.
    #[error("the file holds elements {begin} to {end} only, not the whole tensor")]
    Segment {
        /// The first element.
        begin: i64,
        /// The end of the range of elements.
        end: i64,
    },
    /// A string is not UTF-8.
    #[error("string {index} is not UTF-8")]
    NotUtf8 {
        /// Its position.
        index: usize,
    },
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
    /// Elements occur in several fields.
    #[error("several fields hold elements")]
    SeveralFields,
    /// The location of external data is missing or malformed.
    #[error("external data: {key} is {value:?}")]
    ExternalKey {
        /// The key.
        key: &'static str,
        /// Its value; empty if it is absent.
        value: String,
    },
    /// A file outside of the model's folder.
    #[error("external data: `{location}` leads out of the model's folder")]
    Outside {
        /// The name of the file.
        location: String,
    },
    /// A file that was not passed.
    #[error("external data: there is no file `{location}`")]
    NoFile {
        /// The name of the file.
        location: String,
    },
    /// A file that is too short.
    #[error("external data: `{location}` has {len} bytes, not bytes {offset} to {end}")]
    Range {
        /// The name of the file.
        location: String,
        /// The first byte required.
        offset: u64,
        /// The end of the required range.
        end: u64,
        /// The file's length.
        len: usize,
    },
    /// Strings cannot be external.
    #[error("external data cannot be strings")]
    ExternalStrings,
    /// There is no memory for a copy of the elements, or the thread was cancelled.
    #[error(transparent)]
    Memory(#[from] TensorError),
}
