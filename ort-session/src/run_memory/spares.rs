//! The memory of outputs that callers have dropped, for future outputs.
//!
//! An output belongs to its caller. Mapping and clearing memory for one can take
//! as long as computing it, so dropped buffers are returned here with their content.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use ort_tensor::{AlignedBuf, Home, allowance_left};

use crate::plan::Pool;

/// The maximum number of retained buffers, whatever a caller drops at once.
const N_SPARES: usize = 16;

/// Smaller buffers come from the heap: they are cleared faster than they are looked for here.
const MIN_BYTES: usize = 4 << 10;

/// Unused buffers.
pub(super) struct Spares {
    pool: Pool<Spare>,
    /// Their size, together with all other retained memory of the session.
    kept: Arc<AtomicUsize>,
    cap: usize,
}

struct Spare {
    buf: AlignedBuf,
    /// Whether it was used since the session last checked what to retain.
    was_used: bool,
}

impl Spares {
    pub(super) fn new(kept: Arc<AtomicUsize>, cap: usize) -> Arc<Self> {
        Arc::new(Self { pool: Pool::new(N_SPARES), kept, cap })
    }

    /// Releases everything if the session retains more than `most` bytes.
    pub(super) fn release_over(&self, most: usize) {
        if self.kept.load(Ordering::Relaxed) > most {
            self.clear();
        }
    }

    /// A buffer with any content, which is returned here on drop, unless it is small.
    pub(super) fn buf(self: &Arc<Self>, n_bytes: usize) -> Option<AlignedBuf> {
        self.buf_with_room(n_bytes, n_bytes)
    }

    /// The same for values whose size may change: with room for up to a quarter more, so
    /// that a slightly larger one can reuse it.
    pub(super) fn roomy_buf(self: &Arc<Self>, n_bytes: usize) -> Option<AlignedBuf> {
        let step = (n_bytes / 8 + 1).next_power_of_two();
        self.buf_with_room(n_bytes, n_bytes.checked_next_multiple_of(step)?)
    }

    fn buf_with_room(self: &Arc<Self>, n_bytes: usize, room: usize) -> Option<AlignedBuf> {
        if n_bytes < MIN_BYTES {
            return AlignedBuf::try_zeroed(n_bytes);
        }
        let mut buf = match self.take(n_bytes) {
            Some(buf) => buf,
            None => {
                // What is retained counts against the limit of a run, too.
                let left = allowance_left();
                let room = if room > left { n_bytes } else { room };
                self.release_over(left.saturating_sub(room));
                AlignedBuf::try_zeroed(room)?
            }
        };
        if !buf.set_len(n_bytes) {
            return None;
        }
        let home: Weak<dyn Home> = Arc::<Self>::downgrade(self);
        Some(buf.with_home(home))
    }

    /// A buffer with room for `n_bytes`, but not for more than twice as many.
    fn take(&self, n_bytes: usize) -> Option<AlignedBuf> {
        let found = Cell::new(None);
        let fits = |n: usize| (n_bytes..=n_bytes.saturating_mul(2)).contains(&n);
        self.pool.drain(
            |spare| {
                let has_found = found.take().map(|it| found.set(Some(it))).is_some();
                has_found || !fits(spare.buf.len())
            },
            |spare| found.set(Some(spare)),
        );
        let mut buf = found.into_inner()?.buf;
        self.kept.fetch_sub(buf.len(), Ordering::Relaxed);
        buf.set_len(n_bytes).then_some(buf)
    }

    /// Releases what was not used since the last call.
    pub(super) fn look(&self) {
        self.pool.drain(|spare| std::mem::take(&mut spare.was_used), |spare| self.forget(&spare));
    }

    /// Releases everything.
    pub(super) fn clear(&self) {
        self.pool.drain(|_| false, |spare| self.forget(&spare));
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
    fn take_in(&self, mut buf: AlignedBuf) {
        let n_bytes = buf.capacity();
        let _is_whole = buf.set_len(n_bytes);
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

    const N_BYTES: usize = 512 * 128 * 4;

    fn kept_to(cap: usize) -> Arc<Spares> {
        Spares::new(Arc::default(), cap)
    }

    fn buf(spares: &Arc<Spares>) -> AlignedBuf {
        spares.buf(N_BYTES).unwrap()
    }

    fn address(buf: &AlignedBuf) -> usize {
        buf.as_ref().as_ptr().addr()
    }

    fn kept(spares: &Spares) -> usize {
        let mut sum = 0;
        spares.visit(&mut |buf| sum += buf.len());
        assert_eq!(sum, spares.kept.load(Ordering::Relaxed));
        sum
    }

    #[test]
    fn a_dropped_buffer_is_reused_for_at_least_half_its_size() {
        let spares = kept_to(usize::MAX);
        let (first, second) = (buf(&spares), buf(&spares));
        let addresses = [&first, &second].map(address);
        drop(first);
        assert_eq!(kept(&spares), N_BYTES);
        assert_ne!(address(&spares.buf(N_BYTES + 1).unwrap()), addresses[0]);
        assert_ne!(address(&spares.buf(N_BYTES / 2 - 1).unwrap()), addresses[0]);
        // What was too large for one and too small for the other is dropped first here.
        drop(second);
        let third = buf(&spares);
        assert_eq!((address(&third), third.len()), (addresses[1], N_BYTES));
    }

    #[test]
    fn small_and_excess_buffers_are_not_retained() {
        let spares = kept_to(3 * N_BYTES);
        drop(spares.buf(400).unwrap());
        assert_eq!(kept(&spares), 0);
        let many: Vec<_> = (0..5).map(|_| buf(&spares)).collect();
        drop(many);
        assert_eq!(kept(&spares), 3 * N_BYTES);
        let spares = kept_to(usize::MAX);
        let many: Vec<_> = (0..2 * N_SPARES).map(|_| buf(&spares)).collect();
        drop(many);
        assert_eq!(kept(&spares), N_SPARES * N_BYTES);
    }

    #[test]
    fn buffers_unused_between_two_checks_are_released() {
        let spares = kept_to(usize::MAX);
        drop(buf(&spares));
        spares.look();
        assert_eq!(kept(&spares), N_BYTES);
        drop(buf(&spares));
        spares.look();
        assert_eq!(kept(&spares), N_BYTES);
        spares.look();
        assert_eq!(kept(&spares), 0);
    }
}
