//! Strings in `.npy` files: all of the same length, padded with NULs, so trailing NULs are lost.

use ort_tensor::{DType, TensorError, n_elements};

use super::NpyError;

const BYTES_PER_CHAR: usize = 4;

/// `Π shape` strings of `n_chars` little-endian code points each.
pub(super) fn from_utf32(
    data: &[u8],
    n_chars: usize,
    shape: &[usize],
) -> Result<Vec<String>, NpyError> {
    let n_bytes = n_chars.checked_mul(BYTES_PER_CHAR).ok_or_else(|| too_large(shape))?;
    let string = |(index, item): (usize, &[u8])| {
        let (points, _) = item.as_chunks::<BYTES_PER_CHAR>();
        let chars = points.iter().map(|&point| char::from_u32(u32::from_le_bytes(point)));
        let string: Option<String> = chars.collect();
        string.map(without_padding).ok_or(NpyError::NotUnicode { index })
    };
    items(data, n_bytes, shape)?.into_iter().enumerate().map(string).collect()
}

/// `Π shape` strings of `n_bytes` bytes each.
pub(super) fn from_utf8(
    data: &[u8],
    n_bytes: usize,
    shape: &[usize],
) -> Result<Vec<String>, NpyError> {
    let string = |(index, item): (usize, &[u8])| {
        let string = String::from_utf8(item.to_vec());
        string.map(without_padding).map_err(|_| NpyError::NotUnicode { index })
    };
    items(data, n_bytes, shape)?.into_iter().enumerate().map(string).collect()
}

/// The length of the longest string, at least 1, and all strings padded to it.
pub(super) fn to_utf32(strings: &[String]) -> (usize, Vec<u8>) {
    let n_chars = strings.iter().map(|string| string.chars().count()).max().unwrap_or(0).max(1);
    let padded = |string: &String| {
        let points = string.chars().map(u32::from).chain(std::iter::repeat(0)).take(n_chars);
        points.flat_map(u32::to_le_bytes).collect::<Vec<u8>>()
    };
    (n_chars, strings.iter().flat_map(padded).collect())
}

/// `data` in `Π shape` pieces of `n_bytes`, which is not zero.
fn items<'a>(data: &'a [u8], n_bytes: usize, shape: &[usize]) -> Result<Vec<&'a [u8]>, NpyError> {
    let n = n_elements(shape).ok_or_else(|| too_large(shape))?;
    let expected = n.checked_mul(n_bytes).ok_or_else(|| too_large(shape))?;
    if expected != data.len() {
        let (dtype, shape) = (DType::String, shape.into());
        let found = data.len().checked_div(n_bytes).unwrap_or(0);
        return Err(TensorError::Length { dtype, shape, expected: n, found }.into());
    }
    Ok(data.chunks_exact(n_bytes).collect())
}

fn without_padding(mut string: String) -> String {
    string.truncate(string.trim_end_matches('\0').len());
    string
}

fn too_large(shape: &[usize]) -> NpyError {
    TensorError::TooLarge { shape: shape.into() }.into()
}
