//! What a model has done, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::failure::Failure;

/// Upper bounds of the buckets of latencies, in milliseconds.
pub(crate) const BUCKETS_MS: [f64; 14] =
    [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4];

/// The reasons of failures, as Triton names them.
pub(crate) const REASONS: [&str; 4] = ["REJECTED", "CANCELED", "BACKEND", "OTHER"];

/// Counters since the model was loaded. Times are in microseconds.
#[derive(Debug, Default)]
pub(crate) struct Statistics {
    pub(crate) n_succeeded: Counter,
    /// By reason.
    pub(crate) n_failed: [Counter; REASONS.len()],
    /// Inferences: the rows of a batch, or one for each request without batching.
    pub(crate) n_inferences: Counter,
    pub(crate) n_runs: Counter,
    /// From the decoded request to its answer.
    pub(crate) request_us: Counter,
    pub(crate) queue_us: Counter,
    pub(crate) compute_us: Counter,
    /// Requests by their latency; the last bucket has no bound.
    pub(crate) latencies: [Counter; BUCKETS_MS.len() + 1],
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

impl Statistics {
    /// A request was answered, successfully or not.
    pub(crate) fn answered(&self, time: Duration, outcome: Result<(), &Failure>) {
        match outcome {
            Ok(()) => self.n_succeeded.add(1),
            Err(failure) => {
                let reason = failure.reason();
                let counters = REASONS.iter().zip(&self.n_failed);
                let counter = counters.into_iter().find(|(known, _)| **known == reason);
                counter.into_iter().for_each(|(_, counter)| counter.add(1));
            }
        }
        let ms = time.as_secs_f64() * 1e3;
        let bucket = BUCKETS_MS.partition_point(|&bound| bound < ms);
        self.latencies[bucket].add(1);
        self.request_us.add(microseconds(time));
    }

    /// A request has waited in the queue.
    pub(crate) fn queued(&self, time: Duration) {
        self.queue_us.add(microseconds(time));
    }

    /// A run has computed `n_rows` inferences.
    pub(crate) fn ran(&self, time: Duration, n_rows: usize) {
        self.n_runs.add(1);
        self.n_inferences.add(u64::try_from(n_rows).unwrap_or(u64::MAX));
        self.compute_us.add(microseconds(time));
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
