//! A tensor seen along one axis.

use ort_tensor::n_elements;

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

    /// Whether lanes side by side take some ten milliseconds, which is too long for one piece of work: kernels that
    /// would have it as such leave it to `eval`, which asks in between whether anybody waits for it.
    pub(crate) const fn are_long(self) -> bool {
        self.len.saturating_mul(self.inner) > 1 << 24
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
