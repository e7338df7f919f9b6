//! A FlatBuffer under construction, from its end to its start: children come before the tables that refer to them, and a
//! position is the distance from the end.
//!
//! The same calls measure a file and, in memory of that length, write it.
//!
//! Source: the FlatBuffers documentation, "FlatBuffer Internals".

use std::collections::HashMap;

use ort_tensor::{Pace, TensorError};

use crate::container::MAX_FILE_LENGTH;
use crate::error::WriteError;

/// The alignment of tensors: a cache line, and the widest vector register.
const TENSOR_ALIGNMENT: usize = 64;

/// The alignment of offsets and counts.
const OFFSET_ALIGNMENT: usize = 4;

/// Bytes that are copied between two checks for cancellation: a millisecond or two.
const PIECE: usize = 1 << 22;

/// Bytes that are copied in the time of another operation.
const OPERATION: usize = PIECE / Pace::STEP;

/// Operations that a table takes.
const TABLE: usize = 16;

/// A position, as its distance from the end of the file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Offset(usize);

/// Measures or writes a file.
pub(crate) struct Writer<'w> {
    /// Memory of the file's length; none to measure.
    file: Option<&'w mut [u8]>,
    /// How much of it is written.
    used: usize,
    pace: Pace,
    /// Why writing was stopped: nothing that follows is written.
    stopped: Option<TensorError>,
    /// The fields of the table under construction: the entry in its vtable, and the position.
    fields: Vec<(u16, usize)>,
    vtables: HashMap<Vec<u16>, usize>,
    texts: HashMap<String, Offset>,
}

impl<'w> Writer<'w> {
    pub(crate) fn new(file: Option<&'w mut [u8]>) -> Self {
        let (fields, vtables, texts) = (Vec::new(), HashMap::new(), HashMap::new());
        Self { file, used: 0, pace: Pace::new(), stopped: None, fields, vtables, texts }
    }

    /// Completes a file with this root and identifier; returns its length.
    pub(crate) fn finish(
        mut self,
        root: Offset,
        identifier: &'static str,
    ) -> Result<usize, WriteError> {
        // With the root's offset and the identifier, the length is a multiple of the tensors' alignment, which converts
        // distances from the end into distances from the start.
        self.align(OFFSET_ALIGNMENT + identifier.len(), TENSOR_ALIGNMENT);
        self.copy(identifier.as_bytes());
        self.scalar(self.distance(root));
        match (self.stopped, self.used) {
            (Some(error), _) => Err(WriteError::Memory(error)),
            (None, length) if length > MAX_FILE_LENGTH => Err(WriteError::TooBig { length }),
            (None, length) => Ok(length),
        }
    }

    /// Counts a table, and returns whether writing goes on.
    pub(crate) fn goes_on(&mut self) -> bool {
        self.work(TABLE);
        self.stopped.is_none()
    }

    /// Begins a table: its fields follow.
    pub(crate) fn start_table(&mut self) -> Offset {
        self.fields.clear();
        Offset(self.used)
    }

    /// A number in a field of the table.
    pub(crate) fn number<const N: usize>(&mut self, slot: u16, bytes: [u8; N]) {
        self.scalar(bytes);
        self.fields.push((slot, self.used));
    }

    /// A reference in a field of the table.
    pub(crate) fn reference(&mut self, slot: u16, target: Offset) {
        self.align(OFFSET_ALIGNMENT, OFFSET_ALIGNMENT);
        self.number(slot, self.distance(target));
    }

    /// Ends the table that began at `start`. Equal vtables are written once.
    pub(crate) fn end_table(&mut self, start: Offset) -> Offset {
        self.scalar([0; OFFSET_ALIGNMENT]);
        let table = self.used;
        let length = self.fields.iter().map(|(slot, _)| slot + 2).max().unwrap_or(4);
        // bounded: by the number of fields that a table of the schema has
        let mut vtable = vec![0; usize::from(length / 2)];
        vtable[0] = length;
        vtable[1] = short(table.saturating_sub(start.0));
        for &(slot, position) in &self.fields {
            vtable[usize::from(slot / 2)] = short(table.saturating_sub(position));
        }
        let place = match self.vtables.get(&vtable) {
            Some(&place) => place,
            None => {
                vtable.iter().rev().for_each(|entry| self.scalar(entry.to_le_bytes()));
                self.vtables.insert(vtable, self.used);
                self.used
            }
        };
        let place = i64::try_from(place).unwrap_or(i64::MAX);
        let back = place.saturating_sub(i64::try_from(table).unwrap_or(i64::MAX));
        let back = i32::try_from(back).unwrap_or(i32::MAX);
        if let Some(slot) = self.at(table, OFFSET_ALIGNMENT) {
            slot.copy_from_slice(&back.to_le_bytes());
        }
        Offset(table)
    }

    /// A vector of numbers or structs with an alignment.
    pub(crate) fn vector<const N: usize>(
        &mut self,
        alignment: usize,
        items: impl ExactSizeIterator<Item = [u8; N]>,
    ) -> Offset {
        let (n, n_bytes) = (items.len(), items.len().saturating_mul(N));
        self.align(n_bytes, alignment.max(OFFSET_ALIGNMENT));
        self.work(n_bytes / OPERATION);
        if let Some(place) = self.take(n_bytes) {
            let (places, _) = place.as_chunks_mut();
            places.iter_mut().zip(items).for_each(|(place, item)| *place = item);
        }
        self.count(n)
    }

    /// A vector of references.
    pub(crate) fn references(&mut self, targets: &[Offset]) -> Offset {
        let n_bytes = targets.len().saturating_mul(OFFSET_ALIGNMENT);
        self.align(n_bytes, OFFSET_ALIGNMENT);
        let first = self.used.saturating_add(n_bytes);
        let items = targets.iter().enumerate().map(|(i, target)| {
            long(first.saturating_sub(i * OFFSET_ALIGNMENT).saturating_sub(target.0))
        });
        self.vector(OFFSET_ALIGNMENT, items)
    }

    /// Equal strings are written once.
    pub(crate) fn text(&mut self, text: &str) -> Offset {
        if let Some(&offset) = self.texts.get(text) {
            return offset;
        }
        let offset = self.terminated(text.as_bytes(), OFFSET_ALIGNMENT);
        self.texts.insert(text.to_owned(), offset);
        offset
    }

    /// A vector of bytes whose first byte is aligned. It is terminated like a string, which reads as padding.
    pub(crate) fn tensor(&mut self, bytes: &[u8]) -> Offset {
        self.terminated(bytes, TENSOR_ALIGNMENT)
    }

    fn terminated(&mut self, bytes: &[u8], alignment: usize) -> Offset {
        self.align(bytes.len().saturating_add(1), alignment);
        self.copy(&[0]);
        self.copy(bytes);
        self.count(bytes.len())
    }

    fn count(&mut self, n: usize) -> Offset {
        self.scalar(long(n));
        Offset(self.used)
    }

    /// A number at a multiple of its size.
    fn scalar<const N: usize>(&mut self, bytes: [u8; N]) {
        self.align(N, N);
        self.copy(&bytes);
    }

    /// The content of the next offset, which is aligned, if it leads to `target`.
    fn distance(&self, target: Offset) -> [u8; OFFSET_ALIGNMENT] {
        long(self.used.saturating_add(OFFSET_ALIGNMENT).saturating_sub(target.0))
    }

    /// Pads with zeros so that the next `length` bytes start at a multiple of the alignment.
    fn align(&mut self, length: usize, alignment: usize) {
        let over = self.used.saturating_add(length) % alignment;
        if let Some(padding) = self.take((alignment - over) % alignment) {
            padding.fill(0);
        }
    }

    /// Writes bytes in front of the others, in pieces.
    fn copy(&mut self, bytes: &[u8]) {
        let before = self.used;
        self.used = before.saturating_add(bytes.len());
        if self.file.is_none() {
            return;
        }
        for (i, piece) in bytes.chunks(PIECE).enumerate() {
            self.work(piece.len() / OPERATION);
            if self.stopped.is_some() {
                return;
            }
            if let Some(place) = self.at(self.used - i * PIECE, piece.len()) {
                place.copy_from_slice(piece);
            }
        }
    }

    /// Makes room for bytes in front of the others.
    fn take(&mut self, n_bytes: usize) -> Option<&mut [u8]> {
        self.used = self.used.saturating_add(n_bytes);
        self.at(self.used, n_bytes)
    }

    /// Bytes at a position; none if there is no memory for them.
    fn at(&mut self, position: usize, n_bytes: usize) -> Option<&mut [u8]> {
        let file = self.file.as_deref_mut()?;
        let start = file.len().checked_sub(position)?;
        file.get_mut(start..)?.get_mut(..n_bytes)
    }

    /// Counts operations, and checks for cancellation every now and then.
    fn work(&mut self, n_operations: usize) {
        if let Err(error) = self.pace.go(n_operations) {
            self.stopped = Some(error);
        }
    }
}

/// The bytes of a number below 2^16: tables of the schema are shorter.
fn short(n: usize) -> u16 {
    u16::try_from(n).unwrap_or(u16::MAX)
}

/// The bytes of a number below 2^32: longer files are errors.
fn long(n: usize) -> [u8; OFFSET_ALIGNMENT] {
    u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes()
}
