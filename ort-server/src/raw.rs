//! The raw form of tensors: elements in little-endian order, row-major; each element of BYTES follows its length, a
//! `u32`.

use bytes::{BufMut, Bytes, BytesMut};
use ort_session::{DType, Tensor};

use crate::failure::{Failure, in_input, in_output};

/// The bytes before each element of BYTES.
const LENGTH_BYTES: usize = 4;

/// The tensor of `shape` whose raw form is `bytes`: a slice of them where their alignment allows.
///
/// # Errors
/// If their number is not the one of the type and shape, or an element of BYTES is not UTF-8.
pub(crate) fn decode(
    name: &str,
    dtype: DType,
    shape: &[usize],
    bytes: Bytes,
) -> Result<Tensor, Failure> {
    if dtype == DType::String {
        let strings = strings(name, &bytes)?;
        return Tensor::from_strings(shape, strings).map_err(in_input(name));
    }
    Tensor::from_bytes(dtype, shape, bytes).map_err(in_input(name))
}

fn strings(name: &str, bytes: &[u8]) -> Result<Vec<String>, Failure> {
    let mut strings = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let split = rest.split_first_chunk::<LENGTH_BYTES>().and_then(|(length, rest)| {
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            rest.split_at_checked(length)
        });
        let Some((element, after)) = split else {
            let what =
                format!("element {} of BYTES exceeds the {} bytes", strings.len(), bytes.len());
            return Err(Failure::input(name, what));
        };
        strings.push(text(name, strings.len(), element)?);
        rest = after;
    }
    Ok(strings)
}

/// An element of BYTES: tensors have text.
pub(crate) fn text(name: &str, index: usize, element: &[u8]) -> Result<String, Failure> {
    match std::str::from_utf8(element) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => Err(Failure::input(name, format!("element {index} is not UTF-8: {error}"))),
    }
}

/// The raw form of a tensor, without a copy unless it has strings.
///
/// # Errors
/// If an element of BYTES has more than 4 GiB.
pub(crate) fn encode(name: &str, tensor: &Tensor) -> Result<Bytes, Failure> {
    if tensor.dtype() != DType::String {
        return Ok(Bytes::from_owner(Owner(tensor.clone())));
    }
    let view = tensor.view();
    let strings = view.as_strings().map_err(in_output(name))?;
    let n_bytes = strings.iter().map(|text| LENGTH_BYTES + text.len()).sum();
    let mut bytes = BytesMut::with_capacity(n_bytes);
    for text in strings {
        let length = u32::try_from(text.len());
        bytes.put_u32_le(length.map_err(|_| Failure::output(name, "an element exceeds 4 GiB"))?);
        bytes.put_slice(text.as_bytes());
    }
    Ok(bytes.freeze())
}

/// A tensor as the owner of its bytes.
struct Owner(Tensor);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        self.0.view().as_bytes().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_survive_the_raw_form() {
        let numbers = Tensor::from_slice(&[2, 2], &[1_i64, -2, 3, i64::MIN]).unwrap();
        let texts = ["", "é", "a\0b"].map(str::to_owned);
        let texts = Tensor::from_strings(&[3], texts.to_vec()).unwrap();
        for tensor in [numbers, texts] {
            let bytes = encode("y", &tensor).unwrap();
            let again = decode("x", tensor.dtype(), tensor.shape(), bytes).unwrap();
            assert_eq!(format!("{again:?}"), format!("{tensor:?}"));
        }
    }

    #[test]
    fn damaged_bytes_name_the_input() {
        for (dtype, bytes, expected) in [
            (
                DType::String,
                &b"\x02\0\0\0a"[..],
                "input `x`: element 0 of BYTES exceeds the 5 bytes",
            ),
            (DType::String, b"\x01\0\0", "input `x`: element 0 of BYTES exceeds the 3 bytes"),
            (DType::String, b"\0\0\0\0\x01\0\0\0\xff", "input `x`: element 1 is not UTF-8"),
            (DType::String, b"\xff\xff\xff\xff", "input `x`: element 0 of BYTES exceeds"),
            (DType::F32, b"\0\0\0", "input `x`: "),
        ] {
            let failure = decode("x", dtype, &[1], Bytes::from_static(bytes)).unwrap_err();
            assert!(failure.to_string().starts_with(expected), "{failure}");
        }
    }
}
