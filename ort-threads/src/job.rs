//! One job: its parts, the number of workers inside, and the first panic.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::parts::Parts;

/// Calls its argument on a thread that is set up for the parts.
pub type Around<'a> = &'a (dyn Fn(&mut dyn FnMut()) + Sync);

/// The parts of one step's work, which the caller and workers share.
pub(crate) struct Job<'a> {
    parts: Parts<'a>,
    around: Around<'a>,
    n_inside: AtomicUsize,
    /// The panic of the first worker whose part had one.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl<'a> Job<'a> {
    pub(crate) fn new(parts: Parts<'a>, around: Around<'a>) -> Self {
        Self { parts, around, n_inside: AtomicUsize::new(0), panic: Mutex::new(None) }
    }

    /// Takes the first remaining part until there are none.
    pub(crate) fn work_as_caller(&self) {
        while self.parts.first() {}
    }

    /// Takes the last remaining part until there are none. The first panic is kept.
    pub(crate) fn work_as_worker(&self) {
        let work = || (self.around)(&mut || while self.parts.last() {});
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
        }
    }

    /// The number of parts left to take.
    pub(crate) fn n_left(&self) -> usize {
        self.parts.n_left()
    }

    pub(crate) fn enter(&self) {
        self.n_inside.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of workers inside, by which a worker leaves: `leave(&self)` would have an argument that must be valid
    /// until it returns, but the job may be freed as soon as the last worker has left.
    pub(crate) const fn n_inside(&self) -> &AtomicUsize {
        &self.n_inside
    }

    /// Whether no worker is inside.
    pub(crate) fn is_left(&self) -> bool {
        self.n_inside.load(Ordering::SeqCst) == 0
    }

    /// Resumes a worker's panic, if there was one.
    pub(crate) fn resume_panic(self) {
        if let Some(panic) = self.panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
            resume_unwind(panic);
        }
    }
}
