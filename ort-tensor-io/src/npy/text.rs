//! Strings in `.npy` files: all of the same length, padded with NULs, so trailing NULs are lost.

use std::slice::ChunksExact;

use ort_tensor::{DType, TensorError, n_elements, text_of, try_collected, with_room};

use super::NpyError;

const BYTES_PER_CHAR: usize = 4;

/// `Π shape` strings of `n_chars` little-endian code points each.
pub(super) fn from_utf32(
    data: &[u8],
    n_chars: usize,
    shape: &[usize],
) -> Result<Vec<String>, NpyError> {
    let n_bytes = n_chars.checked_mul(BYTES_PER_CHAR).ok_or_else(|| too_large(shape))?;
    let mut text = String::new();
    let string = |(index, item): (usize, &[u8])| {
        let (points, _) = item.as_chunks::<BYTES_PER_CHAR>();
        let end = points.iter().rposition(|&point| point != [0; BYTES_PER_CHAR]);
        let chars = points[..end.map_or(0, |end| end + 1)].iter();
        let chars = chars.map(|&point| char::from_u32(u32::from_le_bytes(point)));
        let len: Option<usize> = chars.clone().map(|c| c.map(char::len_utf8)).sum();
        let len = len.ok_or(NpyError::NotUnicode { index })?;
        text.clear();
        text.try_reserve(len).map_err(|_| TensorError::NoMemory { n_bytes: len, limit: None })?;
        text.extend(chars.flatten());
        Ok(text_of(&[&text])?)
    };
    try_collected(items(data, n_bytes, shape)?.enumerate().map(string))
}

/// `Π shape` strings of `n_bytes` bytes each.
pub(super) fn from_utf8(
    data: &[u8],
    n_bytes: usize,
    shape: &[usize],
) -> Result<Vec<String>, NpyError> {
    let string = |(index, item): (usize, &[u8])| {
        let text = std::str::from_utf8(item).map_err(|_| NpyError::NotUnicode { index })?;
        Ok(text_of(&[text.trim_end_matches('\0')])?)
    };
    try_collected(items(data, n_bytes, shape)?.enumerate().map(string))
}

/// The length of the longest string, at least 1, and all strings padded to it.
pub(super) fn to_utf32(strings: &[String]) -> Result<(usize, Vec<u8>), TensorError> {
    let n_chars = strings.iter().map(|string| string.chars().count()).max().unwrap_or(0).max(1);
    let n_bytes = strings.len().saturating_mul(n_chars).saturating_mul(BYTES_PER_CHAR);
    let mut data = with_room(n_bytes)?;
    for string in strings {
        let points = string.chars().map(u32::from).chain(std::iter::repeat(0)).take(n_chars);
        data.extend(points.flat_map(u32::to_le_bytes));
    }
    Ok((n_chars, data))
}

/// `data` in `Π shape` pieces of `n_bytes`, which is not zero.
fn items<'a>(
    data: &'a [u8],
    n_bytes: usize,
    shape: &[usize],
) -> Result<ChunksExact<'a, u8>, NpyError> {
    let n = n_elements(shape).ok_or_else(|| too_large(shape))?;
    let expected = n.checked_mul(n_bytes).ok_or_else(|| too_large(shape))?;
    if expected != data.len() {
        let (dtype, shape) = (DType::String, shape.into());
        let found = data.len().checked_div(n_bytes).unwrap_or(0);
        return Err(TensorError::Length { dtype, shape, expected: n, found }.into());
    }
    Ok(data.chunks_exact(n_bytes))
}

fn too_large(shape: &[usize]) -> NpyError {
    TensorError::TooLarge { shape: shape.into() }.into()
}
