//! Validates bytes before decoding: every message is visited and nothing is allocated.
//!
//! Decoding makes an object of each message and string, which may be much larger than its encoding.
//! So this pass adds up the size of the objects and compares it with the limits. It also knows its
//! position, so that errors have a path and an offset.

mod layout;
mod wire;

use self::layout::{Kind, MODEL, Message};
use self::wire::{Field, Reader, Wire};
use crate::error::{Damage, OnnxError};

/// Limits on the cost of decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nesting of messages: three levels for each nested graph. More than 100 cannot be decoded.
    pub depth: usize,
    /// Size of the decoded messages, without the bytes that stay in the file: this many bytes for each byte
    /// of the file…
    pub ratio: usize,
    /// … and this many in addition.
    pub base: usize,
}

impl Default for Limits {
    /// 96 levels of messages, 16 bytes for each byte of the file, and 16 MiB.
    fn default() -> Self {
        Self { depth: 96, ratio: 16, base: 16 << 20 }
    }
}

/// The memory of a list relative to its elements, at most: it grows by doubling.
const GROWTH: usize = 2;

/// Checks a `ModelProto`.
pub(crate) fn check(bytes: &[u8], limits: &Limits) -> Result<(), OnnxError> {
    let most = bytes.len().saturating_mul(limits.ratio).saturating_add(limits.base);
    let mut checker = Checker { left: most };
    checker.message(bytes, 0, &MODEL, limits.depth.min(100)).map_err(|wrong| {
        let (path, offset) = (wrong.path(), wrong.offset);
        match wrong.damage {
            Damage::Depth => OnnxError::Limit { limit: "depth", path },
            Damage::Objects => OnnxError::Limit { limit: "ratio", path },
            damage => OnnxError::Damaged { path, offset, damage },
        }
    })
}

/// Whether bytes are a model, possibly damaged: they begin with a field of one. Protobuf has no identifier.
pub fn is_onnx(bytes: &[u8]) -> bool {
    let is_ort = bytes.get(4..8) == Some(b"ORTM");
    let first = Reader::new(bytes, 0).tag().ok().filter(|_| !is_ort);
    first.is_some_and(|(number, wire)| {
        let mut fields = MODEL.fields.iter();
        fields.any(|(known, _, kind)| match kind {
            Kind::Varint => (*known, 0) == (number, wire),
            _ => (*known, 2) == (number, wire),
        })
    })
}

/// A defect, and the path to it from the inside out.
struct Wrong {
    damage: Damage,
    offset: usize,
    names: Vec<String>,
}

impl Wrong {
    fn path(&self) -> String {
        let names: Vec<&str> = self.names.iter().rev().map(String::as_str).collect();
        if names.is_empty() { "model".to_owned() } else { names.join(".") }
    }
}

struct Checker {
    /// Bytes that may still be decoded.
    left: usize,
}

impl Checker {
    fn message(
        &mut self,
        bytes: &[u8],
        offset: usize,
        message: &Message,
        depth: usize,
    ) -> Result<(), Wrong> {
        let mut reader = Reader::new(bytes, offset);
        // Elements of a list are consecutive.
        let mut last = message.fields.first();
        loop {
            let at = reader.offset;
            let wrong = |damage| Wrong { damage, offset: at, names: Vec::new() };
            let Some(field) = reader.next().map_err(wrong)? else { return Ok(()) };
            if last.is_none_or(|(number, ..)| *number != field.number) {
                last = message.fields.iter().find(|(number, ..)| *number == field.number);
            }
            let Some((_, name, kind)) = last else { continue };
            self.field(&field, *kind, depth).map_err(|mut wrong| {
                wrong.names.push(format!("{name}{}", index(bytes, &field, offset)));
                wrong
            })?;
            self.more(&mut reader, &field, *kind).map_err(wrong)?;
        }
    }

    /// Passes over the rest of a list, as far as it follows its first element and may be decoded: lists make up
    /// most of the fields of a file with large attributes.
    fn more(
        &mut self,
        reader: &mut Reader<'_>,
        field: &Field<'_>,
        kind: Kind,
    ) -> Result<(), Damage> {
        let n_bytes = match (kind, &field.wire) {
            (Kind::Bytes, _) => size_of::<bytes::Bytes>(),
            (Kind::Varints(_), Wire::Varint)
            | (Kind::Fixed32s, Wire::Fixed32)
            | (Kind::Fixed64s, Wire::Fixed64) => 8,
            _ => return Ok(()),
        };
        let n = reader.skip_like(field, self.left / (n_bytes * GROWTH));
        self.takes(n * n_bytes)
    }

    fn field(&mut self, field: &Field<'_>, kind: Kind, depth: usize) -> Result<(), Wrong> {
        let offset = field.offset;
        let wrong = |damage| Wrong { damage, offset, names: Vec::new() };
        match (kind, &field.wire) {
            (Kind::Message(inner), &Wire::Bytes(bytes)) => {
                self.takes(inner.n_bytes).map_err(wrong)?;
                let depth = depth.checked_sub(1).ok_or(Damage::Depth).map_err(wrong)?;
                return self.message(bytes, offset, inner, depth);
            }
            (Kind::Text, Wire::Bytes(bytes)) => std::str::from_utf8(bytes)
                .map_err(|_| Damage::NotUtf8)
                .and_then(|text| self.takes(text.len() + size_of::<String>())),
            (Kind::Bytes, Wire::Bytes(_)) => self.takes(size_of::<bytes::Bytes>()),
            (Kind::Varint, Wire::Varint) | (Kind::Fixed32, Wire::Fixed32) => Ok(()),
            (Kind::Varints(_), Wire::Varint)
            | (Kind::Fixed32s, Wire::Fixed32)
            | (Kind::Fixed64s, Wire::Fixed64) => self.takes(8),
            (Kind::Varints(n_bytes), Wire::Bytes(packed)) => {
                let numbers = numbers(packed);
                numbers.and_then(|n| self.takes(n.saturating_mul(n_bytes)))
            }
            (Kind::Fixed32s, Wire::Bytes(packed)) => self.packed(packed, 4),
            (Kind::Fixed64s, Wire::Bytes(packed)) => self.packed(packed, 8),
            _ => Err(Damage::WireType),
        }
        .map_err(wrong)
    }

    fn packed(&mut self, packed: &[u8], n_bytes: usize) -> Result<(), Damage> {
        match packed.len().is_multiple_of(n_bytes) {
            true => self.takes(packed.len()),
            false => Err(Damage::Packed),
        }
    }

    fn takes(&mut self, n_bytes: usize) -> Result<(), Damage> {
        let left = self.left.checked_sub(n_bytes.saturating_mul(GROWTH));
        self.left = left.ok_or(Damage::Objects)?;
        Ok(())
    }
}

/// The number of packed integers.
fn numbers(packed: &[u8]) -> Result<usize, Damage> {
    let mut reader = Reader::new(packed, 0);
    let mut n = 0;
    while reader.len() > 0 {
        reader.varint()?;
        n += 1;
    }
    Ok(n)
}

/// The index of this field among those with the same number in a message: `[2]` for the third; empty for a single one.
fn index(bytes: &[u8], field: &Field<'_>, offset: usize) -> String {
    let mut reader = Reader::new(bytes, offset);
    let mut places = Vec::new();
    while let Ok(Some(other)) = reader.next() {
        if other.number == field.number {
            places.push(other.offset);
        }
    }
    match places.iter().position(|&place| place == field.offset) {
        Some(index) if places.len() > 1 => format!("[{index}]"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests;
