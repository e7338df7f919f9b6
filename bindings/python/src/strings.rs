//! String arrays: Python strings are copied in and out.
//!
//! Memory of numpy is read directly where no code of Python can run meanwhile. Most equal texts of an output become
//! one object, since labels and categories repeat.

use numpy::{
    PyArray1, PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyUntypedArray,
    PyUntypedArrayMethods,
};
use ort_session::{Tensor, TensorView};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::array::bytes_of;
use crate::errors::invalid_argument;

/// A tensor from an array of strings, of UTF-8 bytes, or of objects that convert to strings.
pub(crate) fn tensor_of(array: &Bound<'_, PyUntypedArray>) -> PyResult<Tensor> {
    let found = match array.dtype().kind() {
        b'O' => of_objects(array)?,
        _ => of_fixed_width(array),
    };
    let texts = match found {
        Some(texts) => texts,
        None => {
            let flat = array.call_method1("astype", ("object",))?.call_method0("ravel")?;
            let items = flat.call_method0("tolist")?;
            items.try_iter()?.map(|item| text_of(&item?)).collect::<PyResult<_>>()?
        }
    };
    Tensor::from_strings(array.shape(), texts).map_err(invalid_argument)
}

/// The texts of an array of objects; `None` if it is not contiguous, or has other objects than strings and bytes.
fn of_objects(array: &Bound<'_, PyUntypedArray>) -> PyResult<Option<Vec<String>>> {
    if !bytes_of(array).is_some_and(are_objects) {
        return Ok(None);
    }
    let Ok(objects) = array.cast::<PyArrayDyn<Py<PyAny>>>() else { return Ok(None) };
    let Ok(objects) = objects.try_readonly() else { return Ok(None) };
    let Ok(objects) = objects.as_slice() else { return Ok(None) };
    let mut texts = Vec::with_capacity(objects.len());
    for object in objects {
        match known_text(object.bind(array.py()))? {
            Some(text) => texts.push(text),
            None => return Ok(None),
        }
    }
    Ok(Some(texts))
}

/// Whether none of the pointers is null, which stands for `None` in arrays of extensions.
fn are_objects(pointers: &[u8]) -> bool {
    let (pointers, _) = pointers.as_chunks::<{ size_of::<usize>() }>();
    pointers.iter().all(|&pointer| usize::from_ne_bytes(pointer) != 0)
}

/// The elements of an array of texts or bytes with a fixed width, without their padding; `None` if it is of another
/// type, not contiguous, in the other byte order, or if an element is no valid text.
fn of_fixed_width(array: &Bound<'_, PyUntypedArray>) -> Option<Vec<String>> {
    let descr = array.dtype();
    let text = match descr.kind() {
        b'U' if descr.is_native_byteorder() == Some(true) => text_of_points,
        b'S' => text_of_bytes,
        _ => return None,
    };
    let width = Some(descr.itemsize()).filter(|&width| width > 0)?;
    bytes_of(array)?.chunks_exact(width).map(text).collect()
}

/// The text of Unicode code points, up to the last that is not zero.
fn text_of_points(bytes: &[u8]) -> Option<String> {
    let (points, _) = bytes.as_chunks::<{ size_of::<u32>() }>();
    let points = points.iter().map(|&point| u32::from_ne_bytes(point));
    let len = points.clone().rposition(|point| point != 0).map_or(0, |last| last + 1);
    let mut text = String::with_capacity(len);
    for point in points.take(len) {
        text.push(char::from_u32(point)?);
    }
    Some(text)
}

/// The text of bytes of UTF-8, up to the last that is not zero.
fn text_of_bytes(bytes: &[u8]) -> Option<String> {
    let len = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    std::str::from_utf8(&bytes[..len]).ok().map(str::to_owned)
}

/// The text of a string or of bytes; `None` for other objects. Runs no code of Python.
fn known_text(item: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if let Ok(text) = item.cast::<PyString>() {
        return text.to_str().map(|text| Some(text.to_owned()));
    }
    let Ok(bytes) = item.cast::<PyBytes>() else { return Ok(None) };
    let text = std::str::from_utf8(bytes.as_bytes()).map_err(invalid_argument)?;
    Ok(Some(text.to_owned()))
}

fn text_of(item: &Bound<'_, PyAny>) -> PyResult<String> {
    match known_text(item)? {
        Some(text) => Ok(text),
        None => item.str()?.extract(),
    }
}

/// An array of objects, each a string.
pub(crate) fn array_of<'py>(py: Python<'py>, view: TensorView<'_>) -> PyResult<Bound<'py, PyAny>> {
    let array =
        PyArray1::from_vec(py, objects_of(py, view.as_strings().map_err(invalid_argument)?));
    match view.shape() {
        [_] => Ok(array.into_any()),
        shape => Ok(array.reshape(shape)?.into_any()),
    }
}

/// Of so many bits are the hashes of texts.
const HASH_BITS: u32 = 10;

/// A Python string for each text, the same for most equal ones.
fn objects_of(py: Python<'_>, texts: &[String]) -> Vec<Py<PyAny>> {
    /// From this many texts on, it is worth looking for equal ones.
    const MANY: usize = 16;
    let n_slots = if texts.len() < MANY { 1 } else { texts.len().min(1 << HASH_BITS) };
    // The index of a text of each hash, or that after the last.
    let mut slots = vec![texts.len(); n_slots.next_power_of_two()];
    let mut objects = Vec::with_capacity(texts.len());
    for (at, text) in texts.iter().enumerate() {
        let slot = hash(text) & (slots.len() - 1);
        let earlier = texts.get(slots[slot]).filter(|earlier| *earlier == text);
        let object: Py<PyAny> = match earlier.and_then(|_| objects.get(slots[slot])) {
            Some(object) => Py::clone_ref(object, py),
            None => PyString::new(py, text).into_any().unbind(),
        };
        objects.push(object);
        slots[slot] = at;
    }
    objects
}

/// A hash below `1 << HASH_BITS`, of the length and of the bytes at both ends.
fn hash(text: &str) -> usize {
    const WORD: usize = size_of::<u64>();
    /// The golden ratio: products of it spread consecutive numbers over their upper bits.
    const RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
    let bytes = text.as_bytes();
    let ends = match (bytes.first_chunk::<WORD>(), bytes.last_chunk::<WORD>()) {
        (Some(first), Some(last)) => {
            u64::from_le_bytes(*first) ^ u64::from_le_bytes(*last).rotate_left(29)
        }
        _ => bytes.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    let product = (ends ^ bytes.len() as u64).wrapping_mul(RATIO);
    usize::try_from(product >> (u64::BITS - HASH_BITS)).unwrap_or(0)
}
