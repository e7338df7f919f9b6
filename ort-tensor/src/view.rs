//! Borrowed tensors: an element type, a shape, and typed access to contiguous row-major data.

mod mutable;

pub(crate) use self::mutable::DataMut;
pub use self::mutable::TensorViewMut;
use crate::element::{Element, Word};
use crate::missing::Missing;
use crate::shape::n_elements;
use crate::tensor::Deferred;
use crate::{DType, TensorError};

/// A borrowed tensor, to read. Copying it copies no data.
#[derive(Clone, Copy, Debug)]
pub struct TensorView<'a> {
    dtype: DType,
    shape: &'a [usize],
    source: Source<'a>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Data<'a> {
    Bytes(&'a [u8]),
    Strings(&'a [String]),
    Missing(Missing),
}

/// The data of a view.
#[derive(Clone, Copy, Debug)]
enum Source<'a> {
    Data(Data<'a>),
    /// Bytes that may have to be copied or computed first.
    Deferred(&'a Deferred),
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
        Ok(Self::from_data(dtype, shape, Data::Bytes(bytes)))
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
        Ok(Self::from_data(DType::String, shape, Data::Strings(data)))
    }

    pub(crate) const fn from_data(dtype: DType, shape: &'a [usize], data: Data<'a>) -> Self {
        Self { dtype, shape, source: Source::Data(data) }
    }

    pub(crate) const fn from_deferred(
        dtype: DType,
        shape: &'a [usize],
        deferred: &'a Deferred,
    ) -> Self {
        Self { dtype, shape, source: Source::Deferred(deferred) }
    }

    /// The data: deferred bytes are copied or computed.
    pub(crate) fn data(&self) -> Data<'a> {
        match self.source {
            Source::Data(data) => data,
            Source::Deferred(deferred) => match deferred.bytes() {
                Ok(bytes) => Data::Bytes(bytes),
                Err(limit) => Data::Missing(Missing::NoMemory { limit }),
            },
        }
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
        if n_elements(shape) == Some(self.len()) {
            return Ok(Self { shape, ..self });
        }
        let found = data_len(self.dtype, self.shape)?;
        check_len(self.dtype, shape, found).map(|()| Self { shape, ..self })
    }

    /// The `at`-th of the consecutive tensors of this shape that the elements form; `None` if
    /// there is none, or it does not start and end at a byte boundary.
    pub fn item(self, shape: &'a [usize], at: usize) -> Option<Self> {
        let n = n_elements(shape)?;
        let data = match self.data() {
            Data::Bytes(bytes) => {
                let bits = n.checked_mul(self.dtype.bits())?;
                Data::Bytes(bytes.get(range_at(bits / 8, at).filter(|_| bits % 8 == 0)?)?)
            }
            Data::Strings(strings) => Data::Strings(strings.get(range_at(n, at)?)?),
            Data::Missing(_) => return None,
        };
        Some(Self::from_data(self.dtype, shape, data))
    }

    /// The elements.
    ///
    /// # Errors
    /// If they are not of type `T`, or were released.
    pub fn as_slice<T: Element>(&self) -> Result<&'a [T], TensorError> {
        let wrong = TensorError::DType { expected: T::DTYPE, found: self.dtype };
        match self.data() {
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
        match self.data() {
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
        match self.data() {
            Data::Bytes(bytes) if self.dtype.word_bytes() == Some(size_of::<W>()) => {
                cast(bytes).ok_or(wrong)
            }
            Data::Missing(why) => Err(self.missing(why)),
            _ => Err(wrong),
        }
    }

    /// The raw bytes; `None` for strings and released tensors.
    pub fn as_bytes(&self) -> Option<&'a [u8]> {
        match self.data() {
            Data::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Whether the elements are missing (see [`crate::Tensor::released`]).
    pub const fn is_released(&self) -> bool {
        matches!(self.source, Source::Data(Data::Missing(Missing::Released)))
    }

    /// The quantized values of a packed type, one a byte (see [`crate::unpack`]).
    ///
    /// # Errors
    /// If the elements are not packed, or were released.
    pub fn unpacked(&self) -> Result<Vec<u8>, TensorError> {
        match self.data() {
            Data::Bytes(bytes) if self.dtype.is_packed() => {
                Ok(crate::unpack(bytes, self.dtype.bits(), self.len()))
            }
            Data::Missing(why) => Err(self.missing(why)),
            _ => Err(TensorError::NoWords { found: self.dtype, n_bytes: 1 }),
        }
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
