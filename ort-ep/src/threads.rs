//! The threads of a run: a kernel divides its work into parts, the run assigns them to threads.

use std::fmt::Debug;

/// The threads of a run. Every call returns when all parts are done.
pub trait Threads: Debug + Send + Sync {
    /// The number of threads, including the caller; at least 1.
    fn count(&self) -> usize;

    /// Calls `part(i)` for each `i < n`, each once, on any thread, in any order. Best is the first
    /// part on the calling thread and the last on others, so that with consecutive steps split alike, a thread
    /// finds its own results in its caches.
    fn for_each(&self, n: usize, part: &(dyn Fn(usize) + Sync));

    /// The same; each thread but the caller's runs its parts within `around`: once for each part, or
    /// once for all of its parts.
    fn for_each_within(
        &self,
        n: usize,
        part: &(dyn Fn(usize) + Sync),
        around: &(dyn Fn(&mut dyn FnMut()) + Sync),
    ) {
        let caller = std::thread::current().id();
        self.for_each(n, &|i| match std::thread::current().id() {
            id if id == caller => part(i),
            _ => around(&mut || part(i)),
        });
    }
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
