//! The fields of messages by number. What a field holds follows from its type.

use bytes::Bytes;

use super::values::{Item, Merge};
use super::wire::{Field, Reader};
use super::{Decoder, Limits, Wrong, decode};
use crate::error::{Damage, OnnxError};
use crate::schema::{
    AttributeProto, DimensionProto, ElementTypeProto, FunctionProto, GraphProto, MapProto,
    MapTypeProto, ModelProto, NodeProto, OperatorSetIdProto, OptionalProto, SegmentProto,
    SequenceProto, SparseTensorProto, StringStringEntryProto, TensorProto, TensorShapeProto,
    TensorTypeProto, TypeProto, ValueInfoProto,
};

/// A message.
pub(super) trait Message: Sized {
    /// Merges one of its fields, and the fields that follow in `reader` if they are elements of the same list. Errors are
    /// within the field of this name.
    fn merge<'a>(
        &mut self,
        field: Field<'a>,
        reader: &mut Reader<'a>,
        decoder: &mut Decoder<'a>,
    ) -> Result<(), (&'static str, Wrong)>;
}

macro_rules! messages {
    ($($Proto:ident { $($number:literal $field:ident,)* })*) => { $(
        impl Message for $Proto {
            fn merge<'a>(
                &mut self,
                field: Field<'a>,
                reader: &mut Reader<'a>,
                decoder: &mut Decoder<'a>,
            ) -> Result<(), (&'static str, Wrong)> {
                match field.number {
                    $($number => {
                        let merged = Merge::merge(&mut self.$field, field, reader, decoder);
                        merged.map_err(|wrong| (stringify!($field).trim_start_matches("r#"), wrong))
                    })*
                    _ => Ok(()),
                }
            }
        }

        impl Merge for $Proto {
            fn merge<'a>(
                &mut self,
                field: Field<'a>,
                _: &mut Reader<'a>,
                decoder: &mut Decoder<'a>,
            ) -> Result<(), Wrong> {
                let bytes = field.bytes()?;
                decoder.takes(&field, size_of::<Self>())?;
                let outer = decoder.depth;
                decoder.depth = outer.checked_sub(1).ok_or_else(|| field.wrong(Damage::Depth))?;
                decoder.message(self, bytes, field.offset)?;
                decoder.depth = outer;
                Ok(())
            }
        }

        impl Item for $Proto {}
    )* };
}

messages! {
    ModelProto {
        1 ir_version, 2 producer_name, 3 producer_version, 4 domain, 5 model_version, 6 doc_string,
        7 graph, 8 opset_import, 14 metadata_props, 25 functions,
    }
    OperatorSetIdProto { 1 domain, 2 version, }
    StringStringEntryProto { 1 key, 2 value, }
    GraphProto {
        1 node, 2 name, 5 initializer, 10 doc_string, 11 input, 12 output, 13 value_info,
        15 sparse_initializer,
    }
    NodeProto { 1 input, 2 output, 3 name, 4 op_type, 5 attribute, 7 domain, 8 overload, }
    AttributeProto {
        1 name, 2 f, 3 i, 4 s, 5 t, 6 g, 7 floats, 8 ints, 9 strings, 10 tensors, 11 graphs, 14 tp,
        20 r#type, 21 ref_attr_name, 22 sparse_tensor,
    }
    FunctionProto {
        1 name, 4 input, 5 output, 6 attribute, 7 node, 9 opset_import, 10 domain,
        11 attribute_proto, 13 overload,
    }
    ValueInfoProto { 1 name, 2 r#type, }
    TypeProto {
        1 tensor_type, 4 sequence_type, 5 map_type, 8 sparse_tensor_type, 9 optional_type,
    }
    TensorTypeProto { 1 elem_type, 2 shape, }
    ElementTypeProto { 1 elem_type, }
    MapTypeProto { 1 key_type, 2 value_type, }
    TensorShapeProto { 1 dim, }
    DimensionProto { 1 dim_value, 2 dim_param, 3 denotation, }
    TensorProto {
        1 dims, 2 data_type, 3 segment, 4 float_data, 5 int32_data, 6 string_data, 7 int64_data,
        8 name, 9 raw_data, 10 double_data, 11 uint64_data, 13 external_data, 14 data_location,
    }
    SegmentProto { 1 begin, 2 end, }
    SparseTensorProto { 1 values, 2 indices, 3 dims, }
    SequenceProto {
        1 name, 2 elem_type, 3 tensor_values, 5 sequence_values, 6 map_values, 7 optional_values,
    }
    MapProto { 1 name, 2 key_type, 3 keys, 4 string_keys, 5 values, }
    OptionalProto {
        1 name, 2 elem_type, 3 tensor_value, 5 sequence_value, 6 map_value, 7 optional_value,
    }
}

macro_rules! files {
    ($($Proto:ident $name:literal)*) => { $(
        impl $Proto {
            /// The message in the bytes of a `.pb` file; elements are slices of them. The size of everything else counts
            /// against the limits and the allowance of the thread (`ort_tensor::within`).
            ///
            /// # Errors
            /// If the bytes are not such a message, exceed a limit, or there is no memory for it.
            pub fn open(bytes: &Bytes, limits: &Limits) -> Result<Self, OnnxError> {
                decode(bytes, limits, $name)
            }
        }
    )* };
}

files! { TensorProto "tensor" SequenceProto "sequence" MapProto "map" OptionalProto "optional" }
