//! Writing FlatBuffers: from the end of the file to its start, children before the tables that refer to them.

use std::borrow::Cow;
use std::collections::HashMap;

use flatbuffers::{FlatBufferBuilder, Push, TableUnfinishedWIPOffset, WIPOffset};

use crate::container::{ADAPTER_IDENTIFIER, IDENTIFIER, MAX_FILE_LENGTH};
use crate::edge::EdgeEnd;
use crate::enums::{ArgType, AttributeType, DataType, DimensionValueType, NodeType};
use crate::error::WriteError;
use crate::record::{Adapter, File};

/// A position, as its distance from the end of the file.
pub(crate) type Offset = WIPOffset<()>;

/// The maximum size of a table without what it points to: the offset to its vtable, 13 fields with padding, a vtable.
pub(crate) const TABLE_BOUND: u64 = 4 + 13 * 16 + 32;

/// The alignment of tensors: a cache line, and the widest vector register.
const TENSOR_ALIGNMENT: usize = 64;

/// The maximum size of a vector or string without its elements: count, terminator, padding.
const VECTOR_BOUND: u64 = 16;

/// The bytes of a file.
pub(crate) fn write(file: &File<'_>) -> Result<Vec<u8>, WriteError> {
    write_root(file, IDENTIFIER)
}

/// The bytes of an adapter.
pub(crate) fn write_adapter(adapter: &Adapter<'_>) -> Result<Vec<u8>, WriteError> {
    write_root(adapter, ADAPTER_IDENTIFIER)
}

fn write_root(
    root: &impl Put<Slot = Offset>,
    identifier: &'static str,
) -> Result<Vec<u8>, WriteError> {
    let bound = root.bound() + 2 * length(TENSOR_ALIGNMENT);
    let capacity = usize::try_from(bound).ok().filter(|&bound| bound <= MAX_FILE_LENGTH);
    let capacity = capacity.ok_or(WriteError::TooBig { bound })?;
    let builder = FlatBufferBuilder::with_capacity(capacity);
    let mut writer = Writer { builder, texts: HashMap::new() };
    let root = root.put(&mut writer);
    // An offset and the identifier come first; with them the length is a multiple of the tensors' alignment, which
    // converts distances from the end into distances from the start.
    writer.pad_before(4 + identifier.len());
    writer.builder.finish(root, Some(identifier));
    let (mut bytes, start) = writer.builder.collapse();
    bytes.drain(..start);
    Ok(bytes)
}

/// Builds a file.
pub(crate) struct Writer {
    builder: FlatBufferBuilder<'static>,
    texts: HashMap<String, Offset>,
}

impl Writer {
    pub(crate) fn start_table(&mut self) -> WIPOffset<TableUnfinishedWIPOffset> {
        self.builder.start_table()
    }

    pub(crate) fn fill(&mut self, slot: u16, value: impl Fill) {
        value.fill(&mut self.builder, slot);
    }

    pub(crate) fn end_table(&mut self, table: WIPOffset<TableUnfinishedWIPOffset>) -> Offset {
        WIPOffset::new(self.builder.end_table(table).value())
    }

    pub(crate) fn vector<T: Push<Output: 'static>>(&mut self, items: &[T]) -> Offset {
        WIPOffset::new(self.builder.create_vector(items).value())
    }

    /// Equal strings are written once.
    fn text(&mut self, text: &str) -> Offset {
        if let Some(&offset) = self.texts.get(text) {
            return offset;
        }
        let offset = WIPOffset::new(self.builder.create_string(text).value());
        self.texts.insert(text.to_owned(), offset);
        offset
    }

    /// A vector of bytes whose first byte is aligned. Written as a byte string, which is one copy; its terminator
    /// reads as padding of the vector.
    fn tensor(&mut self, bytes: &[u8]) -> Offset {
        self.pad_before(bytes.len() + 1);
        WIPOffset::new(self.builder.create_byte_string(bytes).value())
    }

    /// Pads so that the next `length` bytes start at a multiple of the alignment, as they are written backwards.
    fn pad_before(&mut self, length: usize) {
        let written = self.builder.unfinished_data().len() + length;
        for _ in written..written.next_multiple_of(TENSOR_ALIGNMENT) {
            self.builder.push(0_u8);
        }
    }
}

/// A value of a field.
pub(crate) trait Put {
    /// The content of its slot.
    type Slot: Fill;
    /// Writes the target of the slot, if any.
    fn put(&self, writer: &mut Writer) -> Self::Slot;
    /// The maximum number of bytes that `put` writes.
    fn bound(&self) -> u64;
}

/// An element of a vector.
pub(crate) trait Item: Sized {
    fn put_all(items: &[Self], writer: &mut Writer) -> Offset;
    fn bound_all(items: &[Self]) -> u64;
}

/// The content of a slot.
pub(crate) trait Fill {
    fn fill(self, builder: &mut FlatBufferBuilder<'static>, slot: u16);
}

impl Fill for Offset {
    fn fill(self, builder: &mut FlatBufferBuilder<'static>, slot: u16) {
        builder.push_slot_always(slot, self);
    }
}

impl<T: Fill> Fill for Option<T> {
    fn fill(self, builder: &mut FlatBufferBuilder<'static>, slot: u16) {
        if let Some(value) = self {
            value.fill(builder, slot);
        }
    }
}

macro_rules! scalars {
    ($($scalar:ident)*) => {$(
        impl Fill for $scalar {
            fn fill(self, builder: &mut FlatBufferBuilder<'static>, slot: u16) {
                builder.push_slot(slot, self, $scalar::default());
            }
        }

        impl Item for $scalar {
            fn put_all(items: &[Self], writer: &mut Writer) -> Offset {
                writer.vector(items)
            }
            fn bound_all(items: &[Self]) -> u64 {
                length(size_of_val(items))
            }
        }
    )*};
}
scalars! { i8 u8 i32 u32 i64 bool }

impl Fill for f32 {
    fn fill(self, builder: &mut FlatBufferBuilder<'static>, slot: u16) {
        // Absent means +0, which compares equal to −0 but is a different value.
        if self.to_bits() != 0 {
            builder.push_slot_always(slot, self);
        }
    }
}

impl Item for f32 {
    fn put_all(items: &[Self], writer: &mut Writer) -> Offset {
        writer.vector(items)
    }
    fn bound_all(items: &[Self]) -> u64 {
        length(size_of_val(items))
    }
}

macro_rules! in_slot {
    ($($Value:ident as $scalar:ident)*) => {$(
        impl Put for $Value {
            type Slot = $scalar;
            fn put(&self, _: &mut Writer) -> $scalar {
                (*self).into()
            }
            fn bound(&self) -> u64 {
                0
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
    fn put(&self, writer: &mut Writer) -> Offset {
        writer.text(self)
    }
    fn bound(&self) -> u64 {
        VECTOR_BOUND + length(self.len())
    }
}

impl Item for Cow<'_, str> {
    fn put_all(items: &[Self], writer: &mut Writer) -> Offset {
        let offsets: Vec<Offset> = items.iter().map(|text| text.put(writer)).collect();
        writer.vector(&offsets)
    }
    fn bound_all(items: &[Self]) -> u64 {
        items.iter().map(|text| 4 + text.bound()).sum()
    }
}

impl Put for Cow<'_, [u8]> {
    type Slot = Offset;
    fn put(&self, writer: &mut Writer) -> Offset {
        writer.tensor(self)
    }
    fn bound(&self) -> u64 {
        VECTOR_BOUND + length(TENSOR_ALIGNMENT) + length(self.len())
    }
}

impl Item for EdgeEnd {
    /// A struct is the sequence of its fields; a vector is written backwards, and counts structs.
    fn put_all(items: &[Self], writer: &mut Writer) -> Offset {
        writer.builder.start_vector::<u32>(3 * items.len());
        for edge in items.iter().rev() {
            writer.builder.push(edge.dst_arg_index);
            writer.builder.push(edge.src_arg_index);
            writer.builder.push(edge.node_index);
        }
        WIPOffset::new(writer.builder.end_vector::<u32>(items.len()).value())
    }
    fn bound_all(items: &[Self]) -> u64 {
        length(size_of_val(items))
    }
}

impl<T: Item> Put for Vec<T> {
    type Slot = Offset;
    fn put(&self, writer: &mut Writer) -> Offset {
        T::put_all(self, writer)
    }
    fn bound(&self) -> u64 {
        VECTOR_BOUND + T::bound_all(self)
    }
}

impl<T: Put> Put for Option<T> {
    type Slot = Option<T::Slot>;
    fn put(&self, writer: &mut Writer) -> Self::Slot {
        self.as_ref().map(|value| value.put(writer))
    }
    fn bound(&self) -> u64 {
        self.as_ref().map_or(0, T::bound)
    }
}

/// A field that is never written.
pub(crate) struct Dropped;

impl Put for Dropped {
    type Slot = Option<Offset>;
    fn put(&self, _: &mut Writer) -> Self::Slot {
        None
    }
    fn bound(&self) -> u64 {
        0
    }
}

fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
