//! Who computes: a kernel says which parts there are, the run says who does them.

use std::fmt::Debug;

/// The threads of a run. Every call returns when all parts are done.
pub trait Threads: Debug + Send + Sync {
    /// How many threads there are, the caller included; at least 1.
    fn count(&self) -> usize;

    /// Calls `part(i)` for each `i < n`, each once, on any thread, in any order. Best is the first
    /// part on the calling thread and the last on others, so that a thread of two that share one
    /// image after the other finds in its caches what it made itself.
    fn for_each(&self, n: usize, part: &(dyn Fn(usize) + Sync));
}

/// The calling thread alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneThread;

impl Threads for OneThread {
    fn count(&self) -> usize {
        1
    }

    fn for_each(&self, n: usize, part: &(dyn Fn(usize) + Sync)) {
        (0..n).for_each(part);
    }
}
