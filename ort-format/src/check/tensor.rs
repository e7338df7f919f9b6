//! Constants and parameters: the data has the size of the shape, and sparse indices are in range.

use ort_tensor::{Pace, TensorError};

use super::path::Path;
use super::{Checker, each};
use crate::enums::DataType;
use crate::error::{Fault, FormatError};
use crate::view::{Parameter, SparseTensor, Tensor};
use crate::wire::Vector;

impl Checker<'_> {
    pub(super) fn tensor(&self, tensor: Tensor<'_>, path: &Path<'_>) -> Result<(), FormatError> {
        if tensor.data_type() == DataType::String {
            let strings = tensor.string_data().unwrap_or_default();
            each(path, "string_data", strings)?;
            let expected = count(tensor.dims()).or_else(|fault| path.fail(fault))?;
            let found = length(strings.len());
            if found != expected {
                return path.fail(Fault::StringCount { expected, found });
            }
            return Ok(());
        }
        let expected = data_length(tensor.dims(), tensor.data_type());
        let expected = expected.or_else(|fault| path.fail(fault))?;
        match (tensor.raw_data(), tensor.external_data_offset()) {
            (Some(data), _) if length(data.len()) == expected => Ok(()),
            (Some(data), _) => path.fail(Fault::DataLength { expected, found: length(data.len()) }),
            (None, _) if tensor.is_released() => Ok(()),
            (None, Some(offset)) if offset >= 0 => path.fail(Fault::ExternalData { offset }),
            (None, _) => path.fail(Fault::Missing { field: "raw_data" }),
        }
    }

    pub(super) fn sparse_tensor(
        &self,
        sparse: SparseTensor<'_>,
        path: &Path<'_>,
    ) -> Result<(), FormatError> {
        let (values, indices) = (sparse.values(), sparse.indices());
        self.tensor(values, &path.field("values"))?;
        self.tensor(indices, &path.field("indices"))?;
        if indices.data_type() != DataType::Int64 {
            return path.field("indices").fail(Fault::DataType(indices.data_type()));
        }
        let size = count(sparse.dims()).or_else(|fault| path.fail(fault))?;
        let size = i64::try_from(size).or_else(|_| path.fail(Fault::Overflow))?;

        let rank = sparse.dims().len();
        let shape: Vec<i64> = indices.dims().iter().take(4).collect();
        let nnz: Vec<i64> = values.dims().iter().take(4).collect();
        let outside = match (&*shape, &*nnz) {
            ([n], [nnz]) if n == nnz => outside(indices, |_| size),
            ([n, width], [nnz]) if n == nnz && usize::try_from(*width) == Ok(rank) => {
                outside(indices, |axis| sparse.dims().get(axis % rank.max(1)).unwrap_or(0))
            }
            _ => return path.fail(Fault::SparseShape { indices: shape, values: nnz, rank }),
        };
        match outside? {
            Some((index, size)) => path.fail(Fault::SparseIndex { index, size }),
            None => Ok(()),
        }
    }
}

pub(super) fn parameter(parameter: Parameter<'_>, path: &Path<'_>) -> Result<(), FormatError> {
    let expected = data_length(parameter.dims(), parameter.data_type());
    let expected = expected.or_else(|fault| path.fail(fault))?;
    match parameter.raw_data().map(|data| length(data.len())) {
        Some(found) if found == expected => Ok(()),
        Some(found) => path.fail(Fault::DataLength { expected, found }),
        None => path.fail(Fault::Missing { field: "raw_data" }),
    }
}

/// The number of bytes of the elements, which are not strings.
fn data_length(dims: Vector<'_, i64>, data_type: DataType) -> Result<u64, Fault> {
    let bits = data_type.bits().ok_or(Fault::DataType(data_type))?;
    let n_bits = count(dims)?.checked_mul(bits).ok_or(Fault::Overflow)?;
    Ok(n_bits.div_ceil(8))
}

/// The first index that is not below its size.
fn outside(
    indices: Tensor<'_>,
    size: impl Fn(usize) -> i64,
) -> Result<Option<(i64, i64)>, TensorError> {
    let (indices, _) = indices.raw_data().unwrap_or_default().as_chunks();
    let mut pace = Pace::new();
    for (position, index) in indices.iter().copied().map(i64::from_le_bytes).enumerate() {
        pace.go(1)?;
        let size = size(position);
        if !(0..size).contains(&index) {
            return Ok(Some((index, size)));
        }
    }
    Ok(None)
}

/// The number of elements of a shape.
fn count(dims: Vector<'_, i64>) -> Result<u64, Fault> {
    let mut count = Some(1_u64);
    for (index, value) in dims.iter().enumerate() {
        let Ok(size) = u64::try_from(value) else {
            return Err(Fault::NegativeDimension { index, value });
        };
        // A zero after an overflow makes the shape empty, but it is still invalid.
        count = count.and_then(|count| count.checked_mul(size));
    }
    count.ok_or(Fault::Overflow)
}

fn length(elements: usize) -> u64 {
    u64::try_from(elements).unwrap_or(u64::MAX)
}
