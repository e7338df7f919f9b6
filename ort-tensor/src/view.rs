//! Borrowed tensors: an element type, a shape, and typed access to contiguous row-major data.

use crate::element::{Element, Word};
use crate::ending::go_on;
use crate::missing::Missing;
use crate::shape::n_elements;
use crate::text::{Text, refused};
use crate::{DType, Tensor, TensorError};

/// A borrowed tensor, to read. Copying it copies no data.
#[derive(Clone, Copy, Debug)]
pub struct TensorView<'a> {
    dtype: DType,
    shape: &'a [usize],
    data: Data<'a>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Data<'a> {
    Bytes(&'a [u8]),
    Strings(&'a [String]),
    Missing(Missing),
}

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

impl<'a> TensorView<'a> {
    /// A view of numbers.
    ///
    /// # Errors
    /// If the number of bytes is not the one of `dtype` and `shape`, or they are not aligned for it.
    pub fn from_bytes(
        dtype: DType,
        shape: &'a [usize],
        bytes: &'a [u8],
    ) -> Result<Self, TensorError> {
        check_len(dtype, shape, bytes.len())?;
        Ok(Self { dtype, shape, data: Data::Bytes(bytes) })
    }

    /// A view of a slice of elements.
    ///
    /// # Errors
    /// If there are not `Π shape` elements.
    pub fn from_slice<T: Element>(shape: &'a [usize], data: &'a [T]) -> Result<Self, TensorError> {
        Self::from_bytes(T::DTYPE, shape, bytemuck::cast_slice(data))
    }

    /// A view of strings.
    ///
    /// # Errors
    /// If there are not `Π shape` strings.
    pub fn from_strings(shape: &'a [usize], data: &'a [String]) -> Result<Self, TensorError> {
        check_len(DType::String, shape, data.len())?;
        Ok(Self { dtype: DType::String, shape, data: Data::Strings(data) })
    }

    pub(crate) const fn from_data(dtype: DType, shape: &'a [usize], data: Data<'a>) -> Self {
        Self { dtype, shape, data }
    }

    pub(crate) const fn data(&self) -> Data<'a> {
        self.data
    }

    /// The element type.
    pub const fn dtype(&self) -> DType {
        self.dtype
    }

    /// The dimensions.
    pub const fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        n_elements(self.shape).unwrap_or(usize::MAX)
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// The same data with another shape of as many elements.
    ///
    /// # Errors
    /// If the number of elements differs.
    pub fn reshaped(self, shape: &'a [usize]) -> Result<Self, TensorError> {
        match self.data {
            Data::Bytes(bytes) => Self::from_bytes(self.dtype, shape, bytes),
            Data::Strings(strings) => Self::from_strings(shape, strings),
            Data::Missing(_) if n_elements(shape) == Some(self.len()) => Ok(Self { shape, ..self }),
            Data::Missing(why) => Err(self.missing(why)),
        }
    }

    /// The `at`-th of the consecutive tensors of this shape that the elements form; `None` if
    /// there is none, or it does not start and end at a byte boundary.
    pub fn item(self, shape: &'a [usize], at: usize) -> Option<Self> {
        let n = n_elements(shape)?;
        let data = match self.data {
            Data::Bytes(bytes) => {
                let bits = n.checked_mul(self.dtype.bits())?;
                Data::Bytes(bytes.get(range_at(bits / 8, at).filter(|_| bits % 8 == 0)?)?)
            }
            Data::Strings(strings) => Data::Strings(strings.get(range_at(n, at)?)?),
            Data::Missing(_) => return None,
        };
        Some(Self { dtype: self.dtype, shape, data })
    }

    /// The elements.
    ///
    /// # Errors
    /// If they are not of type `T`, or were released.
    pub fn as_slice<T: Element>(&self) -> Result<&'a [T], TensorError> {
        let wrong = TensorError::DType { expected: T::DTYPE, found: self.dtype };
        match self.data {
            Data::Bytes(bytes) if self.dtype == T::DTYPE => cast(bytes).ok_or(wrong),
            Data::Missing(why) if self.dtype == T::DTYPE => Err(self.missing(why)),
            _ => Err(wrong),
        }
    }

    /// The strings.
    ///
    /// # Errors
    /// If the elements are not strings, or were released.
    pub fn as_strings(&self) -> Result<&'a [String], TensorError> {
        match self.data {
            Data::Strings(strings) => Ok(strings),
            Data::Missing(why) if self.dtype == DType::String => Err(self.missing(why)),
            _ => Err(TensorError::DType { expected: DType::String, found: self.dtype }),
        }
    }

    /// The elements as words of their width, regardless of their meaning.
    ///
    /// # Errors
    /// If the elements are strings, packed, of another width, or were released.
    pub fn as_words<W: Word>(&self) -> Result<&'a [W], TensorError> {
        let wrong = TensorError::NoWords { found: self.dtype, n_bytes: size_of::<W>() };
        match self.data {
            Data::Bytes(bytes) if self.dtype.word_bytes() == Some(size_of::<W>()) => {
                cast(bytes).ok_or(wrong)
            }
            Data::Missing(why) => Err(self.missing(why)),
            _ => Err(wrong),
        }
    }

    /// The raw bytes; `None` for strings and released tensors.
    pub const fn as_bytes(&self) -> Option<&'a [u8]> {
        match self.data {
            Data::Bytes(bytes) => Some(bytes),
            Data::Strings(_) | Data::Missing(_) => None,
        }
    }

    /// Whether the elements are missing (see [`crate::Tensor::released`]).
    pub const fn is_released(&self) -> bool {
        matches!(self.data, Data::Missing(Missing::Released))
    }

    /// The quantized values of a packed type, one a byte (see [`crate::unpack`]).
    ///
    /// # Errors
    /// If the elements are not packed, or were released.
    pub fn unpacked(&self) -> Result<Vec<u8>, TensorError> {
        match self.data {
            Data::Bytes(bytes) if self.dtype.is_packed() => {
                Ok(crate::unpack(bytes, self.dtype.bits(), self.len()))
            }
            Data::Missing(why) => Err(self.missing(why)),
            _ => Err(TensorError::NoWords { found: self.dtype, n_bytes: 1 }),
        }
    }
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
        TensorView { dtype: self.dtype, shape: self.shape, data }
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
        Some(Self { dtype: self.dtype, shape, data })
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
        match (self.data, source.data) {
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

/// The `at`-th range of `len`.
fn range_at(len: usize, at: usize) -> Option<std::ops::Range<usize>> {
    let start = len.checked_mul(at)?;
    Some(start..start.checked_add(len)?)
}

/// The bytes as elements; an empty slice has no alignment to keep.
fn cast<T: bytemuck::Pod>(bytes: &[u8]) -> Option<&[T]> {
    if bytes.is_empty() { Some(&[]) } else { bytemuck::try_cast_slice(bytes).ok() }
}

fn cast_mut<T: bytemuck::Pod>(bytes: &mut [u8]) -> Option<&mut [T]> {
    if bytes.is_empty() { Some(&mut []) } else { bytemuck::try_cast_slice_mut(bytes).ok() }
}

/// The bytes (or, for strings, the count) that a tensor of this type and shape takes.
///
/// # Errors
/// If the size overflows.
pub(crate) fn data_len(dtype: DType, shape: &[usize]) -> Result<usize, TensorError> {
    let too_large = || TensorError::TooLarge { shape: shape.to_vec() };
    let n = n_elements(shape).ok_or_else(too_large)?;
    if dtype == DType::String { Ok(n) } else { dtype.n_bytes(n).ok_or_else(too_large) }
}

fn check_len(dtype: DType, shape: &[usize], found: usize) -> Result<(), TensorError> {
    let expected = data_len(dtype, shape)?;
    if expected == found {
        return Ok(());
    }
    Err(TensorError::Length { dtype, shape: shape.to_vec(), expected, found })
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
