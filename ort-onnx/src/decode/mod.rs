//! Decodes a model in one pass: every field is checked, and counted against the limits, before anything is allocated
//! for it.
//!
//! Objects of messages and strings may be much larger than their encoding, so their sizes are added up and compared with
//! the limits. Errors have a path and an offset.

mod messages;
mod values;
mod wire;

use bytes::Bytes;
use ort_tensor::{Pace, charge};

use self::messages::Message;
use self::wire::{Field, Reader};
use crate::error::{Damage, OnnxError};
use crate::schema::ModelProto;

/// Limits on the cost of decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nesting of messages: three levels for each nested graph, at most 100.
    pub depth: usize,
    /// Size of the decoded messages, without the bytes that stay in the file: this many bytes for each byte
    /// of the file (and no more than the allowance of the thread, `ort_tensor::within`)…
    pub ratio: usize,
    /// … and this many in addition.
    pub base: usize,
}

impl Default for Limits {
    /// 96 levels of messages, 64 bytes for each byte of the file, and 16 MiB.
    fn default() -> Self {
        Self { depth: 96, ratio: 64, base: 16 << 20 }
    }
}

/// The memory of a list relative to its elements, at most: it grows by doubling.
const GROWTH: usize = 2;

/// The cost of a field, in operations.
const FIELD: usize = 16;

/// Decodes a `ModelProto`. Its `Bytes` are slices of `file`.
pub(crate) fn decode_model(file: &Bytes, limits: &Limits) -> Result<ModelProto, OnnxError> {
    decode(file, limits, "model")
}

/// The same for any message; errors of it as a whole name it.
fn decode<M: Message + Default>(
    file: &Bytes,
    limits: &Limits,
    name: &'static str,
) -> Result<M, OnnxError> {
    let most = file.len().saturating_mul(limits.ratio).saturating_add(limits.base);
    let depth = limits.depth.min(100);
    let mut decoder = Decoder { file, left: most, depth, pace: Pace::new() };
    let mut message = M::default();
    match decoder.message(&mut message, file, 0) {
        Ok(()) => Ok(message),
        Err(wrong) => Err(wrong.within(name)),
    }
}

/// Whether bytes are a model, possibly damaged: they begin with a field of one. Protobuf has no identifier.
pub fn is_onnx(bytes: &[u8]) -> bool {
    let is_ort = bytes.get(4..8) == Some(b"ORTM");
    let first = Reader::new(bytes, 0).tag().ok().filter(|_| !is_ort);
    matches!(first, Some((1 | 5, 0) | (2..=4 | 6..=8 | 14 | 25, 2)))
}

/// A defect, and the path to it from the inside out.
struct Wrong {
    damage: Damage,
    offset: usize,
    names: Vec<String>,
}

impl Wrong {
    /// The error in a file that is such a message.
    fn within(self, message: &'static str) -> OnnxError {
        let Self { damage, offset, mut names } = self;
        names.reverse();
        let path = if names.is_empty() { message.to_owned() } else { names.join(".") };
        match damage {
            Damage::Depth => OnnxError::Limit { limit: "depth", path },
            Damage::Objects => OnnxError::Limit { limit: "ratio", path },
            Damage::Memory(error) => OnnxError::Memory { path, error },
            damage => OnnxError::Damaged { path, offset, damage },
        }
    }
}

/// The state of decoding.
struct Decoder<'a> {
    file: &'a Bytes,
    /// Bytes that may still be allocated.
    left: usize,
    /// Levels of messages that may still be entered.
    depth: usize,
    pace: Pace,
}

impl<'a> Decoder<'a> {
    /// Decodes the fields in `bytes`, which begin at `offset`, into `message`. Unknown fields are skipped.
    fn message<M: Message>(
        &mut self,
        message: &mut M,
        bytes: &'a [u8],
        offset: usize,
    ) -> Result<(), Wrong> {
        let mut reader = Reader::new(bytes, offset);
        loop {
            let at = reader.offset;
            let next = reader.next();
            let next = next.map_err(|damage| Wrong { damage, offset: at, names: Vec::new() })?;
            let Some(field) = next else { return Ok(()) };
            let going = self.pace.go(FIELD);
            going.map_err(|error| field.wrong(Damage::Memory(error)))?;
            let (number, place) = (field.number, field.offset);
            message.merge(field, &mut reader, self).map_err(|(name, mut wrong)| {
                wrong.names.push(format!("{name}{}", index(bytes, (number, place), offset)));
                wrong
            })?;
        }
    }

    /// Counts memory that is about to be allocated for a field.
    fn takes(&mut self, field: &Field<'_>, n_bytes: usize) -> Result<(), Wrong> {
        let left = self.left.checked_sub(n_bytes.saturating_mul(GROWTH));
        self.left = left.ok_or_else(|| field.wrong(Damage::Objects))?;
        let counted = charge(n_bytes.saturating_mul(GROWTH));
        counted.map_err(|error| field.wrong(Damage::Memory(error)))
    }
}

/// The index of the field at `place` among those with the same number in a message: `[2]` for the third; empty for a single one.
fn index(bytes: &[u8], (number, place): (u32, usize), offset: usize) -> String {
    let mut reader = Reader::new(bytes, offset);
    let mut places = Vec::new();
    while let Ok(Some(other)) = reader.next() {
        if other.number == number {
            places.push(other.offset);
        }
    }
    match places.iter().position(|&other| other == place) {
        Some(index) if places.len() > 1 => format!("[{index}]"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests;
