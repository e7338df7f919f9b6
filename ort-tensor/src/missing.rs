//! Tensors without elements: released, or not copied for want of memory.

use crate::{TensorError, TensorView};

/// Why there are no elements.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Missing {
    /// See [`crate::Tensor::released`].
    Released,
    /// There was none for an aligned copy of them.
    NoMemory { limit: Option<usize> },
}

impl TensorView<'_> {
    /// The error of reading elements that are missing.
    pub(crate) fn missing(&self, why: Missing) -> TensorError {
        match why {
            Missing::Released => {
                TensorError::Released { dtype: self.dtype(), shape: self.shape().to_vec() }
            }
            Missing::NoMemory { limit } => {
                let n_bytes = self.len().saturating_mul(self.dtype().bits()) / 8;
                TensorError::NoMemory { n_bytes, limit }
            }
        }
    }
}
