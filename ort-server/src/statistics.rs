//! What a model has done, for metrics and statistics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::failure::Failure;

/// Upper bounds of the buckets of latencies, in milliseconds.
pub(crate) const BUCKETS_MS: [f64; 14] =
    [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4];

/// The reasons of failures, as Triton names them.
pub(crate) const REASONS: [&str; 4] = ["REJECTED", "CANCELED", "BACKEND", "OTHER"];

/// Runs are counted by their batch for at most so many sizes: clients choose them.
const MAX_SIZES: usize = 256;

/// Counters since the model was loaded.
#[derive(Debug, Default)]
pub(crate) struct Statistics {
    /// From decoded requests to their answers.
    pub(crate) succeeded: Total,
    pub(crate) failed: Total,
    /// By reason.
    pub(crate) n_failed: [Counter; REASONS.len()],
    pub(crate) queued: Total,
    /// The times of requests in runs: a request of a batch has that of the whole batch.
    pub(crate) ran: Times,
    /// Inferences: the rows of a batch, or one for each request without batching.
    pub(crate) n_inferences: Counter,
    pub(crate) n_runs: Counter,
    /// The time of the last answer, in milliseconds since 1970.
    pub(crate) last_ms: Counter,
    /// Requests by their latency; the last bucket has no bound.
    pub(crate) latencies: [Counter; BUCKETS_MS.len() + 1],
    /// The times of runs, by their inferences.
    sizes: Mutex<BTreeMap<usize, Times>>,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number of events, and their total time in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Total {
    pub(crate) n: Counter,
    pub(crate) ns: Counter,
}

impl Total {
    fn add(&self, time: Duration, n: u64) {
        self.n.add(n);
        self.ns.add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).saturating_mul(n));
    }
}

/// The times of runs: to join the inputs of a batch, to compute, and to split its outputs.
#[derive(Debug, Default)]
pub(crate) struct Times {
    pub(crate) inputs: Total,
    pub(crate) compute: Total,
    pub(crate) outputs: Total,
}

impl Times {
    fn add(&self, run: &RunTimes, n: u64) {
        self.inputs.add(run.start.saturating_duration_since(run.taken), n);
        self.compute.add(run.end.saturating_duration_since(run.start), n);
        self.outputs.add(run.done.saturating_duration_since(run.end), n);
    }
}

/// When a run took its requests from the queue, started, ended, and had the outputs of each request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunTimes {
    pub(crate) taken: Instant,
    pub(crate) start: Instant,
    pub(crate) end: Instant,
    pub(crate) done: Instant,
}

impl Statistics {
    /// A request was answered, successfully or not.
    pub(crate) fn answered(&self, time: Duration, outcome: Result<(), &Failure>) {
        match outcome {
            Ok(()) => self.succeeded.add(time, 1),
            Err(failure) => {
                self.failed.add(time, 1);
                let reason = failure.reason();
                let counters = REASONS.iter().zip(&self.n_failed);
                let counter = counters.into_iter().find(|(known, _)| **known == reason);
                counter.into_iter().for_each(|(_, counter)| counter.add(1));
            }
        }
        let ms = time.as_secs_f64() * 1e3;
        let bucket = BUCKETS_MS.partition_point(|&bound| bound < ms);
        self.latencies[bucket].add(1);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.last_ms.0.fetch_max(now, Ordering::Relaxed);
    }

    /// A request has waited in the queue.
    pub(crate) fn waited(&self, time: Duration) {
        self.queued.add(time, 1);
    }

    /// A run has computed `n_rows` inferences for `n_requests`.
    pub(crate) fn add_run(&self, times: &RunTimes, n_rows: usize, n_requests: usize) {
        self.n_runs.add(1);
        self.n_inferences.add(u64::try_from(n_rows).unwrap_or(u64::MAX));
        self.ran.add(times, u64::try_from(n_requests).unwrap_or(u64::MAX));
        let mut sizes = self.sizes();
        if sizes.len() < MAX_SIZES || sizes.contains_key(&n_rows) {
            sizes.entry(n_rows).or_default().add(times, 1);
        }
    }

    /// The times of runs, by their inferences.
    pub(crate) fn sizes(&self) -> MutexGuard<'_, BTreeMap<usize, Times>> {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
