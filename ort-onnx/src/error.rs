//! Why a file is refused.

use ort_tensor::DType;

/// Why bytes are not a model that can be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OnnxError {
    /// The bytes are no messages of the schema.
    #[error("{path}, byte {offset}: {damage}")]
    Damaged {
        /// The field, as a path from the model.
        path: String,
        /// Where it is in the file.
        offset: usize,
        /// What is wrong there.
        damage: Damage,
    },
    /// More than the limits allow.
    #[error("{path}: the file exceeds the limit on {limit}")]
    Limit {
        /// The field of [`Limits`](crate::Limits).
        limit: &'static str,
        /// The field that is one too many.
        path: String,
    },
    /// The decoder refuses what the check let pass.
    #[error("the file cannot be decoded: {0}")]
    Decode(#[from] prost::DecodeError),
    /// An IR version that has another schema.
    #[error("the model has IR version {found}; versions 1 to {newest} are known", newest = crate::NEWEST_IR)]
    IrVersion {
        /// The version.
        found: i64,
    },
    /// No graph.
    #[error("the model has no graph")]
    NoGraph,
    /// Functions that cannot be written out where they are called.
    #[error("function `{function}`: {what}")]
    Function {
        /// The function.
        function: String,
        /// What is wrong.
        what: &'static str,
    },
}

/// What is wrong with the bytes of a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// Reaches past the end of the message it is in.
    #[error("the message ends within a field")]
    Cut,
    /// A number of more than 64 bits.
    #[error("a number has more than 64 bits")]
    Varint,
    /// The tag of no field.
    #[error("{tag} is the tag of no field")]
    Tag {
        /// What stands in its place.
        tag: u64,
    },
    /// A number where the schema has bytes, or the other way round.
    #[error("the field is encoded as something else than it is")]
    WireType,
    /// A text is not UTF-8.
    #[error("the text is not UTF-8")]
    NotUtf8,
    /// Packed numbers that end within one.
    #[error("packed numbers end within one")]
    Packed,
    /// Messages too deep within messages.
    #[error("too many messages lie within one another")]
    Depth,
    /// Objects that would take too much memory.
    #[error("the messages take too much memory")]
    Objects,
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
    /// A dimension is negative or too large for this machine.
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
        /// The one past the last element.
        end: i64,
    },
    /// A string is not UTF-8.
    #[error("string {index} is not UTF-8")]
    NotUtf8 {
        /// Its position.
        index: usize,
    },
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
    /// Elements are there twice.
    #[error("there are elements in several fields")]
    SeveralFields,
    /// Where the elements are in another file is not said, or not in numbers.
    #[error("external data: {key} is {value:?}")]
    ExternalKey {
        /// The key.
        key: &'static str,
        /// Its text; empty if it is absent.
        value: String,
    },
    /// A file outside of the model's folder.
    #[error("external data: `{location}` leads out of the model's folder")]
    Outside {
        /// The name of the file.
        location: String,
    },
    /// A file that was not given.
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
        /// The first byte asked for.
        offset: u64,
        /// The one past the last.
        end: u64,
        /// How many bytes there are.
        len: usize,
    },
    /// Strings cannot be in another file.
    #[error("external data cannot be strings")]
    ExternalStrings,
}
