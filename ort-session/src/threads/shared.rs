//! Workers shared by all sessions of the process with the same options.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use ort_threads::{Spawn, Spin, StartError, SystemThreads, Workers};

use super::Affinities;
use crate::error::SessionError;

/// The options of workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WorkerOptions {
    pub(super) n_workers: usize,
    pub(super) spin: Spin,
    pub(super) affinities: Affinities,
}

/// The spin durations. By default 1 ms in a run, so that workers stay awake during a sequential
/// step, and between runs the time it takes to wake a thread, so that spinning at most doubles
/// the cost of sleeping.
pub(super) fn spin(in_runs: Option<Duration>, between_runs: Option<Duration>) -> Spin {
    let in_runs = in_runs.unwrap_or(Duration::from_millis(1));
    let between_runs = between_runs.unwrap_or(Duration::from_micros(50).min(in_runs));
    Spin { in_runs, between_runs }
}

impl WorkerOptions {
    /// Starts workers for one session, on threads that `threads` starts.
    pub(super) fn start(self, threads: &dyn Spawn) -> Result<Arc<Workers>, SessionError> {
        let Self { n_workers, spin, affinities } = self;
        let pinned = affinities.clone();
        let workers = Workers::spawned(n_workers, spin, move |worker| pinned.pin(worker), threads);
        workers.map(Arc::new).map_err(|error| match error {
            StartError::Begin(source) => SessionError::Affinity { affinities, source },
            error => SessionError::Threads { n_threads: n_workers + 1, reason: error.to_string() },
        })
    }

    /// The shared workers of this process with these options.
    pub(super) fn shared(self) -> Result<Arc<Workers>, SessionError> {
        static SHARED: Mutex<Vec<(WorkerOptions, Weak<Workers>)>> = Mutex::new(Vec::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.retain(|(_, workers)| workers.strong_count() > 0);
        let ready = shared.iter().find(|(other, _)| *other == self);
        if let Some(workers) = ready.and_then(|(_, workers)| workers.upgrade()) {
            return Ok(workers);
        }
        let workers = self.clone().start(&SystemThreads)?;
        shared.push((self, Arc::downgrade(&workers)));
        Ok(workers)
    }
}

/// Workers of sessions that name it, whoever starts the threads: those of the first session with the same options.
/// They exit when this is dropped, and all its sessions.
///
/// ```
/// use ort_session::{Session, SharedPool};
///
/// let pool = SharedPool::default();
/// let builder = Session::builder().threads(2).shared_pool(&pool);
/// # let _ = builder;
/// ```
#[derive(Clone, Debug, Default)]
pub struct SharedPool(Arc<Mutex<Vec<(WorkerOptions, Arc<Workers>)>>>);

impl SharedPool {
    /// Its workers with these options.
    pub(super) fn workers(
        &self,
        options: WorkerOptions,
        threads: &dyn Spawn,
    ) -> Result<Arc<Workers>, SessionError> {
        let mut pools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, workers)) = pools.iter().find(|(other, _)| *other == options) {
            return Ok(workers.clone());
        }
        let workers = options.clone().start(threads)?;
        pools.push((options, workers.clone()));
        Ok(workers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_default_workers_spin_no_longer_between_runs_than_in_one() {
        let microseconds = Duration::from_micros;
        for (in_runs, between_runs, expected) in [
            (None, None, (1_000, 50)),
            (Some(microseconds(20)), None, (20, 20)),
            (Some(microseconds(20)), Some(microseconds(30)), (20, 30)),
            (Some(microseconds(2000)), None, (2_000, 50)),
        ] {
            let expected =
                Spin { in_runs: microseconds(expected.0), between_runs: microseconds(expected.1) };
            assert_eq!(spin(in_runs, between_runs), expected);
        }
    }
}
