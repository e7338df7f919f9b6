//! Tensors of a file: slices of its bytes wherever their alignment allows.

// collects are bounded: as long as the file's lists

use ort_tensor::{DType, Tensor, TensorError, move_elements, n_elements};

use super::ImportLimits;
use super::error::ImportError;
use crate::parsed::{self, Contents, Text};

/// A dense tensor, or type and shape of one whose elements were left out.
pub(super) fn dense(tensor: parsed::Tensor<'_>) -> Result<Tensor, ImportError> {
    made(&tensor.name, (tensor.dtype, &tensor.shape), tensor.contents)
}

/// The same, from its parts.
pub(super) fn made(
    name: &str,
    (dtype, shape): (DType, &[usize]),
    contents: Contents<'_>,
) -> Result<Tensor, ImportError> {
    let made = match contents {
        Contents::Bytes(bytes) => Tensor::from_bytes(dtype, shape, bytes),
        Contents::Strings(strings) => {
            Tensor::from_strings(shape, strings.into_iter().map(Text::into_owned).collect())
        }
        Contents::Released => Tensor::released(dtype, shape),
        Contents::Given(tensor) => Ok(*tensor),
    };
    made.map_err(|error| tensor_error(name, error))
}

/// A sparse tensor, made dense. Its indices are linear, or one row of coordinates per element.
pub(super) fn sparse(
    tensor: parsed::SparseTensor<'_>,
    limits: ImportLimits,
) -> Result<Tensor, ImportError> {
    let parsed::SparseTensor { values: parsed::Tensor { name, dtype, shape, contents }, .. } =
        tensor;
    let values = made(&name, (dtype, &shape), contents)?;
    let indices = dense(tensor.indices)?;
    let (name, shape) = (&*name, &tensor.shape);
    let wrong = |what| ImportError::Sparse { name: name.to_owned(), what };
    let n = n_elements(shape).ok_or_else(|| wrong("too large"))?;
    if values.dtype().n_bytes(n).is_none_or(|bytes| bytes > limits.dense_bytes) {
        return Err(wrong("larger than the limit when dense"));
    }
    let places =
        places(&indices, shape, values.len()).ok_or_else(|| wrong("indices do not fit"))?;
    let tensor_error = |error| tensor_error(name, error);
    let mut dense = Tensor::zeros(values.dtype(), shape).map_err(tensor_error)?;
    move_elements!(values.view() => dense.view_mut(), |src, dst| {
        for (&place, value) in places.iter().zip(src) {
            dst[place].clone_from(value);
        }
    })
    .map_err(tensor_error)?;
    Ok(dense)
}

fn tensor_error(name: &str, error: TensorError) -> ImportError {
    ImportError::Tensor { name: name.to_owned(), error: Box::new(error) }
}

/// The linear index of each of `n` elements; `None` if indices do not fit.
fn places(indices: &Tensor, shape: &[usize], n: usize) -> Option<Vec<usize>> {
    let flat = indices.as_slice::<i64>().ok()?;
    let total = n_elements(shape)?;
    let linear = |row: &[i64]| {
        let mut place = 0_usize;
        for (&index, &dim) in row.iter().zip(shape) {
            let index = usize::try_from(index).ok().filter(|&index| index < dim)?;
            place = place * dim + index;
        }
        Some(place)
    };
    match indices.shape() {
        [rows] if *rows == n => {
            let index = |&index| usize::try_from(index).ok().filter(|&index| index < total);
            flat.iter().map(index).collect()
        }
        [rows, rank] if *rows == n && *rank == shape.len() => {
            if n == 0 {
                return Some(Vec::new());
            }
            flat.chunks_exact((*rank).max(1)).map(linear).collect()
        }
        _ => None,
    }
}
