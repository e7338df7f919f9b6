//! Memory of finished runs, for future runs. It is lock-free: a slot is emptied or
//! filled by one exchange of a pointer.

// collects are bounded: as long as the graph's lists

use std::fmt;
use std::sync::OnceLock;

use crossbeam_utils::atomic::AtomicCell;
use ort_graph::ValueId;
use ort_tensor::{AlignedBuf, Value};

/// The number of runs of one plan whose memory is retained. More concurrent runs
/// than a machine has cores gain nothing.
pub(super) const N_STATES: usize = 64;

/// The memory of one run. Any signature of the plan can use it.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) arena: AlignedBuf,
    pub(crate) made: MadeValues,
    /// The part of the arena that runs needed since the session last checked what to retain.
    pub(super) n_needed: usize,
}

/// Values that are allocated during a run, outside of its block. Parallel branches share
/// them: each sets its own.
#[derive(Debug)]
pub(crate) struct MadeValues(Box<[OnceLock<Value>]>);

type Slot<T> = AtomicCell<Option<Box<T>>>;

const _: () = assert!(Slot::<State>::is_lock_free(), "a slot is one pointer");

/// Unused items, normally states, the most recently used first: it may still be in the cache,
/// and those at the end are the ones no longer needed.
pub(crate) struct Pool<T = State> {
    slots: Box<[Slot<T>]>,
}

impl State {
    /// Memory without a block, for a plan with this many values.
    pub(crate) fn new(n_values: usize) -> Self {
        let made = MadeValues((0..n_values).map(|_| OnceLock::new()).collect());
        // bounded: nothing yet
        Self { arena: AlignedBuf::zeroed(0), made, n_needed: 0 }
    }

    /// Resizes the block as a run needs it; `None` if it cannot be allocated. The content
    /// is lost.
    pub(crate) fn reserve(&mut self, n_bytes: usize) -> Option<()> {
        self.n_needed = self.n_needed.max(n_bytes);
        if self.arena.len() < n_bytes {
            // The old block is freed before the new one is allocated.
            // bounded: nothing yet
            self.arena = AlignedBuf::zeroed(0);
            self.arena = AlignedBuf::try_block(n_bytes)?;
        }
        Some(())
    }

    /// Whether some run needed the whole block since the last call.
    pub(crate) fn was_needed(&mut self) -> bool {
        std::mem::take(&mut self.n_needed) >= self.arena.len().max(1)
    }
}

impl MadeValues {
    pub(crate) fn get(&self, id: ValueId) -> Option<&Value> {
        self.0[id.index()].get()
    }

    /// Sets a value that is not set.
    pub(crate) fn set(&self, id: ValueId, value: Value) {
        // Every value has one producer, which runs once.
        let _ = self.0[id.index()].set(value);
    }

    pub(crate) fn take(&mut self, id: ValueId) -> Option<Value> {
        self.0[id.index()].take()
    }
}

impl<T> Pool<T> {
    /// With this many slots.
    pub(crate) fn new(n_slots: usize) -> Self {
        Self { slots: (0..n_slots).map(|_| AtomicCell::new(None)).collect() }
    }

    /// The most recently returned item, if there is one.
    pub(crate) fn take(&self) -> Option<Box<T>> {
        self.slots.iter().find_map(AtomicCell::take)
    }

    /// Returns an item. Items in the slots are shifted by one; if there are too many, the last
    /// is returned.
    pub(crate) fn put(&self, mut item: Box<T>) -> Option<Box<T>> {
        for slot in &self.slots {
            item = slot.swap(Some(item))?;
        }
        Some(item)
    }

    /// Removes items that are not to be kept, and passes them to `gone`.
    pub(crate) fn drain(
        &self,
        mut is_kept: impl FnMut(&mut T) -> bool,
        mut gone: impl FnMut(Box<T>),
    ) {
        for slot in &self.slots {
            let Some(mut item) = slot.take() else { continue };
            if !is_kept(&mut item) {
                gone(item);
            } else if let Some(other) = slot.swap(Some(item)) {
                // Its slot was filled meanwhile; then that item is shifted.
                self.put(other).into_iter().for_each(&mut gone);
            }
        }
    }
}

impl<T> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pool")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    fn state(n_bytes: usize) -> Box<State> {
        let mut state = State::new(0);
        state.reserve(n_bytes).unwrap();
        Box::new(state)
    }

    fn sizes(pool: &Pool) -> Vec<usize> {
        std::iter::from_fn(|| pool.take()).map(|state| state.arena.len()).collect()
    }

    #[test]
    fn the_last_item_is_taken_first() {
        let pool = Pool::new(N_STATES);
        assert!((1..=5).all(|n| pool.put(state(n)).is_none()));
        assert_eq!(sizes(&pool), [5, 4, 3, 2, 1]);
    }

    #[test]
    fn without_a_slot_the_first_item_is_dropped() {
        let pool = Pool::new(N_STATES);
        assert!((1..=N_STATES).all(|n| pool.put(state(n)).is_none()));
        assert_eq!(pool.put(state(100)).unwrap().arena.len(), 1);
        assert_eq!(sizes(&pool).len(), N_STATES);
    }

    #[test]
    fn a_block_that_no_run_needed_as_a_whole_is_reported() {
        let mut state = state(1000);
        assert!(state.was_needed());
        assert!(!state.was_needed(), "it was not used since");
        state.reserve(999).unwrap();
        assert!(!state.was_needed());
        state.reserve(1000).unwrap();
        assert_eq!(state.arena.len(), 1000);
        assert!(state.was_needed());
    }

    #[test]
    fn draining_keeps_the_order_of_the_rest() {
        let pool = Pool::new(N_STATES);
        assert!((1..=6).all(|n| pool.put(state(n)).is_none()));
        let mut gone = Vec::new();
        pool.drain(|state| state.arena.len() % 2 == 0, |state| gone.push(state.arena.len()));
        assert_eq!(gone, [5, 3, 1]);
        assert_eq!(sizes(&pool), [6, 4, 2]);
    }

    #[test]
    fn threads_lose_and_share_nothing() {
        let (n_threads, pool) = (8, Pool::new(N_STATES));
        let start = Barrier::new(n_threads);
        std::thread::scope(|scope| {
            for own in 1..=n_threads {
                let (pool, start) = (&pool, &start);
                scope.spawn(move || {
                    assert!(pool.put(state(own)).is_none());
                    start.wait();
                    for round in 0..1000 {
                        if let Some(mut state) = pool.take() {
                            // Two threads with the same item at once would see each other's marks.
                            let mark = u8::try_from((own * 31 + round) % 251).unwrap();
                            state.arena.as_mut().fill(mark);
                            std::thread::yield_now();
                            assert!(state.arena.as_ref().iter().all(|&byte| byte == mark));
                            assert!(pool.put(state).is_none());
                        }
                    }
                });
            }
        });
        let mut sizes = sizes(&pool);
        sizes.sort_unstable();
        assert_eq!(sizes, (1..=n_threads).collect::<Vec<_>>());
    }
}
