//! Why a file is refused.

use crate::enums::{AttributeType, DataType};

/// Why bytes are not a model that can be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// No bytes at all.
    #[error("the file is empty")]
    Empty,
    /// Not even room for an identifier.
    #[error("the file has {length} bytes, too few for an ORT model")]
    TooShort {
        /// Bytes there are.
        length: usize,
    },
    /// An `.onnx` file.
    #[error("this is an ONNX protobuf, not an ORT model: convert it")]
    OnnxProtobuf,
    /// Something else.
    #[error("not an ORT model: the identifier is {found:?}, not \"ORTM\"")]
    NotOrt {
        /// Bytes 4 to 7, those that are not ASCII escaped.
        found: String,
    },
    /// Not a LoRA adapter.
    #[error("not an adapter: the identifier is {found:?}, not \"TORT\"")]
    NotAdapter {
        /// Bytes 4 to 7, those that are not ASCII escaped.
        found: String,
    },
    /// An adapter of a format that is not known.
    #[error("the adapter has format version {found}; version {known} is known", known = crate::ADAPTER_VERSION)]
    AdapterVersion {
        /// The version.
        found: i32,
    },
    /// More than offsets can reach.
    #[error("the file has {length} bytes; an ORT model has at most {max}", max = crate::MAX_FILE_LENGTH)]
    TooBig {
        /// Bytes there are.
        length: usize,
    },
    /// Saved by a newer ONNX Runtime.
    #[error("the file is of version {found}; versions up to {newest} are known", newest = crate::NEWEST_VERSION)]
    TooNew {
        /// The version.
        found: u32,
    },
    /// The bytes do not hold the tables they should.
    #[error("{place}: {damage}")]
    Damaged {
        /// The field, as a path from the root.
        place: String,
        /// What is wrong with it.
        damage: Damage,
    },
    /// More work than the limits allow.
    #[error("the file exceeds the limit on {limit}")]
    Limit {
        /// The field of [`Limits`](crate::Limits).
        limit: &'static str,
    },
    /// The tables are there, and contradict themselves or each other.
    #[error("{place}: {fault}")]
    Invalid {
        /// The table, as a path from the graph.
        place: String,
        /// What is wrong with it.
        fault: Fault,
    },
}

/// What is wrong with the bytes of a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// Reaches past the end.
    #[error("bytes {start} to {end} are not in the file")]
    OutOfBounds {
        /// The first byte.
        start: usize,
        /// The byte after the last.
        end: usize,
    },
    /// Not at a multiple of its size.
    #[error("byte {position} is misaligned")]
    Misaligned {
        /// Where it starts.
        position: usize,
    },
    /// A text is not UTF-8.
    #[error("the text at byte {position} is not UTF-8")]
    NotUtf8 {
        /// Where the text starts.
        position: usize,
    },
    /// A text does not end in a zero byte.
    #[error("the text at byte {position} is not terminated")]
    NotTerminated {
        /// Where the text starts.
        position: usize,
    },
    /// A table that leads to no vtable.
    #[error("the table at byte {position} has no vtable")]
    NoVtable {
        /// Where the table starts.
        position: usize,
    },
    /// Anything else that the verifier may come to find.
    #[error("the table is malformed")]
    Other,
}

/// What is wrong with a table that can be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A field that must be there.
    #[error("no {field}")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// An element of a vector leads nowhere.
    #[error("{field}[{index}] is null")]
    Null {
        /// The vector.
        field: &'static str,
        /// The element.
        index: usize,
    },
    /// A shape of a constant below zero.
    #[error("dimension {index} is {value}")]
    NegativeDimension {
        /// Which.
        index: usize,
        /// Its size.
        value: i64,
    },
    /// A constant too large to count.
    #[error("the number of elements overflows")]
    Overflow,
    /// A constant whose elements have no known size.
    #[error("data type {0:?} is not one that a constant can have")]
    DataType(DataType),
    /// `raw_data` does not fit the shape.
    #[error("raw_data has {found} bytes, the shape asks for {expected}")]
    DataLength {
        /// By shape and data type.
        expected: u64,
        /// In the file.
        found: u64,
    },
    /// `string_data` does not fit the shape.
    #[error("string_data has {found} strings, the shape asks for {expected}")]
    StringCount {
        /// By shape.
        expected: u64,
        /// In the file.
        found: u64,
    },
    /// The elements are in some other file.
    #[error("its data is external, at offset {offset}; a model holds its own")]
    ExternalData {
        /// Where.
        offset: i64,
    },
    /// Sparse indices must be int64, `[nnz]` or `[nnz, rank]`.
    #[error("indices of shape {indices:?} do not fit values of shape {values:?} at rank {rank}")]
    SparseShape {
        /// The shape of `indices`, up to rank 4.
        indices: Vec<i64>,
        /// The shape of `values`, up to rank 4.
        values: Vec<i64>,
        /// The rank of the whole.
        rank: usize,
    },
    /// A sparse index outside the shape.
    #[error("index {index} is outside a size of {size}")]
    SparseIndex {
        /// The index.
        index: i64,
        /// The size it must be below.
        size: i64,
    },
    /// Two things of one name where there may be one.
    #[error("{what} {name:?} occurs twice")]
    Duplicate {
        /// What kind of thing.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// Two nodes of one index.
    #[error("node index {index} occurs twice")]
    DuplicateIndex {
        /// The index.
        index: u32,
    },
    /// A name that nothing defines, here or in an outer graph.
    #[error("{what} {name:?} names no value")]
    Undefined {
        /// What holds the name.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A node without an operator.
    #[error("it has no operator")]
    NoOperator,
    /// `input_arg_counts` does not add up.
    #[error("input_arg_counts add up to {counted}, but there are {inputs} inputs")]
    ArgCounts {
        /// Their sum.
        counted: i64,
        /// The number of inputs.
        inputs: usize,
    },
    /// `max_node_index` is no bound.
    #[error("max_node_index is {found}, but there is a node {index}")]
    NodeSlots {
        /// The bound.
        found: u32,
        /// The highest index.
        index: u32,
    },
    /// An edge from or to no node.
    #[error("there is no node {index}")]
    NoNode {
        /// The index.
        index: u32,
    },
    /// An attribute without the value its type promises.
    #[error("its type is {0:?}, but it has no such value")]
    AttributeValue(AttributeType),
    /// More names than a file of its length can hold, which takes graphs that share tables.
    #[error("it names more values than a file of its length can define")]
    TooManyNames,
}

/// What looks wrong and does no harm; see [`open_with_warnings`](crate::open_with_warnings).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {oddity}")]
pub struct Warning {
    /// The table, as a path from the graph.
    pub place: String,
    /// What is odd about it.
    pub oddity: Oddity,
}

/// What can look wrong and do no harm.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Oddity {
    /// Of two initializers with one name the last counts.
    #[error("initializer {name:?} occurs more than once; the last counts")]
    DuplicateInitializer {
        /// The name.
        name: String,
    },
    /// A number that an enum has no name for.
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
    /// More than offsets can reach.
    #[error("the file may need {bound} bytes; an ORT model has at most {max}", max = crate::MAX_FILE_LENGTH)]
    TooBig {
        /// Most bytes it can take.
        bound: u64,
    },
    /// What was written would be refused.
    #[error("what would be written is not valid: {0}")]
    Invalid(#[from] FormatError),
}
