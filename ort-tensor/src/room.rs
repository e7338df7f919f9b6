//! Memory whose size depends on a file or on data: allocated with a check, counted, and an error on failure.
//!
//! Within [`within`], a thread has an allowance: bytes it may allocate in addition to its inputs. A
//! [`Room`] takes its bytes from it before it allocates, and returns them when it is
//! dropped. [`TensorError::NoMemory`] reports both an exceeded allowance and a system out of memory.
//!
//! The allowance is thread-local, as an operator's `eval` and its callees have no parameter
//! for it. Other threads that a kernel uses have none: there only the system limits a room,
//! so kernels allocate before they divide the work.

use std::cell::Cell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::Zeroable;

use crate::TensorError;
use crate::ending::{Pace, go_on};

/// What is left of a limit.
#[derive(Clone, Copy)]
struct Allowance {
    limit: usize,
    left: usize,
    /// The id of the call of [`within`], unique in the process; 0 for none.
    id: u64,
}

const UNLIMITED: Allowance = Allowance { limit: usize::MAX, left: usize::MAX, id: 0 };

thread_local! {
    static ALLOWANCE: Cell<Allowance> = const { Cell::new(UNLIMITED) };
}

/// The next id of an allowance.
fn next_id() -> u64 {
    /// Threads reserve ids in batches, so that they do not share a cache line for each step.
    const BATCH: u64 = 1 << 20;
    static BATCHES: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static NEXT: Cell<u64> = const { Cell::new(0) };
    }
    NEXT.with(|next| {
        let id = match next.get() {
            id if id.is_multiple_of(BATCH) => BATCHES.fetch_add(1, Ordering::Relaxed) * BATCH + 1,
            id => id,
        };
        next.set(id + 1);
        id
    })
}

/// Calls `body`, which may allocate `left` bytes on this thread; errors report `limit`. Within another
/// allowance, no more than is left of that one.
pub fn within<R>(limit: usize, left: usize, body: impl FnOnce() -> R) -> R {
    struct Restore(Allowance);
    impl Drop for Restore {
        fn drop(&mut self) {
            ALLOWANCE.set(self.0);
        }
    }
    let outer = ALLOWANCE.get();
    let _restore = Restore(outer);
    let (limit, left) = if left <= outer.left { (limit, left) } else { (outer.limit, outer.left) };
    ALLOWANCE.set(Allowance { limit, left, id: next_id() });
    body()
}

/// Bytes taken from an allowance, returned on drop.
#[derive(Debug)]
pub(crate) struct Lease {
    n_bytes: usize,
    of: u64,
}

impl Lease {
    /// No bytes.
    pub(crate) const NONE: Self = Self { n_bytes: 0, of: 0 };

    /// Takes `n_bytes` from the allowance.
    ///
    /// # Errors
    /// If fewer are left.
    pub(crate) fn take(n_bytes: usize) -> Result<Self, TensorError> {
        let now = ALLOWANCE.get();
        match now.left.checked_sub(n_bytes) {
            _ if now.id == 0 => Ok(Self::NONE),
            None => Err(TensorError::NoMemory { n_bytes, limit: Some(now.limit) }),
            Some(left) => {
                ALLOWANCE.set(Allowance { left, ..now });
                Ok(Self { n_bytes, of: now.id })
            }
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let now = ALLOWANCE.get();
        if self.n_bytes > 0 && now.id == self.of {
            ALLOWANCE.set(Allowance { left: now.left.saturating_add(self.n_bytes), ..now });
        }
    }
}

/// The rest of this thread's allowance in bytes: `usize::MAX` without one.
pub fn allowance_left() -> usize {
    ALLOWANCE.get().left
}

/// Checks that `n_bytes` are left.
///
/// # Errors
/// If not.
pub(crate) fn check(n_bytes: usize) -> Result<(), TensorError> {
    Lease::take(n_bytes).map(drop)
}

/// Takes `n_bytes` for something that outlives the step that makes it: they are counted until
/// the end of the allowance.
///
/// # Errors
/// If fewer are left.
pub fn charge(n_bytes: usize) -> Result<(), TensorError> {
    std::mem::forget(Lease::take(n_bytes)?);
    Ok(())
}

/// `n` times `value`, in memory that is allocated with a check and counted until the end of the allowance.
///
/// # Errors
/// If there is no memory for them, or the run was cancelled.
pub fn filled<T: Clone>(value: T, n: usize) -> Result<Vec<T>, TensorError> {
    Room::filled(value, n).map(Room::into_vec)
}

/// An empty vector with capacity `n`, counted until the end of the allowance.
///
/// # Errors
/// If there is no memory for them.
pub fn with_room<T>(n: usize) -> Result<Vec<T>, TensorError> {
    Room::with_room(n).map(Room::into_vec)
}

/// All `items`, counted until the end of the allowance.
///
/// # Errors
/// If there is no memory for them.
pub fn collected<T>(items: impl IntoIterator<Item = T>) -> Result<Vec<T>, TensorError> {
    Room::of(items).map(Room::into_vec)
}

/// All `items` up to the first error, counted until the end of the allowance.
///
/// # Errors
/// That error, or there is no memory for them, or the run was cancelled.
pub fn try_collected<T, E: From<TensorError>>(
    items: impl IntoIterator<Item = Result<T, E>>,
) -> Result<Vec<T>, E> {
    let items = items.into_iter();
    let (mut room, mut pace) = (Room::with_room(items.size_hint().0)?, Pace::new());
    for item in items {
        pace.go(1)?;
        room.push(item?)?;
    }
    Ok(room.into_vec())
}

/// A vector whose allocations are checked and counted.
pub struct Room<T> {
    data: Vec<T>,
    lease: Lease,
}

impl<T> Room<T> {
    /// An empty one.
    pub const fn new() -> Self {
        Self { data: Vec::new(), lease: Lease::NONE }
    }

    /// An empty one with capacity `n`.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub fn with_room(n: usize) -> Result<Self, TensorError> {
        let n_bytes = bytes_of::<T>(n)?;
        let lease = Lease::take(n_bytes)?;
        let mut data = Vec::new();
        data.try_reserve_exact(n).map_err(|_| TensorError::NoMemory { n_bytes, limit: None })?;
        Ok(Self { data, lease })
    }

    /// `n` times `value`.
    ///
    /// # Errors
    /// If there is no memory for them, or the run was cancelled.
    pub fn filled(value: T, n: usize) -> Result<Self, TensorError>
    where
        T: Clone,
    {
        let mut room = Self::with_room(n)?;
        room.resize(n, value)?;
        Ok(room)
    }

    /// `n` times zero: pages that are never touched take no memory.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub fn zeroed(n: usize) -> Result<Self, TensorError>
    where
        T: Zeroable,
    {
        let n_bytes = bytes_of::<T>(n)?;
        let lease = Lease::take(n_bytes)?;
        let data = bytemuck::try_zeroed_vec(n);
        let data = data.map_err(|()| TensorError::NoMemory { n_bytes, limit: None })?;
        Ok(Self { data, lease })
    }

    /// All `items`.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub fn of(items: impl IntoIterator<Item = T>) -> Result<Self, TensorError> {
        let items = items.into_iter();
        let mut room = Self::with_room(items.size_hint().0)?;
        room.extend(items)?;
        Ok(room)
    }

    /// Appends an element.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn push(&mut self, value: T) -> Result<(), TensorError> {
        if self.data.len() == self.data.capacity() {
            self.grow(1)?;
        }
        self.data.push(value);
        Ok(())
    }

    /// Appends all `items`.
    ///
    /// # Errors
    /// If there is no memory for them, or the run was cancelled.
    pub fn extend(&mut self, items: impl IntoIterator<Item = T>) -> Result<(), TensorError> {
        let mut items = items.into_iter();
        loop {
            let free = self.data.capacity() - self.data.len();
            let before = self.data.len();
            self.data.extend(items.by_ref().take(free.min(Pace::STEP)));
            if self.data.len() - before == Pace::STEP {
                go_on()?;
                continue;
            }
            let Some(item) = items.next() else { return Ok(()) };
            self.grow(items.size_hint().0.saturating_add(1))?;
            self.data.push(item);
        }
    }

    /// Sets the length to `n`; new elements are `value`.
    ///
    /// # Errors
    /// If there is no memory for them, or the run was cancelled.
    pub fn resize(&mut self, n: usize, value: T) -> Result<(), TensorError>
    where
        T: Clone,
    {
        if n > self.data.capacity() {
            self.grow(n - self.data.len())?;
        }
        while n > self.data.len().saturating_add(Pace::STEP) {
            self.data.resize(self.data.len() + Pace::STEP, value.clone());
            go_on()?;
        }
        self.data.resize(n, value);
        Ok(())
    }

    /// Keeps the first `n` elements.
    pub fn truncate(&mut self, n: usize) {
        self.data.truncate(n);
    }

    /// Removes all elements and keeps the memory.
    pub fn clear(&mut self) {
        self.data.clear();
    }

    /// The elements as a vector, counted until the end of the allowance.
    pub fn into_vec(self) -> Vec<T> {
        std::mem::forget(self.lease);
        self.data
    }

    /// Room for `n` more, and at least twice the length, so that pushing is cheap.
    fn grow(&mut self, n: usize) -> Result<(), TensorError> {
        let more = n.max(self.data.len()).max(4);
        let n_bytes = bytes_of::<T>(self.data.len().saturating_add(more))?;
        // The old memory is in use until all elements are moved.
        let lease = Lease::take(n_bytes)?;
        let done = self.data.try_reserve_exact(more);
        done.map_err(|_| TensorError::NoMemory { n_bytes, limit: None })?;
        self.lease = lease;
        Ok(())
    }
}

fn bytes_of<T>(n: usize) -> Result<usize, TensorError> {
    let n_bytes = n.checked_mul(size_of::<T>());
    n_bytes.ok_or(TensorError::NoMemory { n_bytes: usize::MAX, limit: None })
}

impl<T> Deref for Room<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.data
    }
}

impl<T> DerefMut for Room<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.data
    }
}

impl<T> AsRef<[T]> for Room<T> {
    fn as_ref(&self) -> &[T] {
        &self.data
    }
}

impl<T> Default for Room<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for Room<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.data.fmt(f)
    }
}

impl<T: PartialEq> PartialEq for Room<T> {
    fn eq(&self, other: &Self) -> bool {
        self.data == other.data
    }
}

impl<T> IntoIterator for Room<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    /// The memory counts as free from here on, as the consumer does not allocate more.
    fn into_iter(self) -> Self::IntoIter {
        self.data.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a Room<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.data.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut Room<T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.data.iter_mut()
    }
}

#[cfg(test)]
mod tests;
