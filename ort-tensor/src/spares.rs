//! Mappings that a thread has dropped, for its next allocations.
//!
//! The system clears pages on first touch: 0.3 ms a MiB (Linux 6.18 in a virtual machine), plus
//! 0.1 ms to free them. Loading a model copies it several times in a row, as constants are
//! aligned, folded and laid out; clearing memory that is already mapped takes a tenth of that.

use std::cell::RefCell;

use crate::bytes::Pages;

/// The most bytes of mappings that a thread keeps for [`reusing`].
const SPARE_BYTES: usize = 32 << 20;

/// A reused mapping may be larger than requested by one part in this many.
const SPARE_WASTE: usize = 16;

thread_local! {
    /// Mappings no longer needed, within [`reusing`].
    static SPARES: RefCell<Option<Spares>> = const { RefCell::new(None) };
}

#[derive(Default)]
struct Spares {
    pages: Vec<Pages>,
    n_bytes: usize,
}

/// Calls `body`; mappings that this thread drops meanwhile are reused for its next allocations.
pub fn reusing<R>(body: impl FnOnce() -> R) -> R {
    struct Restore(Option<Spares>);
    impl Drop for Restore {
        fn drop(&mut self) {
            SPARES.replace(self.0.take());
        }
    }
    let _restore = Restore(SPARES.replace(Some(Spares::default())));
    body()
}

/// A dropped mapping for `len` bytes, with any content.
pub(crate) fn take(len: usize) -> Option<Pages> {
    let take = |spares: &RefCell<Option<Spares>>| spares.borrow_mut().as_mut()?.take(len);
    SPARES.try_with(take).ok()?
}

/// A dropped mapping for at least `len` bytes, with any content: the largest, which the next call needs as well.
pub(crate) fn take_larger(len: usize) -> Option<Pages> {
    let take = |spares: &RefCell<Option<Spares>>| spares.borrow_mut().as_mut()?.take_larger(len);
    SPARES.try_with(take).ok()?
}

/// Keeps a mapping for reuse, or drops it.
pub(crate) fn put(pages: Pages) {
    // During thread exit, it is dropped.
    let _ = SPARES.try_with(|spares| {
        if let Some(spares) = spares.borrow_mut().as_mut() {
            spares.put(pages);
        }
    });
}

impl Spares {
    /// A mapping for `len` bytes, with any content.
    fn take(&mut self, len: usize) -> Option<Pages> {
        let fits = |pages: &Pages| pages.len >= len && pages.len - len <= len / SPARE_WASTE;
        self.pages.iter().rposition(fits).map(|at| self.take_at(at))
    }

    /// The largest mapping, if it has at least `len` bytes.
    fn take_larger(&mut self, len: usize) -> Option<Pages> {
        let pages = self.pages.iter().enumerate();
        let (at, largest) = pages.max_by_key(|(_, pages)| pages.len)?;
        (largest.len >= len).then(|| self.take_at(at))
    }

    fn take_at(&mut self, at: usize) -> Pages {
        self.n_bytes -= self.pages[at].len;
        self.pages.swap_remove(at)
    }

    /// Keeps a mapping, unless that exceeds the limit.
    fn put(&mut self, pages: Pages) {
        if self.n_bytes + pages.len <= SPARE_BYTES {
            self.n_bytes += pages.len;
            self.pages.push(pages);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AlignedBuf;

    const MIB: usize = 1 << 20;

    #[test]
    fn dropped_mappings_serve_again_where_they_fit_and_are_zeros() {
        let address = |buf: &AlignedBuf| buf.as_ref().as_ptr().addr();
        for len in [MIB / 8, 1_000_000, 2 * MIB, 6 * MIB + 5] {
            reusing(|| {
                let mut first = AlignedBuf::zeroed(len);
                first.as_mut().fill(7);
                let at = address(&first);
                drop(first);
                let second = AlignedBuf::lasting(len - len / 32);
                assert_eq!((address(&second), second.len()), (at, len - len / 32));
                assert!(second.as_ref().iter().all(|&byte| byte == 0));
                drop(second);
                // Too large, much smaller, and a block.
                let zeroed = [len + len / 32, len / 2].map(AlignedBuf::zeroed);
                let others: Vec<_> = zeroed.into_iter().chain(AlignedBuf::try_block(len)).collect();
                assert!(others.iter().all(|other| address(other) != at));
                let copy = AlignedBuf::try_copy_of(&vec![3; len]).unwrap();
                assert!(copy.as_ref().iter().all(|&byte| byte == 3));
                assert_eq!(address(&copy), at);
            });
            assert!(SPARES.with(|spares| spares.borrow().is_none()));
        }
        reusing(|| {
            drop(AlignedBuf::zeroed(2 * SPARE_BYTES));
            drop((0..40).map(|_| AlignedBuf::zeroed(MIB)).collect::<Vec<_>>());
            let kept = |spares: &RefCell<Option<Spares>>| {
                let spares = spares.borrow();
                spares.as_ref().map(|spares| (spares.pages.len(), spares.n_bytes))
            };
            assert_eq!(SPARES.with(kept), Some((32, SPARE_BYTES)));
        });
    }
}
