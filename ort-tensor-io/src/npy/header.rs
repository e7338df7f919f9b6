//! The header: `\x93NUMPY`, two bytes of version, a length, and the literal of a Python dict.

use ort_tensor::{DType, Shape, TensorError, with_room};

use super::NpyError;

const MAGIC: &[u8] = b"\x93NUMPY";
/// The alignment of the data.
const ALIGN: usize = 64;

pub(super) struct Header {
    pub(super) item: Item,
    pub(super) is_fortran: bool,
    pub(super) shape: Shape,
}

/// The representation of an element in the file.
pub(super) enum Item {
    /// A number in its memory representation.
    Number(DType),
    /// Code points of four bytes, padded with zeros.
    Utf32 { n_chars: usize },
    /// Bytes, padded with zeros.
    Utf8 { n_bytes: usize },
}

/// `descr` and element type, for the types that numpy and ONNX share.
const NUMBERS: [(&str, DType); 14] = [
    ("|b1", DType::Bool),
    ("|i1", DType::I8),
    ("<i2", DType::I16),
    ("<i4", DType::I32),
    ("<i8", DType::I64),
    ("|u1", DType::U8),
    ("<u2", DType::U16),
    ("<u4", DType::U32),
    ("<u8", DType::U64),
    ("<f2", DType::F16),
    ("<f4", DType::F32),
    ("<f8", DType::F64),
    ("<c8", DType::Complex64),
    ("<c16", DType::Complex128),
];

pub(super) fn descr(dtype: DType) -> Option<&'static str> {
    NUMBERS.iter().find(|(_, number)| *number == dtype).map(|(descr, _)| *descr)
}

impl Header {
    /// The header and the position of the data.
    pub(super) fn read(bytes: &[u8]) -> Result<(Self, usize), NpyError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(NpyError::Magic)?;
        let (&[major, _minor], rest) = rest.split_first_chunk().ok_or(NpyError::Truncated)?;
        let (len, rest) = match major {
            1 => {
                rest.split_first_chunk().map(|(len, rest)| (u16::from_le_bytes(*len).into(), rest))
            }
            2 | 3 => rest.split_first_chunk().map(|(len, rest)| (u32::from_le_bytes(*len), rest)),
            _ => return Err(NpyError::Version { major }),
        }
        .ok_or(NpyError::Truncated)?;
        let len = usize::try_from(len).map_err(|_| NpyError::Truncated)?;
        let text = rest.get(..len).ok_or(NpyError::Truncated)?;
        let data_at = bytes.len() - rest.len() + len;
        Ok((Self::parse(&mut Cursor { text, at: 0 })?, data_at))
    }

    /// `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`, keys in any order.
    fn parse(cursor: &mut Cursor<'_>) -> Result<Self, NpyError> {
        let (mut item, mut is_fortran, mut shape) = (None, None, None);
        cursor.expect(b'{')?;
        while !cursor.eat(b'}') {
            let at = cursor.at;
            let key = cursor.string()?;
            cursor.expect(b':')?;
            match key {
                b"descr" => item = Some(parse_descr(cursor)?),
                b"fortran_order" => is_fortran = Some(cursor.boolean()?),
                b"shape" => shape = Some(cursor.tuple()?),
                _ => return Err(NpyError::Header { at }),
            }
            if !cursor.eat(b',') {
                cursor.expect(b'}')?;
                break;
            }
        }
        let missing = NpyError::Header { at: cursor.at };
        match (item, is_fortran, shape) {
            (Some(item), Some(is_fortran), Some(shape)) => Ok(Self { item, is_fortran, shape }),
            _ => Err(missing),
        }
    }
}

fn parse_descr(cursor: &mut Cursor<'_>) -> Result<Item, NpyError> {
    if cursor.eat(b'[') {
        return Err(NpyError::Descr { descr: "a record".to_owned() });
    }
    let descr = String::from_utf8_lossy(cursor.string()?).into_owned();
    let number = NUMBERS.iter().find(|(name, _)| *name == descr);
    // A single byte has no byte order, so `<` has no effect; numpy itself writes `|`.
    let single = || descr.strip_prefix('<').and_then(find_single_byte);
    // Zero-length strings would let a short file claim any number of them.
    let length = |prefix: &str| {
        let length = descr.strip_prefix(prefix).and_then(|n| n.parse::<usize>().ok());
        length.filter(|&n| n > 0)
    };
    let item = match number {
        Some(&(_, dtype)) => Some(Item::Number(dtype)),
        None => single()
            .map(Item::Number)
            .or_else(|| length("<U").map(|n_chars| Item::Utf32 { n_chars }))
            .or_else(|| length("|S").map(|n_bytes| Item::Utf8 { n_bytes })),
    };
    item.ok_or(NpyError::Descr { descr })
}

fn find_single_byte(name: &str) -> Option<DType> {
    let same = |descr: &str| descr.strip_prefix('|') == Some(name);
    NUMBERS.iter().find(|(descr, _)| same(descr)).map(|(_, dtype)| *dtype)
}

/// The file: header, padded with spaces and terminated by a line feed, then `data`.
pub(super) fn write(descr: &str, shape: &[usize], data: &[u8]) -> Result<Vec<u8>, TensorError> {
    let dims: Vec<String> = shape.iter().map(usize::to_string).collect();
    // In Python `(3,)` is a tuple and `(3)` is not.
    let comma = if shape.len() == 1 { "," } else { "" };
    let dims = dims.join(", ");
    let text =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({dims}{comma}), }}");
    let padded = |prefix: usize| (prefix + text.len() + 1).next_multiple_of(ALIGN) - prefix;
    let (short, long) = (padded(MAGIC.len() + 4), padded(MAGIC.len() + 6));
    let mut header = MAGIC.to_vec();
    let len = if let Ok(len) = u16::try_from(short) {
        header.extend_from_slice(&[1, 0]);
        header.extend_from_slice(&len.to_le_bytes());
        short
    } else {
        header.extend_from_slice(&[2, 0]);
        // The length cannot exceed 32 bits: a shape is held in memory twice here.
        header.extend_from_slice(&u32::try_from(long).unwrap_or(u32::MAX).to_le_bytes());
        long
    };
    let end = header.len() + len;
    header.extend_from_slice(text.as_bytes());
    header.resize(end - 1, b' ');
    header.push(b'\n');
    let mut file = with_room(header.len().saturating_add(data.len()))?;
    file.extend_from_slice(&header);
    file.extend_from_slice(data);
    Ok(file)
}

/// Parses a Python literal; white space before each token is skipped.
struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, byte: u8) -> Result<(), NpyError> {
        if self.eat(byte) { Ok(()) } else { Err(self.error()) }
    }

    /// The bytes between quotes; numpy does not use escapes here.
    fn string(&mut self) -> Result<&'a [u8], NpyError> {
        let quote = self.peek().filter(|byte| matches!(byte, b'\'' | b'"'));
        let quote = quote.ok_or_else(|| self.error())?;
        let rest = &self.text[self.at + 1..];
        let len = rest.iter().position(|&byte| byte == quote).ok_or_else(|| self.error())?;
        self.at += len + 2;
        Ok(&rest[..len])
    }

    fn boolean(&mut self) -> Result<bool, NpyError> {
        self.peek();
        for (word, value) in [("True", true), ("False", false)] {
            if self.text[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.error())
    }

    fn tuple(&mut self) -> Result<Shape, NpyError> {
        self.expect(b'(')?;
        let mut shape = Shape::new();
        while !self.eat(b')') {
            shape.push(self.number()?);
            if !self.eat(b',') {
                self.expect(b')')?;
                break;
            }
        }
        Ok(shape)
    }

    /// Decimal digits, and the `L` that Python 2 appends.
    fn number(&mut self) -> Result<usize, NpyError> {
        self.peek();
        let rest = &self.text[self.at..];
        let len = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        let digits = std::str::from_utf8(&rest[..len]).unwrap_or_default();
        let number = digits.parse().map_err(|_| self.error())?;
        self.at += len;
        self.eat(b'L');
        Ok(number)
    }

    fn error(&self) -> NpyError {
        NpyError::Header { at: self.at }
    }
}
