//! Memory whose size follows from a file or from data: asked for, counted, and refused with an error.
//!
//! Whoever computes within [`within`] has an allowance: so many bytes beside what it was given. A
//! [`Room`] takes its bytes from it before the system is asked, and gives them back when it is
//! dropped. What does not fit is [`TensorError::NoMemory`]; so is what the system does not have.
//!
//! The allowance is the thread's, as an operator's `eval` and whatever that calls have no other place
//! for it. Other threads that a kernel sends parts to have none: there a room is refused by the
//! system only, so kernels take theirs before they share the work.

use std::cell::Cell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::Zeroable;

use crate::TensorError;
use crate::ending::{Pace, go_on};

/// How much of a limit is left.
#[derive(Clone, Copy)]
struct Allowance {
    limit: usize,
    left: usize,
    /// Which call of [`within`] this is, of all in the process; 0 for none.
    id: u64,
}

const UNLIMITED: Allowance = Allowance { limit: usize::MAX, left: usize::MAX, id: 0 };

thread_local! {
    static ALLOWANCE: Cell<Allowance> = const { Cell::new(UNLIMITED) };
}

/// Where the numbers of a thread's allowances begin, and the next one.
fn next_id() -> u64 {
    /// Threads take so many at a time, so that they do not share a cache line for each step.
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

/// Calls `body`, which may take `left` bytes on this thread; `limit` is what errors name. Within another
/// allowance it may take no more than is left of that one.
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

/// Bytes that were taken from an allowance, and go back to it.
#[derive(Debug)]
pub(crate) struct Lease {
    n_bytes: usize,
    of: u64,
}

impl Lease {
    /// Of nothing.
    pub(crate) const NONE: Self = Self { n_bytes: 0, of: 0 };

    /// Takes so many bytes.
    ///
    /// # Errors
    /// If there are not as many left.
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

/// That `n_bytes` are left to be taken.
///
/// # Errors
/// If not.
pub(crate) fn check(n_bytes: usize) -> Result<(), TensorError> {
    Lease::take(n_bytes).map(drop)
}

/// That `n_bytes` may be taken for what lasts longer than the step that makes it: they are counted to
/// the end of the allowance.
///
/// # Errors
/// If there are not as many left.
pub fn charge(n_bytes: usize) -> Result<(), TensorError> {
    std::mem::forget(Lease::take(n_bytes)?);
    Ok(())
}

/// `n` times `value`, in memory that was asked for and is counted to the end of the allowance.
///
/// # Errors
/// If there is no memory for them.
pub fn filled<T: Clone>(value: T, n: usize) -> Result<Vec<T>, TensorError> {
    Room::filled(value, n).map(Room::into_vec)
}

/// An empty vector with room for `n` elements, counted to the end of the allowance.
///
/// # Errors
/// If there is no memory for them.
pub fn with_room<T>(n: usize) -> Result<Vec<T>, TensorError> {
    Room::with_room(n).map(Room::into_vec)
}

/// All that `items` give, counted to the end of the allowance.
///
/// # Errors
/// If there is no memory for them.
pub fn collected<T>(items: impl IntoIterator<Item = T>) -> Result<Vec<T>, TensorError> {
    Room::of(items).map(Room::into_vec)
}

/// All that `items` give, up to the first error, counted to the end of the allowance.
///
/// # Errors
/// That error; or there is no memory for them, or the run has ended.
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

/// A slice whose memory was asked for.
pub struct Room<T> {
    data: Vec<T>,
    lease: Lease,
}

impl<T> Room<T> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self { data: Vec::new(), lease: Lease::NONE }
    }

    /// Room for `n` elements, none there yet.
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
    /// If there is no memory for them.
    pub fn filled(value: T, n: usize) -> Result<Self, TensorError>
    where
        T: Clone,
    {
        let mut room = Self::with_room(n)?;
        room.data.resize(n, value);
        Ok(room)
    }

    /// `n` times zero: pages that are never touched are never there.
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

    /// All that `items` give.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub fn of(items: impl IntoIterator<Item = T>) -> Result<Self, TensorError> {
        let items = items.into_iter();
        let mut room = Self::with_room(items.size_hint().0)?;
        room.extend(items)?;
        Ok(room)
    }

    /// Adds an element at the end.
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

    /// Adds all that `items` give.
    ///
    /// # Errors
    /// If there is no memory for them, or the run has ended.
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

    /// Makes it `n` elements long, new ones with this value.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub fn resize(&mut self, n: usize, value: T) -> Result<(), TensorError>
    where
        T: Clone,
    {
        if n > self.data.capacity() {
            self.grow(n - self.data.len())?;
        }
        self.data.resize(n, value);
        Ok(())
    }

    /// Keeps the first `n` elements.
    pub fn truncate(&mut self, n: usize) {
        self.data.truncate(n);
    }

    /// Removes all elements; their memory stays.
    pub fn clear(&mut self) {
        self.data.clear();
    }

    /// As a vector, which is counted to the end of the allowance.
    pub fn into_vec(self) -> Vec<T> {
        std::mem::forget(self.lease);
        self.data
    }

    /// Room for `n` more, and for as many again as there are, so that growing by one is cheap.
    fn grow(&mut self, n: usize) -> Result<(), TensorError> {
        let more = n.max(self.data.len()).max(4);
        let n_bytes = bytes_of::<T>(self.data.len().saturating_add(more))?;
        // The old memory is there until all is moved.
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

    /// The memory counts as free from here on, as whoever consumes it does not take more.
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
