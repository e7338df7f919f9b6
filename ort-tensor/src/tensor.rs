//! A tensor that owns its data, or shares it with the model's bytes and with its own clones.

mod deferred;

use std::fmt;
use std::sync::Arc;

use ::bytes::Bytes;

pub(crate) use self::deferred::Deferred;
use self::deferred::Source;
pub use self::deferred::materialize;
use crate::element::Element;
use crate::missing::Missing;
use crate::room::{Room, charge, check};
use crate::shape::{Shape, n_elements};
use crate::view::{Data, DataMut, TensorView, TensorViewMut, data_len};
use crate::{AlignedBuf, DType, Memory, TensorError};

/// A contiguous row-major tensor. Cloning it is cheap: clones share their data.
#[derive(Clone)]
pub struct Tensor {
    dtype: DType,
    shape: Shape,
    storage: Storage,
}

#[derive(Clone)]
enum Storage {
    /// Aligned memory owned by this tensor.
    Owned(Arc<AlignedBuf>),
    /// A slice of the model's bytes (or of another owner), aligned for the element type.
    Shared(Bytes),
    /// Elements that are copied or computed when they are first read.
    Deferred(Arc<Deferred>),
    Strings(Arc<Vec<String>>),
    /// No data; shared by clones.
    Released(Arc<()>),
}

impl Tensor {
    /// Zeros, empty strings or `false`.
    ///
    /// # Errors
    /// If the size overflows, or memory cannot be allocated.
    pub fn zeros(dtype: DType, shape: &[usize]) -> Result<Self, TensorError> {
        Self::zeros_of(dtype, shape, AlignedBuf::try_zeroed)
    }

    /// [`Tensor::zeros`] in memory that lasts as long as a session.
    ///
    /// # Errors
    /// As [`Tensor::zeros`].
    pub fn lasting_zeros(dtype: DType, shape: &[usize]) -> Result<Self, TensorError> {
        Self::zeros_of(dtype, shape, AlignedBuf::try_lasting)
    }

    /// A tensor in an existing buffer, with the buffer's content.
    ///
    /// # Errors
    /// If the buffer's size is not the one of `dtype` and `shape`, or the type is a string.
    pub fn in_buf(dtype: DType, shape: &[usize], buf: AlignedBuf) -> Result<Self, TensorError> {
        TensorView::from_bytes(dtype, shape, buf.as_ref())?;
        let storage = Storage::Owned(Arc::new(buf));
        Ok(Self { dtype, shape: Shape::from_slice(shape), storage })
    }

    /// A tensor in memory from `memory`, with any content; strings are empty.
    ///
    /// # Errors
    /// As [`Tensor::zeros`].
    pub fn in_memory(
        memory: &dyn Memory,
        dtype: DType,
        shape: &[usize],
    ) -> Result<Self, TensorError> {
        Self::zeros_of(dtype, shape, |n_bytes| memory.buf(n_bytes))
    }

    fn zeros_of(
        dtype: DType,
        shape: &[usize],
        buf: impl FnOnce(usize) -> Option<AlignedBuf>,
    ) -> Result<Self, TensorError> {
        let len = data_len(dtype, shape)?;
        let storage = match dtype {
            DType::String => {
                Storage::Strings(Arc::new(Room::filled(String::new(), len)?.into_vec()))
            }
            _ => {
                check(len)?;
                let no_memory = TensorError::NoMemory { n_bytes: len, limit: None };
                Storage::Owned(Arc::new(buf(len).ok_or(no_memory)?))
            }
        };
        Ok(Self { dtype, shape: Shape::from_slice(shape), storage })
    }

    /// A copy of `data`.
    ///
    /// # Errors
    /// If there are not `Π shape` elements, or there is no memory for them.
    pub fn from_slice<T: Element>(shape: &[usize], data: &[T]) -> Result<Self, TensorError> {
        TensorView::from_slice(shape, data)?.to_tensor()
    }

    /// A scalar, of rank 0.
    pub fn scalar<T: Element>(value: T) -> Self {
        let storage = Storage::Owned(Arc::new(AlignedBuf::copy_of(bytemuck::bytes_of(&value))));
        Self { dtype: T::DTYPE, shape: Shape::new(), storage }
    }

    /// A tensor of strings.
    ///
    /// # Errors
    /// If there are not `Π shape` strings.
    pub fn from_strings(shape: &[usize], data: Vec<String>) -> Result<Self, TensorError> {
        TensorView::from_strings(shape, &data)?;
        let storage = Storage::Strings(Arc::new(data));
        Ok(Self { dtype: DType::String, shape: Shape::from_slice(shape), storage })
    }

    /// A tensor over shared bytes, which are borrowed if they are aligned for the element type (see [`Tensor::is_shared`]).
    /// If they are not, they are copied once: when the elements are first read, or by [`materialize`].
    ///
    /// # Errors
    /// If the number of bytes is not the one of `dtype` and `shape`, the type is a string, or there is no
    /// memory for a copy.
    pub fn from_bytes(dtype: DType, shape: &[usize], bytes: Bytes) -> Result<Self, TensorError> {
        TensorView::from_bytes(dtype, shape, &bytes)?;
        if Self::may_borrow(dtype, &bytes) {
            let storage = Storage::Shared(bytes);
            return Ok(Self { dtype, shape: Shape::from_slice(shape), storage });
        }
        check(bytes.len())?;
        Ok(Self::of_source(dtype, shape, Source::Unaligned(bytes)))
    }

    /// Whether the bytes are aligned for elements of this type.
    pub fn may_borrow(dtype: DType, bytes: &[u8]) -> bool {
        let align = dtype.word_bytes().unwrap_or(1).min(align_of::<u128>());
        bytes.as_ptr().align_offset(align) == 0
    }

    /// Type and shape of a constant whose elements are no longer needed, because all its readers
    /// have packed copies. Reading the elements fails with [`TensorError::Released`].
    ///
    /// # Errors
    /// If the size overflows.
    pub fn released(dtype: DType, shape: &[usize]) -> Result<Self, TensorError> {
        data_len(dtype, shape)?;
        Ok(Self {
            dtype,
            shape: Shape::from_slice(shape),
            storage: Storage::Released(Arc::new(())),
        })
    }

    /// Whether the elements are missing (see [`Tensor::released`]).
    pub const fn is_released(&self) -> bool {
        matches!(self.storage, Storage::Released(_))
    }

    /// The element type.
    pub const fn dtype(&self) -> DType {
        self.dtype
    }

    /// The dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        n_elements(&self.shape).unwrap_or(0)
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Whether the data is a slice of shared bytes, not memory owned by this tensor.
    pub const fn is_shared(&self) -> bool {
        matches!(self.storage, Storage::Shared(_))
    }

    /// Whether the data is owned memory that no clone shares.
    pub(crate) fn is_alone(&mut self) -> bool {
        match &mut self.storage {
            Storage::Owned(buf) => Arc::get_mut(buf).is_some(),
            _ => false,
        }
    }

    /// The shared bytes, if the data is a slice of them.
    pub const fn shared_bytes(&self) -> Option<&Bytes> {
        match &self.storage {
            Storage::Shared(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The address of the elements: equal for clones, and unique among live non-empty tensors.
    pub fn address(&self) -> usize {
        match &self.storage {
            Storage::Owned(buf) => (**buf).as_ref().as_ptr().addr(),
            Storage::Shared(bytes) => bytes.as_ptr().addr(),
            Storage::Deferred(deferred) => deferred.address(),
            Storage::Strings(strings) => strings.as_ptr().addr(),
            Storage::Released(nothing) => Arc::as_ptr(nothing).addr(),
        }
    }

    /// The size of the elements in bytes: for strings the sum of their lengths, 0 if they were released.
    pub fn n_bytes(&self) -> usize {
        match &self.storage {
            Storage::Owned(buf) => buf.len(),
            Storage::Shared(bytes) => bytes.len(),
            Storage::Deferred(deferred) => deferred.n_bytes(),
            Storage::Strings(strings) => strings.iter().map(String::len).sum(),
            Storage::Released(_) => 0,
        }
    }

    /// The size of the memory in bytes, shared or not: for strings more than their lengths.
    pub fn held_bytes(&self) -> usize {
        match &self.storage {
            Storage::Strings(strings) => {
                let own = strings.capacity().saturating_mul(size_of::<String>());
                strings.iter().fold(own, |sum, text| sum.saturating_add(text.capacity()))
            }
            _ => self.n_bytes(),
        }
    }

    /// A view to read.
    pub fn view(&self) -> TensorView<'_> {
        let data = match &self.storage {
            Storage::Owned(buf) => Data::Bytes((**buf).as_ref()),
            Storage::Shared(bytes) => Data::Bytes(bytes),
            Storage::Deferred(deferred) => {
                return TensorView::from_deferred(self.dtype, &self.shape, deferred);
            }
            Storage::Strings(strings) => Data::Strings(strings),
            Storage::Released(_) => Data::Missing(Missing::Released),
        };
        TensorView::from_data(self.dtype, &self.shape, data)
    }

    /// A view to write; shared data is copied first.
    pub fn view_mut(&mut self) -> TensorViewMut<'_> {
        let copy = match &self.storage {
            Storage::Shared(bytes) => Some(AlignedBuf::copy_of(bytes)),
            Storage::Deferred(deferred) => Some(deferred.copy()),
            _ => None,
        };
        if let Some(copy) = copy {
            self.storage = Storage::Owned(Arc::new(copy));
        }
        if let Storage::Owned(buf) = &mut self.storage
            && Arc::get_mut(buf).is_none()
        {
            *buf = Arc::new(AlignedBuf::copy_of((**buf).as_ref()));
        }
        let data = match &mut self.storage {
            Storage::Owned(buf) => {
                DataMut::Bytes(Arc::get_mut(buf).map_or(&mut [], AlignedBuf::as_mut))
            }
            Storage::Shared(_) | Storage::Deferred(_) | Storage::Released(_) => {
                DataMut::Bytes(&mut [])
            }
            Storage::Strings(strings) => DataMut::Strings(Arc::make_mut(strings).as_mut_slice()),
        };
        TensorViewMut::from_data(self.dtype, &self.shape, data)
    }

    /// The tensor with `n` more entries along `axis`, with any content. If its memory is not shared
    /// and has room, nothing is allocated, and where the dimensions before `axis` are 1, nothing is moved;
    /// new memory has room for twice as many bytes as the old.
    ///
    /// # Errors
    /// If there is no such axis, the elements are strings or packed, the size overflows, or there is no
    /// memory for it.
    pub fn extended(
        mut self,
        axis: usize,
        n: usize,
        memory: &dyn Memory,
    ) -> Result<Self, TensorError> {
        let no_words = TensorError::NoWords { found: self.dtype, n_bytes: 1 };
        let width = self.dtype.word_bytes().filter(|_| axis < self.shape.len()).ok_or(no_words)?;
        let mut shape = self.shape.clone();
        let too_large = || TensorError::TooLarge { shape: self.shape.to_vec() };
        let row = |shape: &[usize]| n_elements(&shape[axis..]).and_then(|n| n.checked_mul(width));
        shape[axis] = shape[axis].checked_add(n).ok_or_else(too_large)?;
        let len = data_len(self.dtype, &shape)?;
        let rows = row(&self.shape).zip(row(&shape)).zip(n_elements(&shape[..axis]));
        let ((old_row, new_row), n_rows) = rows.ok_or_else(too_large)?;
        if let Storage::Owned(buf) = &mut self.storage
            && let Some(buf) = Arc::get_mut(buf)
            && buf.set_len(len)
        {
            let bytes = buf.as_mut();
            for i in (1..n_rows).rev() {
                bytes.copy_within(i * old_row..(i + 1) * old_row, i * new_row);
            }
            return Ok(Self { shape, ..self });
        }
        let view = self.unaligned_view();
        let old = view.as_bytes().ok_or_else(|| view.missing(Missing::Released))?;
        check(len)?;
        let room = len.max(old.len().saturating_mul(2));
        let roomy = if room > 0 && check(room).is_ok() { memory.buf(room) } else { None };
        let mut buf = roomy.or_else(|| memory.buf(len)).ok_or_else(too_large)?;
        let _has_room = buf.set_len(len);
        let rows =
            buf.as_mut().chunks_exact_mut(new_row.max(1)).zip(old.chunks_exact(old_row.max(1)));
        rows.for_each(|(to, from)| to[..old_row].copy_from_slice(from));
        Ok(Self { dtype: self.dtype, shape, storage: Storage::Owned(Arc::new(buf)) })
    }

    /// The elements.
    ///
    /// # Errors
    /// If they are not of type `T`.
    pub fn as_slice<T: Element>(&self) -> Result<&[T], TensorError> {
        self.view().as_slice()
    }

    /// The same data with another shape of as many elements; nothing is copied.
    ///
    /// # Errors
    /// If the number of elements differs.
    pub fn reshaped(&self, shape: &[usize]) -> Result<Self, TensorError> {
        self.view().reshaped(shape)?;
        Ok(Self { shape: Shape::from_slice(shape), ..self.clone() })
    }
}

impl TensorView<'_> {
    /// A tensor with a copy of this data.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn to_tensor(&self) -> Result<Tensor, TensorError> {
        let storage = match self.data() {
            Data::Bytes(bytes) => Storage::Owned(Arc::new(AlignedBuf::try_copy_of(bytes)?)),
            Data::Strings(strings) => {
                charge(strings.iter().map(String::len).sum())?;
                let copies = Room::of(strings.iter().cloned())?;
                Storage::Strings(Arc::new(copies.into_vec()))
            }
            Data::Missing(Missing::Released) => Storage::Released(Arc::new(())),
            Data::Missing(why) => return Err(self.missing(why)),
        };
        Ok(Tensor { dtype: self.dtype(), shape: Shape::from_slice(self.shape()), storage })
    }
}

/// Equal type, shape and bits (so NaN equals itself, and 0 does not equal −0). A released tensor equals
/// its clones.
impl PartialEq for Tensor {
    fn eq(&self, other: &Self) -> bool {
        if self.dtype != other.dtype || self.shape != other.shape {
            return false;
        }
        if self.address() == other.address() {
            return true;
        }
        let (a, b) = (self.unaligned_view(), other.unaligned_view());
        !self.is_released()
            && !other.is_released()
            && a.as_bytes() == b.as_bytes()
            && a.as_strings().ok() == b.as_strings().ok()
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.shape)
    }
}

#[cfg(test)]
mod tests;
