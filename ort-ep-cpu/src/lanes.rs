//! A tensor viewed along one axis.

use ort_tensor::{can_end, n_elements};

/// The maximum number of elements that a cancellable run computes in one piece.
pub(crate) const MAX_ELEMENTS: usize = 1 << 24;

/// A tensor as `[outer, len, inner]`: a lane is `len` elements, `inner` apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanes {
    /// Elements per lane.
    pub(crate) len: usize,
    /// The stride of a lane, and the number of adjacent lanes.
    pub(crate) inner: usize,
}

impl Lanes {
    /// The lanes along `axis`, which must be below the rank.
    pub(crate) fn along(shape: &[usize], axis: usize) -> Self {
        Self { len: shape[axis], inner: product(&shape[axis + 1..]) }
    }

    /// Whether one lane takes too long for a cancellable run: more than some ten milliseconds. Kernels that compute a
    /// lane in one piece then leave it to `eval`, which checks for cancellation.
    pub(crate) fn are_too_long(self) -> bool {
        self.len > MAX_ELEMENTS && can_end()
    }

    /// The contiguous lanes that run along all dimensions from `axis` on, at most the rank.
    pub(crate) fn flattened(shape: &[usize], axis: usize) -> Self {
        Self { len: product(&shape[axis..]), inner: 1 }
    }
}

/// `Π shape`; the product of an existing tensor overflows only if a dimension is 0.
fn product(shape: &[usize]) -> usize {
    n_elements(shape).unwrap_or(0)
}
