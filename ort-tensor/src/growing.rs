//! A tensor that grows in place along one axis: each of its rows has room behind it.
//!
//! ```text
//! [2, len, 3], room for `capacity` entries along axis 1:
//! row 0: │ entry 0 │ entry 1 │ … │ len − 1 │ free … │
//! row 1: │ entry 0 │ entry 1 │ … │ len − 1 │ free … │
//! ```

use crate::missing::Missing;
use crate::shape::{Shape, n_elements};
use crate::view::Data;
use crate::{DType, Tensor, TensorError, TensorView, TensorViewMut};

/// Rows grow by whole pages.
const PAGE: usize = 4 << 10;

/// A tensor with room behind each row of an axis. While there is room, extending it writes only new
/// entries and moves none; room grows by half. Clones share their memory until one of them is extended.
#[derive(Clone, Debug)]
pub struct GrowingTensor {
    /// Its size along the axis is the capacity.
    tensor: Tensor,
    shape: Shape,
    axis: usize,
    n_moved: usize,
}

impl GrowingTensor {
    /// Zeros of this shape, without room.
    ///
    /// # Errors
    /// If there is no such axis, the elements are strings or smaller than a byte, the size overflows, or there
    /// is no memory for it.
    pub fn zeros(dtype: DType, shape: &[usize], axis: usize) -> Result<Self, TensorError> {
        Self::new(Tensor::zeros(dtype, shape)?, axis)
    }

    /// A tensor that may grow along `axis`. Nothing is copied.
    ///
    /// # Errors
    /// If there is no such axis, or the elements are strings or smaller than a byte.
    pub fn new(tensor: Tensor, axis: usize) -> Result<Self, TensorError> {
        let no_words = TensorError::NoWords { found: tensor.dtype(), n_bytes: 1 };
        tensor.dtype().word_bytes().filter(|_| axis < tensor.shape().len()).ok_or(no_words)?;
        let shape = Shape::from_slice(tensor.shape());
        Ok(Self { tensor, shape, axis, n_moved: 0 })
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.tensor.dtype()
    }

    /// The dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The axis along which it grows.
    pub const fn axis(&self) -> usize {
        self.axis
    }

    /// The number of entries along the axis.
    pub fn axis_len(&self) -> usize {
        self.shape[self.axis]
    }

    /// The size of the memory in bytes, including room.
    pub fn n_bytes(&self) -> usize {
        self.tensor.n_bytes()
    }

    /// The number of bytes copied so far to make room, or because a clone shared them.
    pub const fn n_moved(&self) -> usize {
        self.n_moved
    }

    /// The tensor with its room: longer along the axis, with any content beyond its length.
    pub fn with_room(&self) -> TensorView<'_> {
        self.tensor.view()
    }

    /// Type and shape of the tensor without its room.
    pub fn without_elements(&self) -> TensorView<'_> {
        TensorView::without_elements(self.dtype(), &self.shape)
    }

    /// Extends the tensor to this shape, which differs along the axis only and is no shorter, and returns
    /// the memory as in [`GrowingTensor::with_room`], to write. Entries beyond the old length have any content.
    ///
    /// # Errors
    /// If shape or type differ otherwise, the size overflows, or there is no memory for it.
    pub fn extend(
        &mut self,
        dtype: DType,
        shape: &[usize],
    ) -> Result<TensorViewMut<'_>, TensorError> {
        let len = shape.get(self.axis).copied().unwrap_or(0);
        let mut expected = self.shape.clone();
        expected[self.axis] = expected[self.axis].max(len);
        if dtype != self.dtype() || expected.as_slice() != shape {
            return Err(TensorError::Planned {
                planned_dtype: self.dtype(),
                planned: expected.to_vec(),
                dtype,
                shape: shape.to_vec(),
            });
        }
        let capacity = self.tensor.shape()[self.axis];
        let wanted = if len > capacity { self.grown(len) } else { capacity };
        self.own(wanted)?;
        self.shape[self.axis] = len;
        Ok(self.tensor.view_mut())
    }

    /// The same with its content replaced by another tensor, all of which counts as moved.
    ///
    /// # Errors
    /// If it cannot grow along the axis.
    pub(crate) fn replaced(&self, tensor: Tensor) -> Result<Self, TensorError> {
        let n_moved = self.n_moved.saturating_add(tensor.n_bytes());
        Ok(Self { n_moved, ..Self::new(tensor, self.axis)? })
    }

    /// Makes room for `len` entries along the axis.
    ///
    /// # Errors
    /// If the size overflows, or there is no memory for it.
    pub fn reserve(&mut self, len: usize) -> Result<(), TensorError> {
        if len <= self.tensor.shape()[self.axis] {
            return Ok(());
        }
        self.own(self.rounded(len))
    }

    /// Drops entries beyond the first `len` along the axis; their memory remains as room.
    pub fn truncate(&mut self, len: usize) {
        self.shape[self.axis] = self.axis_len().min(len);
    }

    /// A tensor without room; copies unless there is none.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn to_tensor(&self) -> Result<Tensor, TensorError> {
        if self.axis_len() == self.tensor.shape()[self.axis] {
            return Ok(self.tensor.clone());
        }
        self.copied(self.axis_len())
    }

    /// The bytes of one entry of a row.
    fn entry_bytes(&self) -> usize {
        let width = self.dtype().word_bytes().unwrap_or(1);
        n_elements(&self.tensor.shape()[self.axis + 1..]).unwrap_or(0).saturating_mul(width)
    }

    /// `len`, rounded up to fill the pages of a row.
    fn rounded(&self, len: usize) -> usize {
        len.checked_next_multiple_of((PAGE / self.entry_bytes().max(1)).max(1)).unwrap_or(len)
    }

    fn grown(&self, len: usize) -> usize {
        self.rounded(len.max(self.axis_len().saturating_add(self.axis_len() / 2)))
    }

    /// Ensures unshared memory with room for `capacity` entries.
    fn own(&mut self, capacity: usize) -> Result<(), TensorError> {
        if self.tensor.is_alone() && self.tensor.shape()[self.axis] == capacity {
            return Ok(());
        }
        let tensor = self.copied(capacity)?;
        let width = self.dtype().word_bytes().unwrap_or(1);
        let n_bytes = n_elements(&self.shape).unwrap_or(0).saturating_mul(width);
        self.n_moved = self.n_moved.saturating_add(n_bytes);
        self.tensor = tensor;
        Ok(())
    }

    /// A copy with room for `capacity` entries, no fewer than there are.
    fn copied(&self, capacity: usize) -> Result<Tensor, TensorError> {
        let mut shape = self.shape.clone();
        shape[self.axis] = capacity;
        let mut tensor = Tensor::zeros(self.dtype(), &shape)?;
        let row = |len: usize| len.saturating_mul(self.entry_bytes()).max(1);
        let (from, to) = (row(self.tensor.shape()[self.axis]), row(capacity));
        let n_bytes = self.axis_len().saturating_mul(self.entry_bytes());
        if let (Data::Bytes(old), Ok(new)) = (self.tensor.view().data(), bytes(&mut tensor)) {
            let rows = new.chunks_exact_mut(to).zip(old.chunks_exact(from));
            rows.for_each(|(to, from)| to[..n_bytes].copy_from_slice(&from[..n_bytes]));
        }
        Ok(tensor)
    }
}

fn bytes(tensor: &mut Tensor) -> Result<&mut [u8], TensorError> {
    let found = tensor.dtype();
    tensor.view_mut().into_bytes().ok_or(TensorError::NoWords { found, n_bytes: 1 })
}

impl<'a> TensorView<'a> {
    /// Type and shape of a tensor whose elements the reader gets in another way, or not at all.
    pub const fn without_elements(dtype: DType, shape: &'a [usize]) -> Self {
        Self::from_data(dtype, shape, Data::Missing(Missing::Released))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `[2, len, 3]` numbers that encode row, entry and element.
    fn numbers(len: usize) -> Tensor {
        let number = |i: usize| (i / (3 * len.max(1)) * 1000 + i % (3 * len.max(1))) as f32;
        let numbers: Vec<f32> = (0..2 * len * 3).map(number).collect();
        Tensor::from_slice(&[2, len, 3], &numbers).unwrap()
    }

    /// Extends it to `len` entries with the values of [`numbers`].
    fn extend(growing: &mut GrowingTensor, len: usize) {
        let before = growing.axis_len();
        let view = growing.extend(DType::F32, &[2, len, 3]).unwrap();
        let room = view.shape()[1] * 3;
        let elements = view.into_slice::<f32>().unwrap();
        let (whole, new) = (numbers(len), before * 3..len * 3);
        for row in 0..2 {
            let from = &whole.as_slice::<f32>().unwrap()[row * len * 3..][new.clone()];
            elements[row * room..][new.clone()].copy_from_slice(from);
        }
    }

    #[test]
    fn entries_are_appended_and_room_grows_by_half() {
        let mut growing = GrowingTensor::zeros(DType::F32, &[2, 0, 3], 1).unwrap();
        let mut addresses = Vec::new();
        for len in 1..=2000 {
            extend(&mut growing, len);
            addresses.push(growing.with_room().as_bytes().unwrap().as_ptr().addr());
        }
        assert_eq!(growing.to_tensor().unwrap(), numbers(2000));
        addresses.dedup();
        assert!(addresses.len() <= 6, "moved {} times", addresses.len());
        assert!(growing.n_moved() <= 2 * 2000 * 3 * 4 * 3);
        assert!(growing.n_bytes() <= 2 * 3001 * 3 * 4);
    }

    #[test]
    fn nothing_moves_where_room_was_reserved() {
        let mut growing = GrowingTensor::new(numbers(4), 1).unwrap();
        growing.reserve(100).unwrap();
        let (n_moved, address) = (growing.n_moved(), growing.tensor.address());
        (5..=100).for_each(|len| extend(&mut growing, len));
        assert_eq!((growing.n_moved(), growing.tensor.address()), (n_moved, address));
        assert_eq!(growing.to_tensor().unwrap(), numbers(100));
    }

    #[test]
    fn clones_are_separate_once_one_is_extended() {
        let mut one = GrowingTensor::new(numbers(4), 1).unwrap();
        extend(&mut one, 6);
        let mut other = one.clone();
        assert_eq!(one.tensor.address(), other.tensor.address());
        other.truncate(5);
        other.extend(DType::F32, &[2, 6, 3]).unwrap().into_slice::<f32>().unwrap()[5 * 3] = -1.0;
        extend(&mut one, 7);
        assert_eq!(one.to_tensor().unwrap(), numbers(7));
        assert_eq!(other.to_tensor().unwrap().as_slice::<f32>().unwrap()[5 * 3], -1.0);
    }

    #[test]
    fn truncation_drops_entries_and_keeps_room() {
        let mut growing = GrowingTensor::new(numbers(6), 1).unwrap();
        growing.truncate(7);
        assert_eq!(growing.axis_len(), 6);
        growing.truncate(2);
        assert_eq!(growing.shape(), [2, 2, 3]);
        let n_moved = growing.n_moved();
        let view = growing.extend(DType::F32, &[2, 3, 3]).unwrap();
        assert_eq!(view.shape(), [2, 6, 3]);
        assert_eq!(growing.n_moved(), n_moved);
    }

    #[test]
    fn other_shapes_types_and_axes_are_refused() {
        let mut growing = GrowingTensor::new(numbers(6), 1).unwrap();
        for shape in [&[2, 5, 3][..], &[3, 7, 3], &[2, 7], &[]] {
            let error = growing.extend(DType::F32, shape).unwrap_err();
            assert!(matches!(error, TensorError::Planned { .. }), "{error}");
        }
        assert!(growing.extend(DType::I32, &[2, 7, 3]).is_err());
        assert!(GrowingTensor::new(numbers(6), 3).is_err());
        assert!(GrowingTensor::zeros(DType::U4, &[2, 0], 1).is_err());
        assert!(growing.extend(DType::F32, &[2, usize::MAX / 4, 3]).is_err());
        assert_eq!(growing.to_tensor().unwrap(), numbers(6));
    }
}
