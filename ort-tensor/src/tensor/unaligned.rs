//! Elements of a file that are not aligned for their type: copied when they are first viewed. Many never are: they are
//! written to another layout, from where they lie or from a copy that lasts as long as that.

use std::sync::{Arc, OnceLock};

use ::bytes::Bytes;

use super::{Storage, Tensor};
use crate::view::Data;
use crate::{AlignedBuf, TensorError, TensorView};

impl Tensor {
    /// Copies the elements to aligned memory, unless they are aligned or were copied before.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub fn align(&self) -> Result<(), TensorError> {
        match &self.storage {
            Storage::Unaligned(unaligned) => unaligned.align().map(drop),
            _ => Ok(()),
        }
    }

    /// The same tensor, to be dropped soon: elements that are not aligned are copied for it, unless they were copied before.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub fn aligned(&self) -> Result<Self, TensorError> {
        let Storage::Unaligned(unaligned) = &self.storage else { return Ok(self.clone()) };
        Ok(match unaligned.temporary_copy()? {
            Some(copy) => Self { storage: Storage::Owned(Arc::new(copy)), ..self.clone() },
            None => self.clone(),
        })
    }

    /// A view for [`TensorView::as_bytes`] only: it may not be aligned for the element type. Nothing is copied.
    pub fn unaligned_view(&self) -> TensorView<'_> {
        let Storage::Unaligned(unaligned) = &self.storage else { return self.view() };
        TensorView::from_data(self.dtype, &self.shape, Data::Bytes(unaligned.bytes()))
    }
}

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

    /// The aligned copy; an error has the limit that it exceeds.
    pub(super) fn aligned(&self) -> Result<&[u8], Option<usize>> {
        match self.align() {
            Ok(copy) => Ok(copy.as_ref()),
            Err(TensorError::NoMemory { limit, .. }) => Err(limit),
            Err(_) => Err(None),
        }
    }

    /// Makes the aligned copy, if there is none.
    pub(super) fn align(&self) -> Result<&AlignedBuf, TensorError> {
        if let Some(copy) = self.copy.get() {
            return Ok(copy);
        }
        let copy = AlignedBuf::try_lasting_copy_of(&self.bytes)?;
        // Another thread may have been faster.
        Ok(self.copy.get_or_init(|| copy))
    }

    /// An aligned copy that is dropped soon; `None` if there is a lasting one.
    pub(super) fn temporary_copy(&self) -> Result<Option<AlignedBuf>, TensorError> {
        let is_copied = self.copy.get().is_some();
        (!is_copied).then(|| AlignedBuf::try_temporary_copy_of(&self.bytes)).transpose()
    }
}
