//! The types of fields: how each is decoded. Of several fields with one number, a single value keeps the last, messages
//! are merged, and lists appended.

use bytes::Bytes;

use super::wire::{Field, Reader, Wire};
use super::{Decoder, GROWTH, Wrong};
use crate::error::Damage;

/// The type of a field.
pub(super) trait Merge {
    /// Merges a field. A list may take further elements from `reader`.
    fn merge<'a>(
        &mut self,
        field: Field<'a>,
        reader: &mut Reader<'a>,
        decoder: &mut Decoder<'a>,
    ) -> Result<(), Wrong>;
}

/// The type of a list's elements, each in its own field.
pub(super) trait Item: Merge + Default {}

impl Item for String {}
impl Item for Bytes {}

impl<T: Item> Merge for Vec<T> {
    fn merge<'a>(
        &mut self,
        field: Field<'a>,
        reader: &mut Reader<'a>,
        decoder: &mut Decoder<'a>,
    ) -> Result<(), Wrong> {
        let (number, mut item) = (field.number, T::default());
        item.merge(field, reader, decoder)?;
        if self.capacity() == 0 {
            let most = decoder.left / (size_of::<T>() * GROWTH);
            self.reserve_exact(1 + reader.n_of(number).min(most));
        }
        self.push(item);
        Ok(())
    }
}

impl<T: Merge + Default> Merge for Option<T> {
    fn merge<'a>(
        &mut self,
        field: Field<'a>,
        reader: &mut Reader<'a>,
        decoder: &mut Decoder<'a>,
    ) -> Result<(), Wrong> {
        self.get_or_insert_default().merge(field, reader, decoder)
    }
}

impl<T: Merge> Merge for Box<T> {
    fn merge<'a>(
        &mut self,
        field: Field<'a>,
        reader: &mut Reader<'a>,
        decoder: &mut Decoder<'a>,
    ) -> Result<(), Wrong> {
        (**self).merge(field, reader, decoder)
    }
}

impl Merge for String {
    fn merge<'a>(
        &mut self,
        field: Field<'a>,
        _: &mut Reader<'a>,
        decoder: &mut Decoder<'a>,
    ) -> Result<(), Wrong> {
        let text = std::str::from_utf8(field.bytes()?);
        let text = text.map_err(|_| field.wrong(Damage::NotUtf8))?;
        decoder.takes(&field, text.len() + size_of::<Self>())?;
        text.clone_into(self);
        Ok(())
    }
}

/// Not copied.
impl Merge for Bytes {
    fn merge<'a>(
        &mut self,
        field: Field<'a>,
        _: &mut Reader<'a>,
        decoder: &mut Decoder<'a>,
    ) -> Result<(), Wrong> {
        let n_bytes = field.bytes()?.len();
        decoder.takes(&field, size_of::<Self>())?;
        *self = decoder.file.slice(field.offset..field.offset + n_bytes);
        Ok(())
    }
}

/// The memory that an element of a list of numbers counts as, unless the list is packed.
const NUMBER_BYTES: usize = 8;

/// A number, alone or in a list.
trait Number: Copy {
    /// The number in a field; `None` if the wire type is another.
    fn of(wire: &Wire<'_>) -> Option<Self>;
    /// The number of packed numbers; `None` if the last one is cut off.
    fn n_packed(packed: &[u8]) -> Option<usize>;
    /// The next number, without a tag.
    fn next(reader: &mut Reader<'_>) -> Result<Self, Damage>;
}

fn number<T: Number>(number: &mut T, field: &Field<'_>) -> Result<(), Wrong> {
    *number = T::of(&field.wire).ok_or_else(|| field.wrong(Damage::WireType))?;
    Ok(())
}

/// Appends the numbers of a packed list, or of a field and of those that follow it: lists make up most of the fields of a
/// file with large attributes.
fn numbers<'a, T: Number>(
    list: &mut Vec<T>,
    field: &Field<'a>,
    reader: &mut Reader<'a>,
    decoder: &mut Decoder<'a>,
) -> Result<(), Wrong> {
    let wrong = |damage| field.wrong(damage);
    if let Wire::Bytes(packed) = field.wire {
        let n = T::n_packed(packed).ok_or_else(|| wrong(Damage::Packed))?;
        decoder.takes(field, n.saturating_mul(size_of::<T>()))?;
        list.reserve(n);
        let mut packed = Reader::new(packed, field.offset);
        while packed.len() > 0 {
            list.push(T::next(&mut packed).map_err(wrong)?);
        }
        return Ok(());
    }
    decoder.takes(field, NUMBER_BYTES)?;
    list.push(T::of(&field.wire).ok_or_else(|| wrong(Damage::WireType))?);
    let Some(tag) = field.short_tag() else { return Ok(()) };
    let most = decoder.left / (NUMBER_BYTES * GROWTH);
    let before = list.len();
    while list.len() - before < most
        && let Some(number) = reader.next_with(tag, T::next)
    {
        list.push(number);
    }
    decoder.takes(field, (list.len() - before) * NUMBER_BYTES)
}

macro_rules! numbers {
    ($($T:ty: $Wire:ident($value:ident) => $number:expr, $n_packed:expr, $next:ident;)*) => { $(
        impl Number for $T {
            fn of(wire: &Wire<'_>) -> Option<Self> {
                match *wire {
                    Wire::$Wire($value) => Some($number),
                    _ => None,
                }
            }

            fn n_packed(packed: &[u8]) -> Option<usize> {
                $n_packed(packed)
            }

            fn next(reader: &mut Reader<'_>) -> Result<Self, Damage> {
                reader.$next().map(|$value| $number)
            }
        }

        impl Merge for $T {
            fn merge<'a>(
                &mut self,
                field: Field<'a>,
                _: &mut Reader<'a>,
                _: &mut Decoder<'a>,
            ) -> Result<(), Wrong> {
                number(self, &field)
            }
        }

        impl Merge for Vec<$T> {
            fn merge<'a>(
                &mut self,
                field: Field<'a>,
                reader: &mut Reader<'a>,
                decoder: &mut Decoder<'a>,
            ) -> Result<(), Wrong> {
                numbers(self, &field, reader, decoder)
            }
        }
    )* };
}

numbers! {
    i32: Varint(value) => low_half(value).cast_signed(), n_varints, varint;
    i64: Varint(value) => value.cast_signed(), n_varints, varint;
    u64: Varint(value) => value, n_varints, varint;
    f32: Fixed32(value) => Self::from_le_bytes(value), n_fixed::<4>, array;
    f64: Fixed64(value) => Self::from_le_bytes(value), n_fixed::<8>, array;
}

/// The low 32 bits: a field of 32 bits ignores the others.
fn low_half(value: u64) -> u32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// The last byte of an integer is the only one below 0x80.
fn n_varints(packed: &[u8]) -> Option<usize> {
    let is_whole = packed.last().is_none_or(|&byte| byte < 0x80);
    is_whole.then(|| packed.iter().filter(|&&byte| byte < 0x80).count())
}

fn n_fixed<const N: usize>(packed: &[u8]) -> Option<usize> {
    packed.len().is_multiple_of(N).then(|| packed.len() / N)
}
