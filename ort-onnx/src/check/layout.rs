//! The fields of messages, as the check needs them: their encoding, and their size once decoded.

use crate::schema::{
    AttributeProto, DimensionProto, ElementTypeProto, FunctionProto, GraphProto, MapTypeProto,
    ModelProto, NodeProto, OperatorSetIdProto, SegmentProto, SparseTensorProto,
    StringStringEntryProto, TensorProto, TensorShapeProto, TensorTypeProto, TypeProto,
    ValueInfoProto,
};

/// A message: its size in bytes once decoded, and its fields by number, name and kind.
pub(super) struct Message {
    pub(super) n_bytes: usize,
    pub(super) fields: &'static [(u32, &'static str, Kind)],
}

/// The encoding of a field.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// An integer.
    Varint,
    /// A list of integers, packed or not, each with this size in bytes once decoded.
    Varints(usize),
    /// A float.
    Fixed32,
    /// A list of floats, packed or not.
    Fixed32s,
    /// A list of doubles, packed or not.
    Fixed64s,
    /// A string that must be UTF-8.
    Text,
    /// Bytes that are not copied.
    Bytes,
    /// A message.
    Message(&'static Message),
}

use Kind::{Bytes, Fixed32, Fixed32s, Fixed64s, Message as Of, Text, Varint, Varints};

macro_rules! messages {
    ($($NAME:ident $Proto:ident { $($number:literal $name:literal $kind:expr,)* })*) => { $(
        pub(super) static $NAME: Message = Message {
            n_bytes: size_of::<$Proto>(),
            fields: &[$(($number, $name, $kind)),*],
        };
    )* };
}

messages! {
    MODEL ModelProto {
        1 "ir_version" Varint, 2 "producer_name" Text, 3 "producer_version" Text, 4 "domain" Text,
        5 "model_version" Varint, 6 "doc_string" Text, 7 "graph" Of(&GRAPH),
        8 "opset_import" Of(&OPERATOR_SET), 14 "metadata_props" Of(&ENTRY),
        25 "functions" Of(&FUNCTION),
    }
    OPERATOR_SET OperatorSetIdProto { 1 "domain" Text, 2 "version" Varint, }
    ENTRY StringStringEntryProto { 1 "key" Text, 2 "value" Text, }
    GRAPH GraphProto {
        1 "node" Of(&NODE), 2 "name" Text, 5 "initializer" Of(&TENSOR), 10 "doc_string" Text,
        11 "input" Of(&VALUE), 12 "output" Of(&VALUE), 13 "value_info" Of(&VALUE),
        15 "sparse_initializer" Of(&SPARSE),
    }
    NODE NodeProto {
        1 "input" Text, 2 "output" Text, 3 "name" Text, 4 "op_type" Text,
        5 "attribute" Of(&ATTRIBUTE), 7 "domain" Text, 8 "overload" Text,
    }
    ATTRIBUTE AttributeProto {
        1 "name" Text, 2 "f" Fixed32, 3 "i" Varint, 4 "s" Bytes, 5 "t" Of(&TENSOR), 6 "g" Of(&GRAPH),
        7 "floats" Fixed32s, 8 "ints" Varints(8), 9 "strings" Bytes, 10 "tensors" Of(&TENSOR),
        11 "graphs" Of(&GRAPH), 14 "tp" Of(&TYPE), 20 "type" Varint, 21 "ref_attr_name" Text,
        22 "sparse_tensor" Of(&SPARSE),
    }
    FUNCTION FunctionProto {
        1 "name" Text, 4 "input" Text, 5 "output" Text, 6 "attribute" Text, 7 "node" Of(&NODE),
        9 "opset_import" Of(&OPERATOR_SET), 10 "domain" Text, 11 "attribute_proto" Of(&ATTRIBUTE),
        13 "overload" Text,
    }
    VALUE ValueInfoProto { 1 "name" Text, 2 "type" Of(&TYPE), }
    TYPE TypeProto {
        1 "tensor_type" Of(&TENSOR_TYPE), 4 "sequence_type" Of(&ELEMENT_TYPE),
        5 "map_type" Of(&MAP_TYPE), 8 "sparse_tensor_type" Of(&TENSOR_TYPE),
        9 "optional_type" Of(&ELEMENT_TYPE),
    }
    TENSOR_TYPE TensorTypeProto { 1 "elem_type" Varint, 2 "shape" Of(&SHAPE), }
    ELEMENT_TYPE ElementTypeProto { 1 "elem_type" Of(&TYPE), }
    MAP_TYPE MapTypeProto { 1 "key_type" Varint, 2 "value_type" Of(&TYPE), }
    SHAPE TensorShapeProto { 1 "dim" Of(&DIMENSION), }
    DIMENSION DimensionProto { 1 "dim_value" Varint, 2 "dim_param" Text, 3 "denotation" Text, }
    TENSOR TensorProto {
        1 "dims" Varints(8), 2 "data_type" Varint, 3 "segment" Of(&SEGMENT), 4 "float_data" Fixed32s,
        5 "int32_data" Varints(4), 6 "string_data" Bytes, 7 "int64_data" Varints(8), 8 "name" Text,
        9 "raw_data" Bytes, 10 "double_data" Fixed64s, 11 "uint64_data" Varints(8),
        13 "external_data" Of(&ENTRY), 14 "data_location" Varint,
    }
    SEGMENT SegmentProto { 1 "begin" Varint, 2 "end" Varint, }
    SPARSE SparseTensorProto {
        1 "values" Of(&TENSOR), 2 "indices" Of(&TENSOR), 3 "dims" Varints(8),
    }
}
