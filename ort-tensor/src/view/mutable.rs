//! Borrowed tensors, to write.

use super::{Data, TensorView, check_len, range_at};
use crate::element::{Element, Word};
use crate::ending::go_on;
use crate::shape::n_elements;
use crate::text::{Text, refused};
use crate::{DType, Tensor, TensorError};

/// A borrowed tensor, to write.
#[derive(Debug)]
pub struct TensorViewMut<'a> {
    dtype: DType,
    shape: &'a [usize],
    data: DataMut<'a>,
}

#[derive(Debug)]
pub(crate) enum DataMut<'a> {
    Bytes(&'a mut [u8]),
    Strings(&'a mut [String]),
}

impl<'a> TensorViewMut<'a> {
    /// A view of numbers, to write.
    ///
    /// # Errors
    /// If the number of bytes is not the one of `dtype` and `shape`, or they are not aligned for it.
    pub fn from_bytes(
        dtype: DType,
        shape: &'a [usize],
        bytes: &'a mut [u8],
    ) -> Result<Self, TensorError> {
        check_len(dtype, shape, bytes.len())?;
        Ok(Self { dtype, shape, data: DataMut::Bytes(bytes) })
    }

    /// A view of a slice of elements, to write.
    ///
    /// # Errors
    /// If there are not `Π shape` elements.
    pub fn from_slice<T: Element>(
        shape: &'a [usize],
        data: &'a mut [T],
    ) -> Result<Self, TensorError> {
        Self::from_bytes(T::DTYPE, shape, bytemuck::cast_slice_mut(data))
    }

    pub(crate) const fn from_data(dtype: DType, shape: &'a [usize], data: DataMut<'a>) -> Self {
        Self { dtype, shape, data }
    }

    /// The element type.
    pub const fn dtype(&self) -> DType {
        self.dtype
    }

    /// The dimensions.
    pub const fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// The same tensor, to read.
    pub const fn view(&self) -> TensorView<'_> {
        let data = match &self.data {
            DataMut::Bytes(bytes) => Data::Bytes(bytes),
            DataMut::Strings(strings) => Data::Strings(strings),
        };
        TensorView::from_data(self.dtype, self.shape, data)
    }

    /// As [`TensorView::item`], to write.
    pub fn into_item(self, shape: &'a [usize], at: usize) -> Option<Self> {
        let n = n_elements(shape)?;
        let data = match self.data {
            DataMut::Bytes(bytes) => {
                let bits = n.checked_mul(self.dtype.bits())?;
                DataMut::Bytes(bytes.get_mut(range_at(bits / 8, at).filter(|_| bits % 8 == 0)?)?)
            }
            DataMut::Strings(strings) => DataMut::Strings(strings.get_mut(range_at(n, at)?)?),
        };
        Some(Self::from_data(self.dtype, shape, data))
    }

    /// The elements, to write.
    ///
    /// # Errors
    /// If they are not of type `T`.
    pub fn into_slice<T: Element>(self) -> Result<&'a mut [T], TensorError> {
        let wrong = TensorError::DType { expected: T::DTYPE, found: self.dtype };
        match self.data {
            DataMut::Bytes(bytes) if self.dtype == T::DTYPE => cast_mut(bytes).ok_or(wrong),
            _ => Err(wrong),
        }
    }

    /// The strings, to write.
    ///
    /// # Errors
    /// If the elements are not strings.
    pub fn into_strings(self) -> Result<&'a mut [String], TensorError> {
        match self.data {
            DataMut::Strings(strings) => Ok(strings),
            DataMut::Bytes(_) => {
                Err(TensorError::DType { expected: DType::String, found: self.dtype })
            }
        }
    }

    /// The elements as words of their width, regardless of their meaning, to write.
    ///
    /// # Errors
    /// If the elements are strings, packed, or of another width.
    pub fn into_words<W: Word>(self) -> Result<&'a mut [W], TensorError> {
        let wrong = TensorError::NoWords { found: self.dtype, n_bytes: size_of::<W>() };
        match self.data {
            DataMut::Bytes(bytes) if self.dtype.word_bytes() == Some(size_of::<W>()) => {
                cast_mut(bytes).ok_or(wrong)
            }
            _ => Err(wrong),
        }
    }

    /// The raw bytes; `None` for strings.
    pub fn into_bytes(self) -> Option<&'a mut [u8]> {
        match self.data {
            DataMut::Bytes(bytes) => Some(bytes),
            DataMut::Strings(_) => None,
        }
    }

    /// Writes the quantized values of a packed type, one a byte (see [`crate::pack`]).
    ///
    /// # Errors
    /// If the elements are not packed.
    pub fn pack(self, quantized: &[u8]) -> Result<(), TensorError> {
        match self.data {
            DataMut::Bytes(bytes) if self.dtype.is_packed() => {
                crate::pack(quantized, self.dtype.bits(), bytes);
                Ok(())
            }
            _ => Err(TensorError::NoWords { found: self.dtype, n_bytes: 1 }),
        }
    }

    /// Copies all of `source`, which has the same type and as many elements.
    ///
    /// # Errors
    /// If type or number of elements differ, there is no memory for a string, or the run was cancelled.
    pub fn copy_from(self, source: TensorView<'_>) -> Result<(), TensorError> {
        /// Bytes copied between two checks: within milliseconds.
        const COPIED: usize = 1 << 24;
        let (dtype, shape) = (self.dtype, self.shape);
        let wrong_len =
            |expected, found| TensorError::Length { dtype, shape: shape.to_vec(), expected, found };
        match (self.data, source.data()) {
            (DataMut::Bytes(to), Data::Bytes(from)) if dtype == source.dtype => {
                if to.len() != from.len() {
                    return Err(wrong_len(to.len(), from.len()));
                }
                for (to, from) in to.chunks_mut(COPIED).zip(from.chunks(COPIED)) {
                    go_on()?;
                    to.copy_from_slice(from);
                }
            }
            (DataMut::Strings(to), Data::Strings(from)) => {
                if to.len() != from.len() {
                    return Err(wrong_len(to.len(), from.len()));
                }
                let _ = refused();
                Text::of_mut(to).clone_from_slice(Text::of(from));
                refused()?;
            }
            _ => return Err(TensorError::DType { expected: dtype, found: source.dtype }),
        }
        Ok(())
    }
}

fn cast_mut<T: bytemuck::Pod>(bytes: &mut [u8]) -> Option<&mut [T]> {
    if bytes.is_empty() { Some(&mut []) } else { bytemuck::try_cast_slice_mut(bytes).ok() }
}

impl<'a> From<&'a mut Tensor> for TensorViewMut<'a> {
    fn from(tensor: &'a mut Tensor) -> Self {
        tensor.view_mut()
    }
}

impl TensorViewMut<'_> {
    pub(crate) fn data_mut(&mut self) -> DataMut<'_> {
        match &mut self.data {
            DataMut::Bytes(bytes) => DataMut::Bytes(bytes),
            DataMut::Strings(strings) => DataMut::Strings(strings),
        }
    }
}
