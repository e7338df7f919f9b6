//! The parts of one step's work, taken by its threads.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// `part(i)` for each `i < n`, each taken once by some thread. The caller takes the first remaining part
/// and workers the last, so that where consecutive kernels split their work alike, a thread finds its own
/// results in its caches.
pub struct Parts<'a> {
    /// The first remaining part in the lower half, the end in the upper.
    left: AtomicU64,
    part: &'a (dyn Fn(usize) + Sync),
}

/// Two part indices, far below 2³².
const fn pair(start: usize, end: usize) -> u64 {
    (end as u64) << 32 | start as u64
}

fn range(pair: u64) -> Range<usize> {
    let half = |x: u64| usize::try_from(x & u64::from(u32::MAX)).unwrap_or(usize::MAX);
    half(pair)..half(pair >> 32)
}

impl<'a> Parts<'a> {
    /// `n` parts, none of them taken.
    pub fn new(n: usize, part: &'a (dyn Fn(usize) + Sync)) -> Self {
        Self { left: AtomicU64::new(pair(0, n)), part }
    }

    /// The number of parts left to take.
    pub fn n_left(&self) -> usize {
        range(self.left.load(Ordering::Relaxed)).len()
    }

    /// Takes the first part and runs it; `false` if none is left.
    pub fn first(&self) -> bool {
        self.one(|left| (left.start, left.start + 1..left.end))
    }

    /// Takes the last part and runs it; `false` if none is left.
    pub fn last(&self) -> bool {
        self.one(|left| (left.end - 1, left.start..left.end - 1))
    }

    fn one(&self, take: impl Fn(Range<usize>) -> (usize, Range<usize>)) -> bool {
        let rest = |old| {
            let left = Some(range(old)).filter(|left| !left.is_empty())?;
            let (_, rest) = take(left);
            Some(pair(rest.start, rest.end))
        };
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest);
        let taken = taken.map(|old| take(range(old)).0);
        if let Ok(i) = taken {
            (self.part)(i);
        }
        taken.is_ok()
    }
}

impl fmt::Debug for Parts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parts({:?})", range(self.left.load(Ordering::Relaxed)))
    }
}
