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
    /// Their strides in the source.
    strides: Shape,
}

impl StridedCopy {
    /// The source of a result of `shape` with these strides.
    pub(crate) fn new(shape: &[usize], strides: &[usize]) -> Self {
        let axes = shape.iter().zip(strides).map(|(&dim, &stride)| (dim, [stride]));
        let (mut shape, mut strides): (Shape, Shape) =
            merged(axes).into_iter().map(|(dim, [stride])| (dim, stride)).unzip();
        if shape.is_empty() {
            (shape, strides) = (Shape::from_slice(&[1]), Shape::from_slice(&[0]));
        }
        Self { shape, strides }
    }

    /// The axes and their strides.
    pub(crate) fn axes(&self) -> (&[usize], &[usize]) {
        (&self.shape, &self.strides)
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
        let from = Strided::new(start / inner * self.strides[0], &self.strides);
        copy_slice(&shape, (x, &from), (y, &Strided::new(0, &row_major_strides(&shape))));
    }

    /// Elements per index of the outermost axis, at least 1. The product overflows only if the
    /// result is empty.
    fn inner(&self) -> usize {
        self.shape[1..].iter().fold(1, |n: usize, &dim| n.saturating_mul(dim)).max(1)
    }
}
