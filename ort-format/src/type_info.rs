//! The format's only union: a tag in the preceding slot gives the type of the value.

use flatbuffers::{ForwardsUOffset, InvalidFlatbuffer, TableVerifier};

use crate::to_record::ToRecord;
use crate::view::{MapType, SequenceType, TensorTypeAndShape};
use crate::wire::{Element, Field, Position, slot_of};

/// The kind of a value's type. The format has none for optional, sparse or opaque values.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum TypeInfoValue<'a> {
    /// A tensor.
    Tensor(TensorTypeAndShape<'a>),
    /// A sequence.
    Sequence(SequenceType<'a>),
    /// A map.
    Map(MapType<'a>),
}

impl<'a> Field<'a> for Option<TypeInfoValue<'a>> {
    fn get(table: Position<'a>, id: u16) -> Self {
        let value = table.field(id)?;
        match u8::get(table, id - 1) {
            1 => TensorTypeAndShape::read(value).map(TypeInfoValue::Tensor),
            2 => SequenceType::read(value).map(TypeInfoValue::Sequence),
            3 => MapType::read(value).map(TypeInfoValue::Map),
            _ => None,
        }
    }

    /// A tag without a value, or a value with an unknown tag, reads as none and is accepted.
    fn verify<'v, 'o, 'b>(
        mut table: TableVerifier<'v, 'o, 'b>,
        _: &'static str,
        id: u16,
    ) -> Result<TableVerifier<'v, 'o, 'b>, InvalidFlatbuffer> {
        let (Some(tag), Some(value)) = (table.deref(slot_of(id - 1))?, table.deref(slot_of(id))?)
        else {
            return Ok(table);
        };
        type To<T> = ForwardsUOffset<T>;
        let verifier = table.verifier();
        match verifier.get_u8(tag)? {
            1 => {
                verifier.verify_union_variant::<To<TensorTypeAndShape<'_>>>("tensor_type", value)?
            }
            2 => verifier.verify_union_variant::<To<SequenceType<'_>>>("sequence_type", value)?,
            3 => verifier.verify_union_variant::<To<MapType<'_>>>("map_type", value)?,
            _ => {}
        }
        Ok(table)
    }
}

impl<'a> ToRecord for TypeInfoValue<'a> {
    type Record = record::TypeInfoValue<'a>;
    fn to_record(self) -> Self::Record {
        match self {
            Self::Tensor(tensor) => record::TypeInfoValue::Tensor(tensor.to_record()),
            Self::Sequence(sequence) => {
                record::TypeInfoValue::Sequence(Box::new(sequence.to_record()))
            }
            Self::Map(map) => record::TypeInfoValue::Map(Box::new(map.to_record())),
        }
    }
}

/// The union in a record.
pub(crate) mod record {
    use crate::put::{Offset, Put, Writer};
    use crate::record::{MapType, SequenceType, TensorTypeAndShape, TypeInfo};

    /// The kind of a value's type.
    #[derive(Clone, Debug, PartialEq)]
    #[non_exhaustive]
    pub enum TypeInfoValue<'a> {
        /// A tensor.
        Tensor(TensorTypeAndShape<'a>),
        /// A sequence.
        Sequence(Box<SequenceType<'a>>),
        /// A map.
        Map(Box<MapType<'a>>),
    }

    impl Put for TypeInfoValue<'_> {
        type Slot = Offset;

        fn put(&self, writer: &mut Writer<'_>) -> Offset {
            match self {
                Self::Tensor(tensor) => tensor.put(writer),
                Self::Sequence(sequence) => sequence.put(writer),
                Self::Map(map) => map.put(writer),
            }
        }
    }

    /// The tag of the value.
    pub(crate) fn value_type(info: &TypeInfo<'_>) -> u8 {
        match info.value {
            None => 0,
            Some(TypeInfoValue::Tensor(_)) => 1,
            Some(TypeInfoValue::Sequence(_)) => 2,
            Some(TypeInfoValue::Map(_)) => 3,
        }
    }
}
