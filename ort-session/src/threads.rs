//! The threads of a run: one pool for the whole process, the caller always at work itself.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use ort_ep::{ExecutionProvider, Threads};

/// How many threads a session uses that was not told: the smallest of the affinity mask, the
/// cgroup's CPU quota (both through [`std::thread::available_parallelism`]) and the number of
/// physical cores; at least 1.
pub(crate) fn default_count() -> usize {
    let allowed = std::thread::available_parallelism().map_or(1, usize::from);
    allowed.min(num_cpus::get_physical()).max(1)
}

/// Workers beside the calling thread.
#[derive(Clone)]
pub(crate) struct Pool {
    /// None where the caller works alone.
    workers: Option<Arc<rayon::ThreadPool>>,
    n_threads: usize,
}

impl Pool {
    /// A pool of `n_threads`, the caller included. As many as the machine has by default come from
    /// the pool that the process shares; more get a pool of their own.
    pub(crate) fn new(n_threads: usize) -> Result<Self, rayon::ThreadPoolBuildError> {
        static SHARED: OnceLock<Arc<rayon::ThreadPool>> = OnceLock::new();
        let n_threads = n_threads.max(1);
        if n_threads == 1 {
            return Ok(Self { workers: None, n_threads });
        }
        let default = default_count();
        let workers = if n_threads > default {
            build(n_threads - 1)?
        } else if let Some(shared) = SHARED.get() {
            shared.clone()
        } else {
            let built = build(default - 1)?;
            SHARED.get_or_init(|| built).clone()
        };
        Ok(Self { workers: Some(workers), n_threads })
    }

    pub(crate) const fn n_threads(&self) -> usize {
        self.n_threads
    }
}

fn build(n_workers: usize) -> Result<Arc<rayon::ThreadPool>, rayon::ThreadPoolBuildError> {
    let builder = rayon::ThreadPoolBuilder::new().num_threads(n_workers);
    builder.thread_name(|i| format!("ort-worker-{i}")).build().map(Arc::new)
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
        let Some(workers) = self.pool.workers.as_ref().filter(|_| n > 1) else {
            return (0..n).for_each(part);
        };
        // Whoever is free takes the next part; the caller starts at once and needs nobody.
        let next = AtomicUsize::new(0);
        let take = || {
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= n {
                    return;
                }
                part(i);
            }
        };
        workers.in_place_scope(|scope| {
            for _ in 1..self.pool.n_threads.min(n) {
                scope.spawn(|_| scoped(self.providers, &mut || take()));
            }
            take();
        });
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
    use std::sync::atomic::AtomicU32;

    #[test]
    fn every_part_is_done_once_with_any_number_of_threads() {
        for n_threads in [1, 2, 3, 8] {
            let pool = Pool::new(n_threads).unwrap();
            let threads = ScopedThreads { pool: &pool, providers: &[] };
            assert_eq!(threads.count(), n_threads);
            for n in [0, 1, 2, 7, 100] {
                let done: Vec<AtomicU32> = (0..n).map(|_| AtomicU32::new(0)).collect();
                threads.for_each(n, &|i| {
                    done[i].fetch_add(1, Ordering::Relaxed);
                });
                assert!(done.iter().all(|count| count.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn the_default_is_at_least_one_and_at_most_what_is_allowed() {
        let allowed = std::thread::available_parallelism().map_or(1, usize::from);
        assert!((1..=allowed).contains(&default_count()));
    }
}
