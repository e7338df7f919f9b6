//! Protobuf's wire format, field by field: a tag, and an integer or a range of bytes.

use super::Wrong;
use crate::error::Damage;

/// A field of a message.
pub(super) struct Field<'a> {
    pub(super) number: u32,
    pub(super) wire: Wire<'a>,
    /// The offset of its content in the file.
    pub(super) offset: usize,
}

/// The encoded value of a field.
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed32([u8; 4]),
    Fixed64([u8; 8]),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    /// The content of a text, a message or a packed list.
    pub(super) fn bytes(&self) -> Result<&'a [u8], Wrong> {
        match self.wire {
            Wire::Bytes(bytes) => Ok(bytes),
            _ => Err(self.wrong(Damage::WireType)),
        }
    }

    /// Its tag, if that is one byte.
    pub(super) fn short_tag(&self) -> Option<u8> {
        let wire = match self.wire {
            Wire::Varint(_) => 0,
            Wire::Fixed64(_) => 1,
            Wire::Bytes(_) => 2,
            Wire::Fixed32(_) => 5,
        };
        u8::try_from(self.number << 3 | wire).ok().filter(|&tag| tag < 0x80)
    }

    /// A defect of this field.
    pub(super) const fn wrong(&self, damage: Damage) -> Wrong {
        Wrong { damage, offset: self.offset, names: Vec::new() }
    }
}

/// The fields of a message, starting at an offset in a file.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    /// The offset of the rest in the file.
    pub(super) offset: usize,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8], offset: usize) -> Self {
        Self { rest: bytes, offset }
    }

    /// The next field; `None` at the end of the message.
    pub(super) fn next(&mut self) -> Result<Option<Field<'a>>, Damage> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (number, wire) = self.tag()?;
        let mut offset = self.offset;
        let wire = match wire {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(self.array()?),
            2 => {
                let n = self.varint()?;
                offset = self.offset;
                Wire::Bytes(self.take(n)?)
            }
            5 => Wire::Fixed32(self.array()?),
            _ => return Err(Damage::Tag { tag: u64::from(number) << 3 | wire }),
        };
        Ok(Some(Field { number, wire, offset }))
    }

    /// The content of the next field, if it has this tag of one byte and is not damaged; what is, is left to
    /// [`Reader::next`].
    pub(super) fn next_with<T>(
        &mut self,
        tag: u8,
        content: impl Fn(&mut Self) -> Result<T, Damage>,
    ) -> Option<T> {
        let (_, rest) = self.rest.split_first().filter(|(first, _)| **first == tag)?;
        let mut ahead = Self { rest, offset: self.offset + 1 };
        let content = content(&mut ahead).ok()?;
        *self = ahead;
        Some(content)
    }

    /// How many of the fields that follow have this number, up to the first damaged one.
    pub(super) fn n_of(&self, number: u32) -> usize {
        let mut rest = Self { ..*self };
        let fields = std::iter::from_fn(|| rest.next().ok().flatten());
        fields.filter(|field| field.number == number).count()
    }

    /// The number of a field and its wire type.
    pub(super) fn tag(&mut self) -> Result<(u32, u64), Damage> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| (1..1 << 29).contains(number));
        Ok((number.ok_or(Damage::Tag { tag })?, tag & 7))
    }

    /// The number of bytes left.
    pub(super) const fn len(&self) -> usize {
        self.rest.len()
    }

    /// An integer of up to 64 bits, seven in each byte.
    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64, Damage> {
        match self.rest {
            &[byte @ ..0x80, ..] => {
                self.take_known(1);
                Ok(u64::from(byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Damage> {
        let mut value = 0_u64;
        for (i, &byte) in self.rest.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                // The tenth byte holds the last bit.
                if i == 9 && byte > 1 {
                    break;
                }
                self.take_known(i + 1);
                return Ok(value);
            }
        }
        Err(if self.rest.len() < 10 { Damage::Cut } else { Damage::Varint })
    }

    /// The next bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        let array = self.rest.first_chunk().copied().ok_or(Damage::Cut)?;
        self.take_known(N);
        Ok(array)
    }

    fn take(&mut self, n: u64) -> Result<&'a [u8], Damage> {
        let left = self.rest.len();
        let n = usize::try_from(n).ok().filter(|&n| n <= left);
        n.map(|n| self.take_known(n)).ok_or(Damage::Cut)
    }

    fn take_known(&mut self, n: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(n);
        self.rest = rest;
        self.offset += n;
        taken
    }
}
