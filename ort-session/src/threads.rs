//! The threads of a run: the caller, always at work itself, and helpers that the process shares.

mod count;
mod crew;
mod quota;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ort_ep::{ExecutionProvider, Threads};

pub use self::count::{MachineThreads, ThreadCount};
use self::crew::{Crew, InRun};
pub use self::quota::CpuQuota;

/// Helpers beside the calling thread.
#[derive(Clone)]
pub(crate) struct Pool {
    /// None where the caller works alone.
    crew: Option<Arc<Crew>>,
    n_threads: usize,
}

impl Pool {
    /// A pool of `n_threads`, the caller included. All of a process that are as large are one; its
    /// threads end with the last of them.
    pub(crate) fn new(n_threads: usize) -> Result<Self, rayon::ThreadPoolBuildError> {
        static SHARED: Mutex<Vec<(usize, Weak<Crew>)>> = Mutex::new(Vec::new());
        let n_threads = n_threads.max(1);
        if n_threads == 1 {
            return Ok(Self { crew: None, n_threads });
        }
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.retain(|(_, crew)| crew.strong_count() > 0);
        let ready = shared.iter().find(|(n, _)| *n == n_threads).and_then(|(_, c)| c.upgrade());
        let crew = match ready {
            Some(crew) => crew,
            None => {
                let crew = Arc::new(Crew::new(n_threads - 1)?);
                shared.push((n_threads, Arc::downgrade(&crew)));
                crew
            }
        };
        Ok(Self { crew: Some(crew), n_threads })
    }

    /// Keeps the helpers for a run, which lasts as long as the guard.
    pub(crate) fn run(&self) -> Option<InRun<'_>> {
        self.crew.as_ref().map(|crew| crew.run())
    }

    pub(crate) const fn n_threads(&self) -> usize {
        self.n_threads
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({} threads)", self.n_threads)
    }
}

/// A pool whose every thread computes in the scope of the session's providers.
#[derive(Debug)]
pub(crate) struct ScopedThreads<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) providers: &'a [Arc<dyn ExecutionProvider>],
}

impl Threads for ScopedThreads<'_> {
    fn count(&self) -> usize {
        self.pool.n_threads
    }

    fn for_each(&self, n: usize, part: &(dyn Fn(usize) + Sync)) {
        match &self.pool.crew {
            Some(crew) if n > 1 => {
                crew.for_each(n, part, &|body| scoped(self.providers, body));
            }
            _ => (0..n).for_each(part),
        }
    }
}

/// Calls `body` within the scope of every provider.
pub(crate) fn scoped(providers: &[Arc<dyn ExecutionProvider>], body: &mut dyn FnMut()) {
    match providers.split_first() {
        None => body(),
        Some((first, rest)) => first.scope(&mut || scoped(rest, body)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::atomic::{AtomicU32, Ordering};

    fn assert_each_once(threads: &dyn Threads, n: usize) {
        let done: Vec<AtomicU32> = (0..n).map(|_| AtomicU32::new(0)).collect();
        threads.for_each(n, &|i| {
            done[i].fetch_add(1, Ordering::Relaxed);
        });
        assert!(done.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }

    #[test]
    fn every_part_is_done_once_with_any_number_of_threads() {
        for n_threads in [1, 2, 3, 8] {
            let pool = Pool::new(n_threads).unwrap();
            let threads = ScopedThreads { pool: &pool, providers: &[] };
            assert_eq!(threads.count(), n_threads);
            for n in [0, 1, 2, 7, 100, 10_000] {
                assert_each_once(&threads, n);
            }
        }
    }

    #[test]
    fn callers_at_once_share_the_helpers() {
        for n_threads in [2, 4] {
            let pool = Pool::new(n_threads).unwrap();
            std::thread::scope(|scope| {
                for caller in 0..6 {
                    let threads = ScopedThreads { pool: &pool, providers: &[] };
                    scope.spawn(move || {
                        (0..300).for_each(|n| assert_each_once(&threads, n + caller))
                    });
                }
            });
        }
    }

    #[test]
    fn parts_may_have_parts() {
        let pool = Pool::new(3).unwrap();
        let threads = ScopedThreads { pool: &pool, providers: &[] };
        for _ in 0..100 {
            threads.for_each(20, &|i| assert_each_once(&threads, i));
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_harms_nobody_else() {
        let pool = Pool::new(2).unwrap();
        let threads = ScopedThreads { pool: &pool, providers: &[] };
        for n in 0..200 {
            let fail = |i| {
                if i == n % 50 {
                    resume_unwind(Box::new("part"));
                }
            };
            let result = catch_unwind(AssertUnwindSafe(|| threads.for_each(50, &fail)));
            assert_eq!(result.unwrap_err().downcast_ref(), Some(&"part"));
            assert_each_once(&threads, 50);
        }
    }

    #[test]
    fn pools_of_a_size_are_one_and_end_with_the_last() {
        // A size that no other test asks for.
        let (one, other) = (Pool::new(6).unwrap(), Pool::new(6).unwrap());
        let crew = |pool: &Pool| pool.crew.as_ref().map(Arc::downgrade).unwrap();
        let shared = crew(&one);
        assert!(shared.ptr_eq(&crew(&other)));
        drop((one, other));
        assert!(shared.upgrade().is_none());
    }
}
