//! Cancellation of a run as seen by kernels: the conditions of a run's watch, without
//! its borrows.

use std::sync::Arc;

use ort_ep::Threads;
use ort_tensor::{Ending, ended_by};
use web_time::Instant;

use crate::cancel::Cancel;

/// A cancellation token and a deadline.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(super) cancel: Option<Cancel>,
    pub(super) deadline: Option<Instant>,
}

impl Ending for Ends {
    fn is_ended(&self) -> bool {
        self.cancel.as_ref().is_some_and(Cancel::is_cancelled)
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// Threads that skip the remaining parts once their run is cancelled. The kernel's results are then
/// invalid, and the run checks for cancellation before they are read.
#[derive(Debug)]
pub(crate) struct EndingThreads<'a> {
    pub(crate) threads: &'a dyn Threads,
    pub(crate) ending: &'a Arc<dyn Ending>,
}

impl Threads for EndingThreads<'_> {
    fn count(&self) -> usize {
        self.threads.count()
    }

    fn for_each(&self, n: usize, part: &(dyn Fn(usize) + Sync)) {
        self.threads.for_each(n, &|i| self.unless_ended(i, part));
    }

    fn for_each_within(
        &self,
        n: usize,
        part: &(dyn Fn(usize) + Sync),
        around: &(dyn Fn(&mut dyn FnMut()) + Sync),
    ) {
        self.threads.for_each_within(n, &|i| self.unless_ended(i, part), around);
    }
}

impl EndingThreads<'_> {
    fn unless_ended(&self, i: usize, part: &(dyn Fn(usize) + Sync)) {
        if !self.ending.is_ended() {
            ended_by(self.ending, || part(i));
        }
    }
}
