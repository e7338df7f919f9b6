//! Copies of strided boxes of a slice, in pieces that threads share.

use ort_ops::axes::merged;
use ort_ops::strided::{Strided, Word, copy_slice};
use ort_tensor::{Shape, row_major_strides};

use crate::pieces::Rows;

/// A strided box of elements, copied to a contiguous result.
#[derive(Clone, Debug)]
pub(crate) struct StridedCopy {
    /// The axes of the result of more than one element, with contiguous ones merged; at
    /// least one.
    shape: Shape,
    /// Where they are in the source.
    from: Strided,
}

impl StridedCopy {
    /// The source of a result of `shape`.
    pub(crate) fn new(shape: &[usize], from: &Strided) -> Self {
        let strides = from.strides.iter().map(|stride| [stride.cast_unsigned()]);
        let (mut shape, mut strides): (Shape, Shape) = merged(shape.iter().copied().zip(strides))
            .into_iter()
            .map(|(dim, [stride])| (dim, stride))
            .unzip();
        if shape.is_empty() {
            (shape, strides) = (Shape::from_slice(&[1]), Shape::from_slice(&[0]));
        }
        Self { shape, from: Strided::new(from.offset, &strides) }
    }

    /// The axes and their strides.
    pub(crate) fn axes(&self) -> (&[usize], &[isize]) {
        (&self.shape, &self.from.strides)
    }

    /// The pieces of the result, each some indices of the outermost axis; an element costs
    /// `each` multiply-adds.
    pub(crate) fn rows(&self, each: usize) -> Rows {
        let len = self.inner();
        Rows { len, cost: len.saturating_mul(each) }
    }

    /// Writes the piece of the result that starts at element `start`.
    pub(crate) fn write<W: Word>(&self, x: &[W], (start, y): (usize, &mut [W])) {
        let inner = self.inner();
        let mut shape = self.shape.clone();
        shape[0] = y.len() / inner;
        let first = (start / inner).cast_signed().wrapping_mul(self.from.strides[0]);
        let offset = self.from.offset.wrapping_add_signed(first);
        let from = Strided { offset, strides: self.from.strides.clone() };
        copy_slice(&shape, (x, &from), (y, &Strided::new(0, &row_major_strides(&shape))));
    }

    /// Elements per index of the outermost axis, at least 1. The product overflows only if the
    /// result is empty.
    fn inner(&self) -> usize {
        self.shape[1..].iter().fold(1, |n: usize, &dim| n.saturating_mul(dim)).max(1)
    }
}
