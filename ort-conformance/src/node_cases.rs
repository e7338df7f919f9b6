//! The packed node cases: `tools/pack_node_cases.py` documents the container and writes it.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;

const MAGIC: &[u8] = b"ORTCASE1";

/// The files of the cases by path, such as `test_abs/test_data_set_0/input_0.pb`.
pub type Files = BTreeMap<String, Bytes>;

/// A container that is damaged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnpackError {
    /// The stream cannot be inflated.
    #[error("the zlib stream is damaged: {0:?}")]
    Inflate(miniz_oxide::inflate::TINFLStatus),
    /// The magic bytes are wrong.
    #[error("not a file of node cases")]
    Magic,
    /// Counts and lengths do not fit the bytes.
    #[error("the container ends early, or its numbers do not fit each other")]
    Damaged,
    /// A path cannot be read.
    #[error("a path is not UTF-8")]
    Path,
}

/// Unpacks all files. Each is a slice of one buffer.
///
/// # Errors
/// If the container is damaged.
pub fn unpack(packed: &[u8]) -> Result<Files, UnpackError> {
    let inflated = miniz_oxide::inflate::decompress_to_vec_zlib(packed);
    let mut reader =
        Reader { rest: &inflated.map_err(|error| UnpackError::Inflate(error.status))? };
    if reader.bytes(MAGIC.len())? != MAGIC {
        return Err(UnpackError::Magic);
    }
    let index = reader.index()?;
    let contents = Bytes::from(reader.contents()?);
    let file = |(path, range): (String, Range<usize>)| match range.end <= contents.len() {
        true => Ok((path, contents.slice(range))),
        false => Err(UnpackError::Damaged),
    };
    index.into_iter().map(file).collect()
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn bytes(&mut self, n: usize) -> Result<&'a [u8], UnpackError> {
        let (bytes, rest) = self.rest.split_at_checked(n).ok_or(UnpackError::Damaged)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// A base-128 varint.
    fn number(&mut self) -> Result<usize, UnpackError> {
        let mut number = 0_usize;
        for shift in (0..usize::BITS).step_by(7) {
            let byte = self.bytes(1)?[0];
            number |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(UnpackError::Damaged)
    }

    /// Path and range of each file.
    fn index(&mut self) -> Result<Vec<(String, Range<usize>)>, UnpackError> {
        let mut start = 0_usize;
        let mut files = Vec::new();
        for _ in 0..self.number()? {
            let n_bytes = self.number()?;
            let path = std::str::from_utf8(self.bytes(n_bytes)?).map_err(|_| UnpackError::Path)?;
            let end = start.checked_add(self.number()?).ok_or(UnpackError::Damaged)?;
            files.push((path.to_owned(), start..end));
            start = end;
        }
        Ok(files)
    }

    /// The files one after the other: literals and copies of what came before.
    fn contents(&mut self) -> Result<Vec<u8>, UnpackError> {
        let mut copies = Vec::new();
        for _ in 0..self.number()? {
            copies.push((self.number()?, self.number()?, self.number()?));
        }
        let mut contents = Vec::new();
        for (n_literal, n_copied, distance) in copies {
            contents.extend_from_slice(self.bytes(n_literal)?);
            let start = contents.len().checked_sub(distance).ok_or(UnpackError::Damaged)?;
            // A copy that overlaps itself repeats what lies within `distance`.
            let source = contents.get(start..).filter(|source| !source.is_empty());
            let source = source.ok_or(UnpackError::Damaged)?.iter().copied().cycle();
            let copied: Vec<u8> = source.take(n_copied).collect();
            contents.extend_from_slice(&copied);
        }
        contents.extend_from_slice(self.rest);
        Ok(contents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fixture_holds_every_case_whole() {
        let files = unpack(include_bytes!("../fixtures/node_cases.bin")).unwrap();
        let n_of = |end: &str| files.keys().filter(|path| path.ends_with(end)).count();
        assert_eq!((n_of("/model.ort"), n_of("/tol.txt")), (1512, 1512));
        let is_model = |bytes: &Bytes| bytes.get(4..8) == Some(b"ORTM");
        assert!(files.iter().filter(|(path, _)| path.ends_with(".ort")).all(|(_, b)| is_model(b)));
    }

    #[test]
    fn a_damaged_container_is_an_error() {
        let bytes = include_bytes!("../fixtures/node_cases.bin");
        assert!(matches!(unpack(&bytes[..1000]), Err(UnpackError::Inflate(_))));
        let other = miniz_oxide::deflate::compress_to_vec_zlib(b"something else", 1);
        assert_eq!(unpack(&other).unwrap_err(), UnpackError::Magic);
    }
}
