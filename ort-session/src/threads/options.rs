//! The choice of threads for a future session.

use std::sync::Arc;
use std::time::Duration;

use ort_ep::Threads;
use ort_threads::{Spawn, SystemThreads, Workers};

use super::shared::{SharedPool, WorkerOptions, spin};
use super::{Affinities, Helpers, Pool, ThreadCount};
use crate::builder::SessionBuilder;
use crate::error::SessionError;

/// The threads of a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolOptions {
    pub(super) given: Option<Given>,
    pub(crate) is_own: bool,
    /// Starts the workers.
    pub(crate) spawn: Option<Arc<dyn Spawn>>,
    pub(crate) shared: Option<SharedPool>,
    pub(crate) spinning: Spinning,
    pub(crate) between_runs: Option<Duration>,
    pub(crate) affinities: Affinities,
}

/// The spin duration in a run. Whether and how long are two keys of ONNX Runtime's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spinning {
    pub(crate) is_off: bool,
    pub(crate) limit: Option<Duration>,
}

impl Spinning {
    pub(crate) const fn new(time: Duration) -> Self {
        Self { is_off: false, limit: Some(time) }
    }

    /// The duration, if one was set.
    pub(super) fn time(self) -> Option<Duration> {
        if self.is_off { Some(Duration::ZERO) } else { self.limit }
    }

    /// This, with missing values from `other`.
    pub(super) fn or(self, other: Self) -> Self {
        if self.time().is_some() { self } else { other }
    }
}

/// User-provided threads.
#[derive(Clone, Debug)]
pub(super) enum Given {
    Workers(Arc<rayon::ThreadPool>),
    Threads(Arc<dyn Threads>),
}

impl PoolOptions {
    /// The number of user-provided threads, if there are any.
    pub(crate) fn n_given(&self) -> Option<usize> {
        self.given.as_ref().map(|given| match given {
            Given::Workers(workers) => workers.current_num_threads(),
            Given::Threads(threads) => threads.count().max(1),
        })
    }

    /// A pool of `n_threads`, including the caller. Pools with the same options are shared in the process, unless a
    /// session wants its own; its threads exit when the last user is dropped.
    pub(crate) fn pool(&self, n_threads: usize) -> Result<Pool, SessionError> {
        let n_threads = n_threads.max(1);
        let helpers = match &self.given {
            Some(Given::Threads(threads)) => Helpers::Threads(threads.clone()),
            Some(Given::Workers(workers)) => Helpers::Rayon(workers.clone()),
            None => {
                let (n_groups, n_helpers) = (self.affinities.len(), n_threads - 1);
                if n_groups != 0 && n_groups != n_helpers {
                    return Err(SessionError::Affinities { n_groups, n_helpers });
                }
                match n_helpers {
                    0 => Helpers::None,
                    _ => Helpers::Workers(self.workers(n_helpers)?),
                }
            }
        };
        Ok(Pool { helpers, n_threads })
    }

    fn workers(&self, n_workers: usize) -> Result<Arc<Workers>, SessionError> {
        let spin = spin(self.spinning.time(), self.between_runs);
        let options = WorkerOptions { n_workers, spin, affinities: self.affinities.clone() };
        if let Some(pool) = &self.shared {
            return pool.workers(options, self.spawn.as_deref().unwrap_or(&SystemThreads));
        }
        match &self.spawn {
            Some(threads) => options.start(&**threads),
            None if self.is_own => options.start(&SystemThreads),
            None => options.shared(),
        }
    }
}

/// Threads.
impl SessionBuilder {
    /// The maximum number of threads of a run without an explicit setting, such as the value of
    /// OMP_NUM_THREADS: the library itself reads no environment variable.
    #[must_use]
    pub fn max_threads(mut self, n_threads: usize) -> Self {
        self.max_threads = Some(n_threads);
        self
    }

    /// How many threads a session with these settings uses on this machine, and why.
    pub fn thread_count(&self) -> ThreadCount {
        ThreadCount::now(self.pool.n_given().or(self.n_threads), self.max_threads)
    }

    /// Whether the session has its own thread pool. By default, all sessions of a process with the same
    /// thread count, spin durations and affinities share one.
    #[must_use]
    pub fn own_pool(mut self, is_on: bool) -> Self {
        self.pool.is_own = is_on;
        self
    }

    /// Uses the workers of this pool. A run uses as many threads as the pool has, including the caller.
    /// Workers sleep when they have no work, and a parallel region waits for workers that are busy with
    /// something else. A caller that is itself one of them computes alone.
    ///
    /// Thread count, spinning and affinities do not apply to user-provided threads.
    #[must_use]
    pub fn thread_pool(mut self, workers: Arc<rayon::ThreadPool>) -> Self {
        self.pool.given = Some(Given::Workers(workers));
        self
    }

    /// Uses these threads: any implementation that distributes parts among threads. Otherwise as
    /// [`SessionBuilder::thread_pool`].
    #[must_use]
    pub fn thread_source(mut self, threads: Arc<dyn Threads>) -> Self {
        self.pool.given = Some(Given::Threads(threads));
        self
    }

    /// Starts the session's workers on threads of the program, for priorities and the like. The session has its own
    /// pool, and waits for the threads to exit when it is dropped.
    #[must_use]
    pub fn spawn_threads(mut self, threads: Arc<dyn Spawn>) -> Self {
        self.pool.spawn = Some(threads);
        self
    }

    /// Uses the workers of this pool, which other sessions with the same thread count, spin durations and affinities use,
    /// too. The first of them starts the workers, with its [`SessionBuilder::spawn_threads`].
    #[must_use]
    pub fn shared_pool(mut self, pool: &SharedPool) -> Self {
        self.pool.shared = Some(pool.clone());
        self
    }

    /// The spin duration of workers during a run, and of the caller waiting for its workers; 1 ms by
    /// default. Zero disables spinning, during runs and after them, and each parallel region has to
    /// wake sleeping workers, which takes tens of µs.
    #[must_use]
    pub fn spinning(mut self, time: Duration) -> Self {
        self.pool.spinning = Spinning::new(time);
        self
    }

    /// The spin duration of workers after a run; 50 µs by default, or that during a run if it is
    /// shorter.
    #[must_use]
    pub fn spinning_between_runs(mut self, time: Duration) -> Self {
        self.pool.between_runs = Some(time);
        self
    }

    /// The processors that each worker may run on: one group for each thread but the caller, or none at
    /// all. Another number of groups, and processors that the system rejects, are errors when the
    /// session is built.
    #[must_use]
    pub fn thread_affinities(mut self, affinities: Affinities) -> Self {
        self.pool.affinities = affinities;
        self
    }
}
