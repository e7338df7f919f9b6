//! NumPy's `.npy` files: a header, then the elements.
//!
//! | numpy | ONNX | |
//! |---|---|---|
//! | `?`, `i1` … `i8`, `u1` … `u8`, `f2`, `f4`, `f8`, `c8`, `c16` | bool, integers, floats, complex | read and written |
//! | `U`, `S` | string | read; written as `U`, without trailing NULs |
//! | objects, records, dates, big-endian numbers, `f16` and longer | – | an error |
//! | – | bfloat16, 8-bit floats, types below eight bits | an error |
//!
//! Data in Fortran order is converted to row-major order. Versions 1 to 3 are read;
//! version 1 is written, or 2 if the header is too long for it.
//!
//! Source: NumPy Enhancement Proposal 1 and the documentation of `numpy.lib.format`, numpy 2.

mod header;
mod text;

use bytes::Bytes;
use ort_tensor::{DType, Shape, Tensor, TensorError, move_elements};

use self::header::{Header, Item};

/// Bytes that are not a `.npy` file, or a tensor that cannot be written as one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NpyError {
    /// The first bytes are not `\x93NUMPY`.
    #[error("not a .npy file")]
    Magic,
    /// A version other than 1, 2 or 3.
    #[error("version {major} of the .npy format is not supported")]
    Version {
        /// The version in the file.
        major: u8,
    },
    /// The file ends within its header.
    #[error("the file ends within its header")]
    Truncated,
    /// The header is not the literal of a dict with `descr`, `fortran_order` and `shape`.
    #[error("the header is malformed at byte {at}")]
    Header {
        /// The position of the error.
        at: usize,
    },
    /// The elements have a type that ONNX tensors do not support.
    #[error("numpy type {descr:?} is not supported")]
    Descr {
        /// The `descr` of the file.
        descr: String,
    },
    /// Tensors of this type have no numpy type.
    #[error("numpy has no type for {dtype}")]
    DType {
        /// The element type of the tensor.
        dtype: DType,
    },
    /// A string is not Unicode.
    #[error("string {index} is not Unicode")]
    NotUnicode {
        /// Its position.
        index: usize,
    },
    /// Type, shape and data are inconsistent, or there is no memory for a copy.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

/// The tensor in `bytes`; it shares their data where order and alignment allow. Copies count against the allowance of the
/// thread (`ort_tensor::within`).
///
/// # Errors
/// If `bytes` are not a complete `.npy` file of a type in the table above, or there is no memory for a copy.
pub fn decode(bytes: &Bytes) -> Result<Tensor, NpyError> {
    let (header, data_at) = Header::read(bytes)?;
    let data = bytes.slice(data_at..);
    let mut shape = header.shape;
    if header.is_fortran {
        shape.reverse();
    }
    let tensor = match header.item {
        Item::Number(dtype) => Tensor::from_bytes(dtype, &shape, data)?,
        Item::Utf32 { n_chars } => {
            Tensor::from_strings(&shape, text::from_utf32(&data, n_chars, &shape)?)?
        }
        Item::Utf8 { n_bytes } => {
            Tensor::from_strings(&shape, text::from_utf8(&data, n_bytes, &shape)?)?
        }
    };
    if header.is_fortran { transposed(&tensor) } else { Ok(tensor) }
}

/// Encodes `tensor` as a file.
///
/// # Errors
/// If numpy has no such element type, or there is no memory.
pub fn encode(tensor: &Tensor) -> Result<Vec<u8>, NpyError> {
    let view = tensor.view();
    let dtype = view.dtype();
    if let Ok(strings) = view.as_strings() {
        let (n_chars, data) = text::to_utf32(strings)?;
        return Ok(header::write(&format!("<U{n_chars}"), view.shape(), &data)?);
    }
    let descr = header::descr(dtype).ok_or(NpyError::DType { dtype })?;
    Ok(header::write(descr, view.shape(), view.as_bytes().unwrap_or_default())?)
}

/// The tensor with the order of its dimensions reversed.
fn transposed(tensor: &Tensor) -> Result<Tensor, NpyError> {
    let shape: Shape = tensor.shape().iter().rev().copied().collect();
    let mut result = Tensor::zeros(tensor.dtype(), &shape)?;
    move_elements!(tensor.view() => result.view_mut(), |src, dst| transpose(src, dst, &shape))?;
    Ok(result)
}

/// `dst[i₀, i₁, …] = src[… i₁, i₀]` where `shape` is that of `dst`.
fn transpose<T: Clone>(src: &[T], dst: &mut [T], shape: &[usize]) {
    let stride = |i: usize| shape[..i].iter().product::<usize>();
    let strides: Shape = (0..shape.len()).map(stride).collect();
    let mut index = Shape::from_elem(0, shape.len());
    for to in dst {
        let from: usize = index.iter().zip(&strides).map(|(i, stride)| i * stride).sum();
        *to = src[from].clone();
        advance(&mut index, shape);
    }
}

/// The next index in row-major order; wraps around after the last one.
fn advance(index: &mut [usize], shape: &[usize]) {
    for (i, &dim) in index.iter_mut().zip(shape).rev() {
        *i += 1;
        if *i < dim {
            return;
        }
        *i = 0;
    }
}

#[cfg(test)]
mod tests;
