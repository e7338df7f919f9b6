//! The threads of a run: the caller, which always computes, and workers that the process shares.

mod affinities;
mod branches;
mod count;
mod cpu_time;
mod memory;
mod options;
mod quota;
mod rayon_pool;
mod shared;

use std::fmt;
use std::sync::Arc;

use ort_ep::{ExecutionProvider, Threads};
use ort_threads::{Around, InRun, Workers};

pub use self::affinities::{Affinities, AffinityError};
pub(crate) use self::branches::BranchOptions;
pub use self::branches::ExecutionMode;
pub use self::count::{MachineThreads, ThreadCount};
pub use self::cpu_time::cpu_time;
pub(crate) use self::memory::{memory_share, within_share};
pub(crate) use self::options::PoolOptions;
pub use self::quota::CpuQuota;
pub use self::shared::SharedPool;

/// Worker threads besides the calling thread.
#[derive(Clone)]
pub(crate) struct Pool {
    helpers: Helpers,
    n_threads: usize,
}

#[derive(Clone)]
enum Helpers {
    /// The caller computes alone.
    None,
    /// Workers of ort-threads.
    Workers(Arc<Workers>),
    /// The user's pool.
    Rayon(Arc<rayon::ThreadPool>),
    /// Another user-provided implementation.
    Threads(Arc<dyn Threads>),
}

impl Pool {
    /// Keeps the workers spinning for a run, which lasts as long as the guard.
    pub(crate) fn run(&self) -> Option<InRun<'_>> {
        self.workers().map(Workers::run)
    }

    /// The same for a run whose branches run on another pool, or on this one, which counts the run once. A worker is
    /// woken in advance: one that arrives when branches are running can only take parts of their kernels.
    pub(crate) fn run_with<'a>(&'a self, branches: Option<&'a Self>) -> [Option<InRun<'a>>; 2] {
        let in_run = self.run();
        let Some(workers) = branches.and_then(Self::workers) else { return [in_run, None] };
        let is_other = self.workers().is_none_or(|own| !std::ptr::eq(own, workers));
        let in_branches = is_other.then(|| workers.run());
        workers.wake();
        [in_run, in_branches]
    }

    pub(crate) const fn n_threads(&self) -> usize {
        self.n_threads
    }

    /// The number of active workers of ours, busy or spinning.
    pub(crate) fn n_active(&self) -> usize {
        self.workers().map_or(0, Workers::n_active)
    }

    fn workers(&self) -> Option<&Workers> {
        match &self.helpers {
            Helpers::Workers(workers) => Some(workers),
            _ => None,
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({} threads)", self.n_threads)
    }
}

/// A pool whose threads all compute in the scope of the session's providers.
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
        self.for_each_within(n, part, &|body| body());
    }

    fn for_each_within(
        &self,
        n: usize,
        part: &(dyn Fn(usize) + Sync),
        around: &(dyn Fn(&mut dyn FnMut()) + Sync),
    ) {
        let around: Around<'_> = &|body| scoped(self.providers, &mut || around(body));
        match &self.pool.helpers {
            Helpers::Workers(workers) if n > 1 => workers.for_each(n, part, around),
            Helpers::Rayon(pool) if n > 1 => {
                rayon_pool::for_each(pool, self.pool.n_threads - 1, n, part, around);
            }
            Helpers::Threads(threads) if n > 1 => {
                threads.for_each(n, &|i| around(&mut || part(i)));
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
mod tests;
