//! The memory of outputs, which is not in the block.

use ort_tensor::n_elements;

use super::Place;

impl Place {
    /// The memory of an output of known shape, in bytes; 0 for other places.
    pub(super) fn own_bytes(&self) -> usize {
        match self {
            Place::Own { dtype, shape, .. } => {
                n_elements(shape).and_then(|n| dtype.n_bytes(n)).unwrap_or(usize::MAX / 4)
            }
            _ => 0,
        }
    }
}
