//! Elements that become a tensor's own when they are first read: those of a file that are not aligned for their type, and
//! those that are computed from others. Many never are: they are written to another layout, from where they lie or from a
//! copy that lasts as long as that.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ::bytes::Bytes;

use super::{Storage, Tensor};
use crate::room::check;
use crate::shape::Shape;
use crate::view::{Data, data_len};
use crate::{AlignedBuf, DType, TensorError, TensorView};

/// Writes elements to bytes that are zero.
type Write = dyn Fn(&mut [u8]) + Send + Sync;

impl Tensor {
    /// A tensor whose elements are computed when they are first read, or by [`materialize`]: `write` gets zeros, and
    /// always writes the same.
    ///
    /// # Errors
    /// If the size overflows, the type is a string, or there would be no memory for the elements.
    pub fn deferred(
        dtype: DType,
        shape: &[usize],
        write: impl Fn(&mut [u8]) + Send + Sync + 'static,
    ) -> Result<Self, TensorError> {
        let n_bytes = data_len(dtype, shape)?;
        if dtype == DType::String {
            return Err(TensorError::NoWords { found: dtype, n_bytes: 1 });
        }
        check(n_bytes)?;
        let write = Mutex::new(Some(Arc::new(write) as Arc<Write>));
        Ok(Self::of_source(dtype, shape, Source::Computed { n_bytes, write }))
    }

    pub(super) fn of_source(dtype: DType, shape: &[usize], source: Source) -> Self {
        let storage = Storage::Deferred(Arc::new(Deferred { source, own: OnceLock::new() }));
        Self { dtype, shape: Shape::from_slice(shape), storage }
    }

    /// Whether the elements are yet to be copied or computed.
    pub fn is_deferred(&self) -> bool {
        matches!(&self.storage, Storage::Deferred(deferred) if deferred.own.get().is_none())
    }

    /// Whether the elements are yet to be computed.
    pub fn is_uncomputed(&self) -> bool {
        let Storage::Deferred(deferred) = &self.storage else { return false };
        self.is_deferred() && matches!(deferred.source, Source::Computed { .. })
    }

    /// The same tensor, to be dropped soon: elements that are not aligned are copied for it, and deferred ones are computed,
    /// unless that was done before.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub fn materialized(&self) -> Result<Self, TensorError> {
        let Storage::Deferred(deferred) = &self.storage else { return Ok(self.clone()) };
        Ok(match deferred.temporary()? {
            Some(buf) => Self { storage: Storage::Owned(Arc::new(buf)), ..self.clone() },
            None => self.clone(),
        })
    }

    /// A view for [`TensorView::as_bytes`] only: it may not be aligned for the element type. Nothing is copied; computed
    /// elements are the tensor's own.
    pub fn unaligned_view(&self) -> TensorView<'_> {
        if let Storage::Deferred(deferred) = &self.storage
            && let Source::Unaligned(bytes) = &deferred.source
        {
            return TensorView::from_data(self.dtype, &self.shape, Data::Bytes(bytes));
        }
        self.view()
    }
}

/// Copies elements that are not aligned and computes deferred ones, all in one block of memory, which lasts as long as any of
/// the tensors. `for_each(n, part)` calls `part` with each number below `n`, on one thread or several.
///
/// # Errors
/// If there is no memory for them, or `for_each` left out a part ([`TensorError::Ended`]): then they are as they were.
pub fn materialize(
    tensors: &[&Tensor],
    for_each: impl FnOnce(usize, &(dyn Fn(usize) + Sync)),
) -> Result<(), TensorError> {
    let deferred = tensors.iter().filter_map(|tensor| match &tensor.storage {
        Storage::Deferred(deferred) if tensor.is_deferred() => Some(&**deferred),
        _ => None,
    });
    // bounded: as long as the list
    let mut all: Vec<&Deferred> = deferred.collect();
    all.sort_unstable_by_key(|deferred| std::ptr::from_ref(*deferred));
    all.dedup_by_key(|deferred| std::ptr::from_ref(*deferred));
    let sizes = all.iter().map(|deferred| deferred.n_bytes().next_multiple_of(AlignedBuf::ALIGN));
    let n_bytes = sizes.clone().fold(0, usize::saturating_add);
    check(n_bytes)?;
    let no_memory = TensorError::NoMemory { n_bytes, limit: None };
    let mut block = AlignedBuf::try_lasting(n_bytes).ok_or(no_memory)?;
    let mut rest = block.as_mut();
    let places = all.iter().zip(sizes.clone()).map(|(deferred, size)| {
        let place = rest.split_off_mut(..size).unwrap_or_default();
        Mutex::new(Some(&mut place[..deferred.n_bytes()]))
    });
    let places: Vec<_> = places.collect(); // bounded: as long as the list
    for_each(all.len(), &|i| {
        let place = places[i].lock().unwrap_or_else(PoisonError::into_inner).take();
        place.into_iter().for_each(|place| all[i].write(place));
    });
    let mut left = places.into_iter().map(Mutex::into_inner);
    if left.any(|place| place.unwrap_or_else(PoisonError::into_inner).is_some()) {
        return Err(TensorError::Ended);
    }
    let mut rest = Bytes::from_owner(block);
    for (deferred, size) in all.iter().zip(sizes) {
        deferred.set(rest.split_to(size).slice(..deferred.n_bytes()));
    }
    Ok(())
}

/// Elements, and the tensor's own if there are any yet.
pub(crate) struct Deferred {
    source: Source,
    own: OnceLock<Bytes>,
}

/// The source of elements.
pub(super) enum Source {
    /// Bytes of a file.
    Unaligned(Bytes),
    /// A function that writes them; none when the tensor has its own.
    Computed { n_bytes: usize, write: Mutex<Option<Arc<Write>>> },
}

impl Deferred {
    pub(super) const fn n_bytes(&self) -> usize {
        match &self.source {
            Source::Unaligned(bytes) => bytes.len(),
            Source::Computed { n_bytes, .. } => *n_bytes,
        }
    }

    /// The address of the elements, or of what computes them: it does not change.
    pub(super) fn address(&self) -> usize {
        match &self.source {
            Source::Unaligned(bytes) => bytes.as_ptr().addr(),
            Source::Computed { .. } => std::ptr::from_ref(self).addr(),
        }
    }

    /// The elements; an error has the limit that they exceed.
    pub(crate) fn bytes(&self) -> Result<&[u8], Option<usize>> {
        if let Some(own) = self.own.get() {
            return Ok(own);
        }
        match self.lasting() {
            // Another thread may have been faster.
            Ok(own) => Ok(self.set(Bytes::from_owner(own))),
            Err(TensorError::NoMemory { limit, .. }) => Err(limit),
            Err(_) => Err(None),
        }
    }

    /// Sets the tensor's own elements, if there are none; returns those that it has.
    fn set(&self, own: Bytes) -> &Bytes {
        let own = self.own.get_or_init(|| own);
        if let Source::Computed { write, .. } = &self.source {
            drop(write.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
        own
    }

    fn lasting(&self) -> Result<AlignedBuf, TensorError> {
        let n_bytes = self.n_bytes();
        check(n_bytes)?;
        let no_memory = TensorError::NoMemory { n_bytes, limit: None };
        let mut own = AlignedBuf::try_lasting(n_bytes).ok_or(no_memory)?;
        self.write(own.as_mut());
        Ok(own)
    }

    /// A copy of the elements; aborts as [`AlignedBuf::zeroed`] does.
    pub(super) fn copy(&self) -> AlignedBuf {
        let mut copy = AlignedBuf::zeroed(self.n_bytes());
        self.write(copy.as_mut());
        copy
    }

    /// The elements in a buffer that is dropped soon; `None` if the tensor has its own.
    fn temporary(&self) -> Result<Option<AlignedBuf>, TensorError> {
        if self.own.get().is_some() {
            return Ok(None);
        }
        let mut buf = AlignedBuf::try_temporary(self.n_bytes())?;
        if let Source::Computed { .. } = self.source {
            buf.as_mut().fill(0);
        }
        self.write(buf.as_mut());
        Ok(Some(buf))
    }

    /// Writes the elements to bytes that are zero.
    fn write(&self, to: &mut [u8]) {
        match &self.source {
            Source::Unaligned(bytes) => to.copy_from_slice(bytes),
            Source::Computed { write, .. } => {
                let write = write.lock().unwrap_or_else(PoisonError::into_inner).clone();
                match (write, self.own.get()) {
                    (Some(write), _) => write(to),
                    (None, Some(own)) => to.copy_from_slice(own),
                    (None, None) => {}
                }
            }
        }
    }
}

impl fmt::Debug for Deferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} deferred bytes", self.n_bytes())
    }
}
