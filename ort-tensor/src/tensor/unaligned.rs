//! Elements of a file that are not aligned for their type: copied when they are first viewed. Many never are: they are
//! written to another layout, from where they lie or from a copy that lasts as long as that.

use std::sync::OnceLock;

use ::bytes::Bytes;

use crate::{AlignedBuf, TensorError};

/// Bytes, and their aligned copy if there is one.
pub(super) struct Unaligned {
    bytes: Bytes,
    copy: OnceLock<AlignedBuf>,
}

impl Unaligned {
    pub(super) const fn new(bytes: Bytes) -> Self {
        Self { bytes, copy: OnceLock::new() }
    }

    /// The bytes where they lie.
    pub(super) const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The aligned copy.
    pub(super) fn aligned(&self) -> &[u8] {
        let copy = || AlignedBuf::try_lasting_copy_of(&self.bytes);
        let copy = || copy().unwrap_or_else(|_| AlignedBuf::copy_of(&self.bytes));
        self.copy.get_or_init(copy).as_ref()
    }

    /// Makes the aligned copy.
    pub(super) fn align(&self) -> Result<(), TensorError> {
        if self.copy.get().is_none() {
            let copy = AlignedBuf::try_lasting_copy_of(&self.bytes)?;
            // Another thread may have been faster.
            let _ = self.copy.set(copy);
        }
        Ok(())
    }

    /// Calls `read` with aligned bytes, which are kept only if they were before.
    pub(super) fn with_bytes<R>(&self, read: impl FnOnce(&[u8]) -> R) -> R {
        match self.copy.get() {
            Some(copy) => read(copy.as_ref()),
            None => match AlignedBuf::try_passing_copy_of(&self.bytes) {
                Ok(copy) => read(copy.as_ref()),
                Err(_) => read(self.aligned()),
            },
        }
    }
}
