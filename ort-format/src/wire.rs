//! Reading FlatBuffers from untrusted bytes: five rules over a byte slice, each returning `None` out of bounds.
//!
//! 1. A table or vector is reached by an unsigned 32-bit offset forward from its slot; 0 means there is none.
//! 2. A table starts with a signed 32-bit offset back to its vtable.
//! 3. Field `id` is at the offset in the vtable's 16-bit entry at `4 + 2·id`, from the table's start; 0 or no entry: absent.
//! 4. A vector is a 32-bit count and its elements.
//! 5. A string is a vector of bytes that are UTF-8.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use flatbuffers::{ForwardsUOffset, InvalidFlatbuffer, TableVerifier, Verifiable, Verifier};
use ort_tensor::{Pace, TensorError};

use crate::enums::{ArgType, AttributeType, DataType, DimensionValueType, NodeType};

/// A position in the bytes of a file.
#[derive(Clone, Copy, Default)]
pub struct Position<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl fmt::Debug for Position<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}", self.offset)
    }
}

impl<'a> Position<'a> {
    /// The start of a file.
    pub(crate) fn start(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    /// Whether the position exists; that of an absent table does not.
    pub(crate) fn is_present(self) -> bool {
        !self.bytes.is_empty()
    }

    /// The slot of field `id` of the table that starts here.
    pub(crate) fn field(self, id: u16) -> Option<Self> {
        let back = i64::from(i32::from_le_bytes(self.array()?));
        let offset = i64::try_from(self.offset).ok()?.checked_sub(back)?;
        let vtable = Self { offset: usize::try_from(offset).ok()?, ..self };
        let entry = slot_of(id);
        if entry >= u16::from_le_bytes(vtable.array()?) {
            return None;
        }
        match u16::from_le_bytes(vtable.skip(usize::from(entry))?.array()?) {
            0 => None,
            distance => self.skip(usize::from(distance)),
        }
    }

    /// The table, vector or string that the offset stored here leads to.
    pub(crate) fn follow(self) -> Option<Self> {
        match self.length()? {
            0 => None,
            distance => self.skip(distance),
        }
    }

    fn array<const N: usize>(self) -> Option<[u8; N]> {
        self.bytes.get(self.offset..)?.first_chunk().copied()
    }

    fn length(self) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(self.array()?)).ok()
    }

    pub(crate) fn skip(self, distance: usize) -> Option<Self> {
        Some(Self { offset: self.offset.checked_add(distance)?, ..self })
    }

    fn take(self, length: usize) -> Option<&'a [u8]> {
        self.bytes.get(self.offset..)?.get(..length)
    }
}

/// The offset of field `id`'s entry in a vtable.
pub(crate) const fn slot_of(id: u16) -> u16 {
    4 + 2 * id
}

/// The content of a slot: a scalar, a struct, or the offset of a string, table or vector. Sealed.
pub trait Element<'a>: Sized {
    /// The type that the verifier checks in the slot.
    #[doc(hidden)]
    type Wire: Verifiable;
    /// The size of a slot.
    #[doc(hidden)]
    const SIZE: usize = size_of::<Self::Wire>();
    /// Whether the slot holds an offset, which may be null.
    #[doc(hidden)]
    const IS_REFERENCE: bool = false;
    /// The content of the slot at `at`.
    #[doc(hidden)]
    fn read(at: Position<'a>) -> Option<Self>;
}

/// A field of a table: how it is verified, and its value.
pub(crate) trait Field<'a>: Sized {
    fn get(table: Position<'a>, id: u16) -> Self;

    fn verify<'v, 'o, 'b>(
        table: TableVerifier<'v, 'o, 'b>,
        name: &'static str,
        id: u16,
    ) -> Result<TableVerifier<'v, 'o, 'b>, InvalidFlatbuffer>;
}

impl<'a, T: Element<'a> + Default> Field<'a> for T {
    fn get(table: Position<'a>, id: u16) -> Self {
        Option::get(table, id).unwrap_or_default()
    }

    fn verify<'v, 'o, 'b>(
        table: TableVerifier<'v, 'o, 'b>,
        name: &'static str,
        id: u16,
    ) -> Result<TableVerifier<'v, 'o, 'b>, InvalidFlatbuffer> {
        table.visit_field::<T::Wire>(name, slot_of(id), false)
    }
}

impl<'a, T: Element<'a>> Field<'a> for Option<T> {
    fn get(table: Position<'a>, id: u16) -> Self {
        table.field(id).and_then(T::read)
    }

    fn verify<'v, 'o, 'b>(
        table: TableVerifier<'v, 'o, 'b>,
        name: &'static str,
        id: u16,
    ) -> Result<TableVerifier<'v, 'o, 'b>, InvalidFlatbuffer> {
        table.visit_field::<T::Wire>(name, slot_of(id), false)
    }
}

macro_rules! scalars {
    ($($scalar:ident)*) => {$(
        impl Element<'_> for $scalar {
            type Wire = $scalar;
            fn read(at: Position<'_>) -> Option<Self> {
                at.array().map($scalar::from_le_bytes)
            }
        }
    )*};
}
scalars! { u8 i8 i32 u32 i64 u64 f32 }

macro_rules! enums {
    ($($Enum:ident: $scalar:ident)*) => {$(
        impl Element<'_> for $Enum {
            type Wire = $scalar;
            fn read(at: Position<'_>) -> Option<Self> {
                $scalar::read(at).map($Enum::from)
            }
        }
    )*};
}
enums! { DataType: i32 AttributeType: i32 NodeType: i32 DimensionValueType: i8 ArgType: i8 }

impl Element<'_> for bool {
    type Wire = bool;
    fn read(at: Position<'_>) -> Option<Self> {
        u8::read(at).map(|byte| byte != 0)
    }
}

impl<'a> Element<'a> for &'a str {
    type Wire = ForwardsUOffset<Text<'a>>;
    const IS_REFERENCE: bool = true;
    fn read(at: Position<'a>) -> Option<Self> {
        std::str::from_utf8(<&[u8]>::read(at)?).ok()
    }
}

impl<'a> Element<'a> for &'a [u8] {
    type Wire = ForwardsUOffset<flatbuffers::Vector<'a, u8>>;
    const IS_REFERENCE: bool = true;
    fn read(at: Position<'a>) -> Option<Self> {
        let vector = at.follow()?;
        vector.skip(4)?.take(vector.length()?)
    }
}

impl<'a, T> Element<'a> for Vector<'a, T>
where
    T: Element<'a, Wire: 'a>,
    flatbuffers::Vector<'a, T::Wire>: Verifiable,
{
    type Wire = ForwardsUOffset<Self>;
    const IS_REFERENCE: bool = true;
    fn read(at: Position<'a>) -> Option<Self> {
        let vector = at.follow()?;
        Some(Self { first: vector.skip(4)?, length: vector.length()?, element: PhantomData })
    }
}

impl<'a, T> Verifiable for Vector<'a, T>
where
    T: Element<'a, Wire: 'a>,
    flatbuffers::Vector<'a, T::Wire>: Verifiable,
{
    /// The C++ builder does not align the start of an empty vector.
    fn run_verifier(verifier: &mut Verifier<'_, '_>, at: usize) -> Result<(), InvalidFlatbuffer> {
        match verifier.get_uoffset(at)? {
            0 => Ok(()),
            _ => flatbuffers::Vector::<'a, T::Wire>::run_verifier(verifier, at),
        }
    }
}

/// A string, whose verification is counted.
#[doc(hidden)]
#[derive(Debug)]
pub struct Text<'a>(PhantomData<&'a str>);

impl Verifiable for Text<'_> {
    fn run_verifier(verifier: &mut Verifier<'_, '_>, at: usize) -> Result<(), InvalidFlatbuffer> {
        count_visit()?;
        <&str>::run_verifier(verifier, at)
    }
}

/// Counts a table or string that is verified; fails if the thread was cancelled. A verifier has no place for the counter.
pub(crate) fn count_visit() -> Result<(), InvalidFlatbuffer> {
    const COST: usize = 16;
    thread_local! {
        static PACE: Cell<Pace> = const { Cell::new(Pace::new()) };
    }
    let mut pace = PACE.get();
    let goes_on = pace.go(COST);
    PACE.set(pace);
    goes_on.map_err(|_| InvalidFlatbuffer::ApparentSizeTooLarge)
}

/// A vector in a file. Reading an element costs a few bounds checks and copies nothing; an absent vector is empty.
pub struct Vector<'a, T> {
    first: Position<'a>,
    length: usize,
    element: PhantomData<T>,
}

impl<'a, T: Element<'a>> Vector<'a, T> {
    /// Element `index`; `None` past the end.
    pub fn get(self, index: usize) -> Option<T> {
        if index >= self.length {
            return None;
        }
        T::read(self.first.skip(index.checked_mul(T::SIZE)?)?)
    }

    /// The first null element.
    pub(crate) fn first_null(self) -> Result<Option<usize>, TensorError> {
        if T::IS_REFERENCE {
            let mut pace = Pace::new();
            for index in 0..self.length {
                pace.go(1)?;
                let at = index.checked_mul(T::SIZE).and_then(|distance| self.first.skip(distance));
                if at.and_then(Position::follow).is_none() {
                    return Ok(Some(index));
                }
            }
        }
        Ok(None)
    }

    /// All elements, in order.
    pub fn iter(self) -> Elements<'a, T> {
        Elements { vector: self, next: 0 }
    }
}

impl<T> Vector<'_, T> {
    /// The number of elements.
    pub fn len(self) -> usize {
        self.length
    }

    /// Whether there are no elements.
    pub fn is_empty(self) -> bool {
        self.length == 0
    }
}

impl<T> Clone for Vector<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Vector<'_, T> {}

impl<T> Default for Vector<'_, T> {
    fn default() -> Self {
        Self { first: Position::default(), length: 0, element: PhantomData }
    }
}

impl<T> fmt::Debug for Vector<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} elements at {:?}", self.length, self.first)
    }
}

impl<'a, T: Element<'a>> IntoIterator for Vector<'a, T> {
    type Item = T;
    type IntoIter = Elements<'a, T>;
    fn into_iter(self) -> Elements<'a, T> {
        self.iter()
    }
}

/// The elements of a [`Vector`] in order.
#[derive(Clone, Debug)]
pub struct Elements<'a, T> {
    vector: Vector<'a, T>,
    next: usize,
}

impl<'a, T: Element<'a>> Iterator for Elements<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let element = self.vector.get(self.next)?;
        self.next += 1;
        Some(element)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // Only an upper bound: in an unverified file, iteration ends at an invalid entry.
        (0, Some(self.vector.length - self.next))
    }
}
