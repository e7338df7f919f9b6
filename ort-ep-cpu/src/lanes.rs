//! A tensor seen along one axis.

use ort_tensor::{can_end, n_elements};

/// Elements that a run which can be ended computes in one piece.
pub(crate) const MOST_ELEMENTS: usize = 1 << 24;

/// A tensor as `[outer, len, inner]`: a lane is `len` elements, `inner` apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanes {
    /// The elements of a lane.
    pub(crate) len: usize,
    /// How far apart they are, and how many lanes lie side by side.
    pub(crate) inner: usize,
}

impl Lanes {
    /// The lanes along `axis`, which must be below the rank.
    pub(crate) fn along(shape: &[usize], axis: usize) -> Self {
        Self { len: shape[axis], inner: product(&shape[axis + 1..]) }
    }

    /// Whether one lane takes too long for a run that can be ended: some ten milliseconds. Kernels that compute a
    /// lane in one piece then leave it to `eval`, which checks in between.
    pub(crate) fn are_too_long(self) -> bool {
        self.len > MOST_ELEMENTS && can_end()
    }

    /// The contiguous lanes that run along all dimensions from `axis` on, at most the rank.
    pub(crate) fn flattened(shape: &[usize], axis: usize) -> Self {
        Self { len: product(&shape[axis..]), inner: 1 }
    }
}

/// `Π shape`; a tensor that exists has no product that overflows, unless a zero hides it.
fn product(shape: &[usize]) -> usize {
    n_elements(shape).unwrap_or(0)
}
