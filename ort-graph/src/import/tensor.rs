//! Tensors of a file: slices of its bytes wherever their alignment allows.

use bytes::Bytes;
use ort_tensor::{DType, Shape, Tensor, TensorError, move_elements, n_elements};

use super::ImportLimits;
use super::error::ImportError;

/// A dense tensor, or type and shape of one whose elements are not there.
pub(super) fn dense_or_withheld(
    tensor: ort_format::Tensor<'_>,
    bytes: &Bytes,
) -> Result<Tensor, ImportError> {
    if !tensor.is_withheld() {
        return dense(tensor, bytes);
    }
    let name = tensor.name();
    let withheld =
        Tensor::withheld(dtype(tensor.data_type(), name)?, &shape(tensor.dims().iter(), name)?);
    withheld.map_err(|error| ImportError::Tensor { name: name.to_owned(), error: Box::new(error) })
}

/// A dense tensor.
pub(super) fn dense(tensor: ort_format::Tensor<'_>, bytes: &Bytes) -> Result<Tensor, ImportError> {
    let name = || tensor.name().to_owned();
    let dtype = dtype(tensor.data_type(), tensor.name())?;
    let shape = shape(tensor.dims().iter(), tensor.name())?;
    let made = if dtype == DType::String {
        let strings = tensor.string_data().unwrap_or_default();
        Tensor::from_strings(&shape, strings.iter().map(str::to_owned).collect())
    } else {
        let raw = tensor.raw_data().unwrap_or_default();
        Tensor::from_bytes(dtype, &shape, bytes.slice_ref(raw))
    };
    made.map_err(|error| ImportError::Tensor { name: name(), error: Box::new(error) })
}

/// A sparse tensor, made dense. Its indices are linear, or one row of coordinates an element.
pub(super) fn sparse(
    tensor: ort_format::SparseTensor<'_>,
    bytes: &Bytes,
    limits: ImportLimits,
) -> Result<Tensor, ImportError> {
    let values = dense(tensor.values(), bytes)?;
    let indices = dense(tensor.indices(), bytes)?;
    let name = tensor.values().name();
    let wrong = |what| ImportError::Sparse { name: name.to_owned(), what };
    let shape = shape(tensor.dims().iter(), name)?;
    let n = n_elements(&shape).ok_or_else(|| wrong("too large"))?;
    if values.dtype().n_bytes(n).is_none_or(|bytes| bytes > limits.dense_bytes) {
        return Err(wrong("larger than the limit when dense"));
    }
    let places =
        places(&indices, &shape, values.len()).ok_or_else(|| wrong("indices do not fit"))?;
    let tensor_error =
        |error: TensorError| ImportError::Tensor { name: name.to_owned(), error: Box::new(error) };
    let mut dense = Tensor::zeros(values.dtype(), &shape).map_err(tensor_error)?;
    move_elements!(values.view() => dense.view_mut(), |src, dst| {
        for (&place, value) in places.iter().zip(src) {
            dst[place].clone_from(value);
        }
    })
    .map_err(tensor_error)?;
    Ok(dense)
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

pub(super) fn dtype(number: ort_format::DataType, name: &str) -> Result<DType, ImportError> {
    let number = i32::from(number);
    let unknown = || ImportError::UnknownDType { name: name.to_owned(), number };
    DType::from_onnx(number).ok_or_else(unknown)
}

fn shape(dims: impl Iterator<Item = i64>, name: &str) -> Result<Shape, ImportError> {
    let shape: Option<Shape> = dims.map(|dim| usize::try_from(dim).ok()).collect();
    shape.ok_or_else(|| ImportError::Tensor {
        name: name.to_owned(),
        error: Box::new(TensorError::TooLarge { shape: Vec::new() }),
    })
}
