//! The bounded queue of a model's requests, and the forming of batches.
//!
//! One thread at a time forms a batch: it takes the first request, then those that fit it, until the batch is full or its
//! first request has waited for the maximum delay. Other idle threads wait meanwhile, since they would take what the
//! batch is waiting for.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ort_session::Cancel;
use tokio::sync::oneshot;

use super::batch::{self, Batching};
use crate::failure::Failure;
use crate::request::{Outputs, Request};

/// A request and where its answer goes.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) request: Request,
    pub(super) reply: oneshot::Sender<Result<Outputs, Failure>>,
    pub(super) cancel: Cancel,
    pub(super) queued: Instant,
}

impl Job {
    /// Releases the inputs, then answers; a caller that is gone needs no answer.
    pub(super) fn answer(self, outputs: Result<Outputs, Failure>) {
        drop(self.request);
        let _ = self.reply.send(outputs);
    }
}

/// Why a request is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rejected {
    Full { n: usize },
    Closed,
}

impl Rejected {
    pub(super) fn failure(self, name: &str) -> Failure {
        match self {
            Rejected::Full { n } => Failure::QueueFull { name: name.to_owned(), n },
            Rejected::Closed => Failure::Draining,
        }
    }
}

/// The waiting requests.
#[derive(Debug)]
pub(super) struct Queue {
    max_len: usize,
    pub(super) batching: Option<Batching>,
    state: Mutex<State>,
    /// A request arrived, a batch was formed, or the queue was closed.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Those of the running requests.
    running: Vec<Cancel>,
    is_forming: bool,
    /// Batches do not wait for more requests.
    is_draining: bool,
    is_closed: bool,
}

impl Queue {
    pub(super) fn new(max_len: usize, batching: Option<Batching>) -> Self {
        Self { max_len, batching, state: Mutex::default(), changed: Condvar::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.state().jobs.len()
    }

    /// Adds a request, unless the queue is full or closed.
    pub(super) fn push(&self, job: Job) -> Result<(), Rejected> {
        let mut state = self.state();
        if state.is_closed {
            return Err(Rejected::Closed);
        }
        if state.jobs.len() >= self.max_len {
            // Those whose callers are gone take no place.
            state.jobs.retain(|job| !job.cancel.is_cancelled());
        }
        if state.jobs.len() >= self.max_len {
            return Err(Rejected::Full { n: state.jobs.len() });
        }
        state.jobs.push_back(job);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// The next requests to run together, in order of arrival; `None` if the queue is closed and empty.
    pub(super) fn pop(&self) -> Option<Vec<Job>> {
        let mut state = self.state();
        let first = loop {
            if !state.is_forming {
                if let Some(job) = state.jobs.pop_front() {
                    break job;
                }
                if state.is_closed {
                    return None;
                }
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        let Some(batching) = &self.batching else { return Some(vec![first]) };
        state.is_forming = true;
        let (jobs, mut state) = self.formed(first, batching, state);
        state.is_forming = false;
        drop(state);
        self.changed.notify_all();
        Some(jobs)
    }

    /// A run starts, which `cancel` ends. It must be cancelled after the run, so that it is forgotten.
    pub(super) fn started(&self, cancel: &Cancel) {
        let mut state = self.state();
        state.running.retain(|cancel| !cancel.is_cancelled());
        state.running.push(cancel.clone());
    }

    /// A batch that starts with `first`.
    fn formed<'a>(
        &'a self,
        first: Job,
        batching: &Batching,
        mut state: MutexGuard<'a, State>,
    ) -> (Vec<Job>, MutexGuard<'a, State>) {
        let end = first.request.deadline.min(first.queued + batching.max_delay);
        let mut n_rows = batch::rows(&first.request).unwrap_or(batching.max_rows);
        let mut jobs = vec![first];
        loop {
            let mut i = 0;
            while let Some(job) = state.jobs.get(i) {
                let rows = batch::rows(&job.request)
                    .filter(|rows| n_rows.saturating_add(*rows) <= batching.max_rows);
                match rows.filter(|_| batch::fit(&jobs[0].request, &job.request)) {
                    Some(rows) => {
                        n_rows += rows;
                        jobs.extend(state.jobs.remove(i));
                    }
                    None => i += 1,
                }
            }
            let wait = end.saturating_duration_since(Instant::now());
            if n_rows >= batching.max_rows || wait.is_zero() || state.is_draining {
                return (jobs, state);
            }
            let woken = self.changed.wait_timeout(state, wait);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Batches no longer wait for more requests.
    pub(super) fn drain(&self) {
        self.state().is_draining = true;
        self.changed.notify_all();
    }

    /// Accepts no more requests; those that wait are still taken.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.drain();
    }

    /// Cancels all requests that wait or run.
    pub(super) fn cancel(&self) {
        let state = self.state();
        state
            .running
            .iter()
            .chain(state.jobs.iter().map(|job| &job.cancel))
            .for_each(Cancel::cancel);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
