//! Memory of outputs that callers have dropped, for outputs to come.
//!
//! An output belongs to its caller. To map memory for a large one, and to have the system clear it, can take
//! as long as to compute it; so what is dropped comes back here, as it was left.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use ort_tensor::{AlignedBuf, DType, Home, Tensor, TensorError, n_elements};

use crate::plan::Pool;

/// How many buffers are kept: whoever drops a heap of results does not leave it here.
const N_SPARES: usize = 8;

/// Buffers that nobody uses now.
pub(super) struct Spares {
    pool: Pool<Spare>,
    /// Their bytes, and all else that the session keeps for runs to come.
    kept: Arc<AtomicUsize>,
    cap: usize,
}

struct Spare {
    buf: AlignedBuf,
    /// Whether it came back since the session last looked at what it keeps.
    was_used: bool,
}

impl Spares {
    pub(super) fn new(kept: Arc<AtomicUsize>, cap: usize) -> Arc<Self> {
        Arc::new(Self { pool: Pool::new(N_SPARES), kept, cap })
    }

    /// An output, whatever it holds; its memory comes back when it is dropped. One that is small comes
    /// from the heap, which keeps such memory itself.
    pub(super) fn output(
        self: &Arc<Self>,
        dtype: DType,
        shape: &[usize],
    ) -> Result<Tensor, TensorError> {
        let n_bytes = n_elements(shape).and_then(|n| dtype.n_bytes(n));
        let Some(n_bytes) = n_bytes.filter(|&n| AlignedBuf::is_mapping(n)) else {
            return Tensor::zeros(dtype, shape);
        };
        let too_large = || TensorError::TooLarge { shape: shape.to_vec() };
        let buf = self.take(n_bytes).or_else(|| AlignedBuf::try_zeroed(n_bytes));
        let home: Weak<dyn Home> = Arc::<Self>::downgrade(self);
        Tensor::in_buf(dtype, shape, buf.ok_or_else(too_large)?.with_home(home))
    }

    /// A buffer of just so many bytes.
    fn take(&self, n_bytes: usize) -> Option<AlignedBuf> {
        let found = Cell::new(None);
        self.pool.drain(
            |spare| {
                let has_found = found.take().map(|it| found.set(Some(it))).is_some();
                has_found || spare.buf.len() != n_bytes
            },
            |spare| found.set(Some(spare)),
        );
        let spare = found.into_inner()?;
        self.kept.fetch_sub(n_bytes, Ordering::Relaxed);
        Some(spare.buf)
    }

    /// Gives back what was not used since this was last called.
    pub(super) fn look(&self) {
        self.pool.drain(|spare| std::mem::take(&mut spare.was_used), |spare| self.forget(&spare));
    }

    /// Calls `held` with each buffer.
    pub(super) fn visit(&self, held: &mut dyn FnMut(&[u8])) {
        let look = |spare: &mut Spare| {
            held(spare.buf.as_ref());
            true
        };
        self.pool.drain(look, |spare| self.forget(&spare));
    }

    fn forget(&self, spare: &Spare) {
        self.kept.fetch_sub(spare.buf.len(), Ordering::Relaxed);
    }
}

impl Home for Spares {
    fn take_in(&self, buf: AlignedBuf) {
        let n_bytes = buf.len();
        let kept = self.kept.fetch_add(n_bytes, Ordering::Relaxed) + n_bytes;
        let spare = Box::new(Spare { buf, was_used: true });
        let gone = if kept > self.cap { Some(spare) } else { self.pool.put(spare) };
        gone.into_iter().for_each(|spare| self.forget(&spare));
    }
}

impl fmt::Debug for Spares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spares({} bytes)", self.kept.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: [usize; 2] = [512, 128];
    const N_BYTES: usize = 512 * 128 * 4;

    fn kept_to(cap: usize) -> Arc<Spares> {
        Spares::new(Arc::default(), cap)
    }

    fn output(spares: &Arc<Spares>) -> Tensor {
        spares.output(DType::F32, &SHAPE).unwrap()
    }

    fn kept(spares: &Spares) -> usize {
        let mut sum = 0;
        spares.visit(&mut |buf| sum += buf.len());
        assert_eq!(sum, spares.kept.load(Ordering::Relaxed));
        sum
    }

    #[test]
    fn what_is_dropped_is_the_next_of_its_size() {
        let spares = kept_to(usize::MAX);
        let (first, second) = (output(&spares), output(&spares));
        let addresses = [first.address(), second.address()];
        drop(first);
        assert_eq!(kept(&spares), N_BYTES);
        assert_ne!(spares.output(DType::F32, &[512, 129]).unwrap().address(), addresses[0]);
        let third = output(&spares);
        assert_eq!(third.address(), addresses[0]);
        assert_ne!(third.address(), addresses[1]);
        // A clone keeps it from coming back.
        let clone = third.clone();
        drop(third);
        assert_ne!(output(&spares).address(), clone.address());
    }

    #[test]
    fn small_outputs_and_too_many_are_not_kept() {
        let spares = kept_to(3 * N_BYTES);
        drop(spares.output(DType::F32, &[100]).unwrap());
        assert_eq!(kept(&spares), 0);
        let many: Vec<_> = (0..5).map(|_| output(&spares)).collect();
        drop(many);
        assert_eq!(kept(&spares), 3 * N_BYTES);
        let spares = kept_to(usize::MAX);
        let many: Vec<_> = (0..2 * N_SPARES).map(|_| output(&spares)).collect();
        drop(many);
        assert_eq!(kept(&spares), N_SPARES * N_BYTES);
    }

    #[test]
    fn what_is_not_used_between_two_looks_is_given_back() {
        let spares = kept_to(usize::MAX);
        drop(output(&spares));
        spares.look();
        assert_eq!(kept(&spares), N_BYTES);
        drop(output(&spares));
        spares.look();
        assert_eq!(kept(&spares), N_BYTES);
        spares.look();
        assert_eq!(kept(&spares), 0);
    }
}
