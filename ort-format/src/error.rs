//! The errors and warnings of the format.

use ort_tensor::TensorError;

use crate::enums::{AttributeType, DataType};

/// Why bytes cannot be used as a model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The file is empty.
    #[error("the file is empty")]
    Empty,
    /// Too short for an identifier.
    #[error("the file has {length} bytes, too few for an ORT model")]
    TooShort {
        /// The file's length.
        length: usize,
    },
    /// An `.onnx` file.
    #[error("this is an ONNX protobuf, not an ORT model: convert it")]
    OnnxProtobuf,
    /// Another kind of file.
    #[error("not an ORT model: the identifier is {found:?}, not \"ORTM\"")]
    NotOrt {
        /// Bytes 4 to 7, with those that are not ASCII escaped.
        found: String,
    },
    /// Not a LoRA adapter.
    #[error("not an adapter: the identifier is {found:?}, not \"TORT\"")]
    NotAdapter {
        /// Bytes 4 to 7, with those that are not ASCII escaped.
        found: String,
    },
    /// An unsupported version of adapters.
    #[error("the adapter has format version {found}; version {known} is supported", known = crate::ADAPTER_VERSION)]
    AdapterVersion {
        /// The version.
        found: i32,
    },
    /// Longer than offsets can address.
    #[error("the file has {length} bytes; an ORT model has at most {max}", max = crate::MAX_FILE_LENGTH)]
    TooBig {
        /// The file's length.
        length: usize,
    },
    /// A newer version.
    #[error("the file is of version {found}; versions up to {newest} are supported", newest = crate::NEWEST_VERSION)]
    TooNew {
        /// The version.
        found: u32,
    },
    /// The bytes are not tables of the schema.
    #[error("{place}: {damage}")]
    Damaged {
        /// The field, as a path from the root.
        place: String,
        /// What is wrong with it.
        damage: Damage,
    },
    /// The file exceeds a limit.
    #[error("the file exceeds the limit on {limit}")]
    Limit {
        /// The field of [`Limits`](crate::Limits).
        limit: &'static str,
    },
    /// There is no memory for the checks, or they were cancelled.
    #[error(transparent)]
    Memory(#[from] TensorError),
    /// The tables are readable, but inconsistent.
    #[error("{place}: {fault}")]
    Invalid {
        /// The table, as a path from the graph.
        place: String,
        /// What is wrong with it.
        fault: Fault,
    },
}

/// The defect of a field's bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The field reaches past the end of the file.
    #[error("bytes {start} to {end} are not in the file")]
    OutOfBounds {
        /// The first byte.
        start: usize,
        /// The byte after the last.
        end: usize,
    },
    /// The field is not aligned to its size.
    #[error("byte {position} is misaligned")]
    Misaligned {
        /// Its position.
        position: usize,
    },
    /// A string is not UTF-8.
    #[error("the text at byte {position} is not UTF-8")]
    NotUtf8 {
        /// The start of the string.
        position: usize,
    },
    /// A string is not terminated by a zero byte.
    #[error("the text at byte {position} is not terminated")]
    NotTerminated {
        /// The start of the string.
        position: usize,
    },
    /// A table without a valid vtable.
    #[error("the table at byte {position} has no vtable")]
    NoVtable {
        /// The start of the table.
        position: usize,
    },
    /// Another error of the verifier.
    #[error("the table is malformed")]
    Other,
}

/// The defect of a readable table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A required field is missing.
    #[error("no {field}")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// An element of a vector is null.
    #[error("{field}[{index}] is null")]
    Null {
        /// The vector.
        field: &'static str,
        /// The element.
        index: usize,
    },
    /// A negative dimension of a constant.
    #[error("dimension {index} is {value}")]
    NegativeDimension {
        /// Its index.
        index: usize,
        /// Its size.
        value: i64,
    },
    /// The number of elements overflows.
    #[error("the number of elements overflows")]
    Overflow,
    /// A constant of a type whose elements have no known size.
    #[error("data type {0:?} is not allowed for a constant")]
    DataType(DataType),
    /// The size of `raw_data` is not that of the shape.
    #[error("raw_data has {found} bytes, the shape requires {expected}")]
    DataLength {
        /// By shape and data type.
        expected: u64,
        /// In the file.
        found: u64,
    },
    /// The number of `string_data` is not that of the shape.
    #[error("string_data has {found} strings, the shape requires {expected}")]
    StringCount {
        /// By shape.
        expected: u64,
        /// In the file.
        found: u64,
    },
    /// The elements are in another file.
    #[error("its data is external, at offset {offset}; an ORT model must contain its data")]
    ExternalData {
        /// The offset in that file.
        offset: i64,
    },
    /// Sparse indices must be int64, `[nnz]` or `[nnz, rank]`.
    #[error("indices of shape {indices:?} do not fit values of shape {values:?} at rank {rank}")]
    SparseShape {
        /// The shape of `indices`, up to rank 4.
        indices: Vec<i64>,
        /// The shape of `values`, up to rank 4.
        values: Vec<i64>,
        /// The rank of the sparse tensor.
        rank: usize,
    },
    /// A sparse index out of range.
    #[error("index {index} is outside a size of {size}")]
    SparseIndex {
        /// The index.
        index: i64,
        /// The size of the indexed dimension.
        size: i64,
    },
    /// A name that must be unique occurs twice.
    #[error("{what} {name:?} occurs twice")]
    Duplicate {
        /// The kind of entity.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// Two nodes with the same index.
    #[error("node index {index} occurs twice")]
    DuplicateIndex {
        /// The index.
        index: u32,
    },
    /// A name that is defined neither in this graph nor in an enclosing one.
    #[error("{what} {name:?} names no value")]
    Undefined {
        /// The kind of reference.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A node without an operator.
    #[error("it has no operator")]
    NoOperator,
    /// The sum of `input_arg_counts` is wrong.
    #[error("input_arg_counts add up to {counted}, but there are {inputs} inputs")]
    ArgCounts {
        /// Their sum.
        counted: i64,
        /// The number of inputs.
        inputs: usize,
    },
    /// `max_node_index` is less than an index.
    #[error("max_node_index is {found}, but there is a node {index}")]
    NodeSlots {
        /// The bound.
        found: u32,
        /// The highest index.
        index: u32,
    },
    /// An edge from or to a missing node.
    #[error("there is no node {index}")]
    NoNode {
        /// The index.
        index: u32,
    },
    /// An attribute lacks the value of its type.
    #[error("its type is {0:?}, but it has no such value")]
    AttributeValue(AttributeType),
    /// More names than a file of its length can hold, which requires graphs that share tables.
    #[error("it names more values than a file of its length can define")]
    TooManyNames,
}

/// An oddity that does no harm; see [`open_with_warnings`](crate::open_with_warnings).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {oddity}")]
pub struct Warning {
    /// The table, as a path from the graph.
    pub place: String,
    /// The oddity.
    pub oddity: Oddity,
}

/// The kinds of oddities.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Oddity {
    /// Several initializers with the same name: the last is used.
    #[error("initializer {name:?} occurs more than once; the last is used")]
    DuplicateInitializer {
        /// The name.
        name: String,
    },
    /// A number without a name in an enum.
    #[error("{field} is {value}, which is not a known value")]
    UnknownValue {
        /// The field.
        field: &'static str,
        /// The number.
        value: i64,
    },
}

/// Why a record cannot be written.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Longer than offsets can address.
    #[error("the file would have {length} bytes; an ORT model has at most {max}", max = crate::MAX_FILE_LENGTH)]
    TooBig {
        /// Its length.
        length: usize,
    },
    /// There is no memory for it, or writing was cancelled.
    #[error(transparent)]
    Memory(#[from] TensorError),
    /// The written file would be rejected by [`open`](crate::open).
    #[error("the file would not be valid: {0}")]
    Invalid(#[source] FormatError),
}

impl From<FormatError> for WriteError {
    fn from(error: FormatError) -> Self {
        match error {
            FormatError::Memory(error) => Self::Memory(error),
            error => Self::Invalid(error),
        }
    }
}
