//! What each type of a record writes.

use std::borrow::Cow;

use ort_tensor::Room;

use crate::container::{ADAPTER_IDENTIFIER, IDENTIFIER};
use crate::edge::EdgeEnd;
use crate::enums::{ArgType, AttributeType, DataType, DimensionValueType, NodeType};
use crate::error::WriteError;
use crate::record::{Adapter, File};
pub(crate) use crate::writer::{Offset, Writer};

/// A root table.
pub(crate) trait Root: Put<Slot = Offset> {
    const IDENTIFIER: &'static str;

    /// Writes the file to memory of its length, or measures it; returns the length.
    fn write(&self, memory: Option<&mut [u8]>) -> Result<usize, WriteError> {
        let mut writer = Writer::new(memory);
        let root = self.put(&mut writer);
        writer.finish(root, Self::IDENTIFIER)
    }

    /// The bytes of the file.
    fn bytes(&self) -> Result<Vec<u8>, WriteError> {
        let mut bytes = Room::zeroed(self.write(None)?)?;
        self.write(Some(&mut bytes))?;
        Ok(bytes.into_vec())
    }
}

impl Root for File<'_> {
    const IDENTIFIER: &'static str = IDENTIFIER;
}

impl Root for Adapter<'_> {
    const IDENTIFIER: &'static str = ADAPTER_IDENTIFIER;
}

/// A value of a field.
pub(crate) trait Put {
    /// The content of its slot.
    type Slot: Fill;
    /// Writes the target of the slot, if any.
    fn put(&self, writer: &mut Writer<'_>) -> Self::Slot;
}

/// An element of a vector.
pub(crate) trait Item: Sized {
    fn put_all(items: &[Self], writer: &mut Writer<'_>) -> Offset;
}

/// The content of a slot.
pub(crate) trait Fill {
    fn fill(self, writer: &mut Writer<'_>, slot: u16);
}

impl Fill for Offset {
    fn fill(self, writer: &mut Writer<'_>, slot: u16) {
        writer.reference(slot, self);
    }
}

impl<T: Fill> Fill for Option<T> {
    fn fill(self, writer: &mut Writer<'_>, slot: u16) {
        if let Some(value) = self {
            value.fill(writer, slot);
        }
    }
}

macro_rules! scalars {
    ($($scalar:ident as $bits:ident by $convert:expr;)*) => {$(
        impl Fill for $scalar {
            fn fill(self, writer: &mut Writer<'_>, slot: u16) {
                // Absent means zero: for a float +0, which compares equal to −0 but is a different value.
                let bits: $bits = $convert(self);
                if bits != 0 {
                    writer.number(slot, bits.to_le_bytes());
                }
            }
        }

        impl Item for $scalar {
            fn put_all(items: &[Self], writer: &mut Writer<'_>) -> Offset {
                let items = items.iter().map(|&item| <$bits>::to_le_bytes($convert(item)));
                writer.vector(size_of::<$scalar>(), items)
            }
        }
    )*};
}
scalars! {
    i8 as i8 by i8::from;
    u8 as u8 by u8::from;
    i32 as i32 by i32::from;
    u32 as u32 by u32::from;
    i64 as i64 by i64::from;
    bool as u8 by u8::from;
    f32 as u32 by f32::to_bits;
}

macro_rules! in_slot {
    ($($Value:ident as $scalar:ident)*) => {$(
        impl Put for $Value {
            type Slot = $scalar;
            fn put(&self, _: &mut Writer<'_>) -> $scalar {
                (*self).into()
            }
        }
    )*};
}
in_slot! {
    u8 as u8 i32 as i32 u32 as u32 i64 as i64 f32 as f32 bool as bool
    DataType as i32 AttributeType as i32 NodeType as i32 DimensionValueType as i8 ArgType as i8
}

impl Put for Cow<'_, str> {
    type Slot = Offset;
    fn put(&self, writer: &mut Writer<'_>) -> Offset {
        writer.text(self)
    }
}

impl Item for Cow<'_, str> {
    fn put_all(items: &[Self], writer: &mut Writer<'_>) -> Offset {
        let offsets: Vec<Offset> = items.iter().map(|text| text.put(writer)).collect();
        writer.references(&offsets)
    }
}

impl Put for Cow<'_, [u8]> {
    type Slot = Offset;
    fn put(&self, writer: &mut Writer<'_>) -> Offset {
        writer.tensor(self)
    }
}

impl Item for EdgeEnd {
    /// A struct is the sequence of its fields.
    fn put_all(items: &[Self], writer: &mut Writer<'_>) -> Offset {
        let bytes = |edge: &Self| {
            let mut bytes = [0; size_of::<Self>()];
            bytes[..4].copy_from_slice(&edge.node_index.to_le_bytes());
            bytes[4..8].copy_from_slice(&edge.src_arg_index.to_le_bytes());
            bytes[8..].copy_from_slice(&edge.dst_arg_index.to_le_bytes());
            bytes
        };
        writer.vector(align_of::<Self>(), items.iter().map(bytes))
    }
}

impl<T: Item> Put for Vec<T> {
    type Slot = Offset;
    fn put(&self, writer: &mut Writer<'_>) -> Offset {
        T::put_all(self, writer)
    }
}

impl<T: Put> Put for Option<T> {
    type Slot = Option<T::Slot>;
    fn put(&self, writer: &mut Writer<'_>) -> Self::Slot {
        self.as_ref().map(|value| value.put(writer))
    }
}

/// A field that is never written.
pub(crate) struct Dropped;

impl Put for Dropped {
    type Slot = Option<Offset>;
    fn put(&self, _: &mut Writer<'_>) -> Self::Slot {
        None
    }
}
