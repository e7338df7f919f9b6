//! The open jobs, and the workers that sleep until there is one.
//!
//! A job borrows from its caller's stack, and workers are threads that outlive the call, which the
//! compiler cannot check. The invariant: workers reach a job only through the list, under its lock,
//! and count themselves inside before they release it; a caller removes its job from the list and
//! waits until no worker is inside before it returns, also if a part panics.
#![expect(unsafe_code, reason = "threads that outlive a call take part in its work")]

use std::mem::transmute;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;

use crate::job::Job;

/// The jobs that are open.
pub(crate) struct Jobs {
    /// The number of jobs ever opened. Spinning workers read nothing else.
    n_opened: CachePadded<AtomicUsize>,
    state: Mutex<State>,
    /// Workers inside any job.
    n_inside: AtomicUsize,
    /// A sleeping worker has been woken, or the pool is shut down.
    called: Condvar,
    /// A worker has left a job while a caller slept.
    left: Condvar,
    /// Callers that sleep until workers have left their jobs.
    n_waiting: AtomicUsize,
}

struct State {
    open: Vec<&'static Job<'static>>,
    n_workers: usize,
    /// Sleeping workers, including those that are being woken.
    n_asleep: usize,
    /// Sleepers that have been notified and have not woken yet.
    n_called: usize,
    is_over: bool,
}

impl State {
    /// Counts up to `n` more sleepers as called, and returns how many.
    fn call(&mut self, n: usize) -> usize {
        let n = n.min(self.n_asleep - self.n_called);
        self.n_called += n;
        n
    }

    /// The same, unless a worker is awake, or waking, without work: `n_inside` have some.
    fn call_if_none_is_free(&mut self, n: usize, n_inside: &AtomicUsize) -> usize {
        let n_active = self.n_workers - (self.n_asleep - self.n_called);
        if n_active > n_inside.load(Ordering::Relaxed) { 0 } else { self.call(n) }
    }
}

impl Jobs {
    /// No job, and `n_workers` workers that start with [`Jobs::begin`].
    pub(crate) fn new(n_workers: usize) -> Self {
        let (open, n_asleep) = (Vec::new(), n_workers);
        let state = State { open, n_workers, n_asleep, n_called: 0, is_over: false };
        Self {
            n_opened: CachePadded::new(AtomicUsize::new(0)),
            state: Mutex::new(state),
            n_inside: AtomicUsize::new(0),
            called: Condvar::new(),
            left: Condvar::new(),
            n_waiting: AtomicUsize::new(0),
        }
    }

    /// Calls `body`; workers may enter the job meanwhile. When this returns or unwinds, no worker is inside
    /// and none can enter. Until the last has left, `spin` is called; once that returns, the caller sleeps.
    pub(crate) fn open(&self, job: &Job<'_>, spin: impl Fn(&Job<'_>), body: impl FnOnce()) {
        // SAFETY: only lifetimes change. The reference is reached through `open` alone, which is
        // private to this file: `enter` hands it out in an `Inside` that counts as inside the job as
        // long as it lives, and `Open` neither returns nor unwinds before the reference is off the
        // list and no worker is inside.
        let erased = unsafe { transmute::<&Job<'_>, &'static Job<'static>>(job) };
        let _open = Open { jobs: self, job: erased, spin: || spin(job) };
        let n_called = {
            let mut state = self.lock();
            state.open.push(erased);
            self.n_opened.fetch_add(1, Ordering::Release);
            state.call_if_none_is_free(1, &self.n_inside)
        };
        self.notify(n_called);
        body();
    }

    /// Enters a job that has parts to take, if one is open.
    pub(crate) fn enter(&self) -> Option<Inside<'_>> {
        let mut state = self.lock();
        let job = *state.open.iter().find(|job| job.n_left() > 0)?;
        job.enter();
        self.n_inside.fetch_add(1, Ordering::Relaxed);
        // A worker that finds more work than its own wakes up to two others, so that the caller need not.
        let n_wanted = job.n_left().saturating_sub(1).min(2);
        let n_called = state.call_if_none_is_free(n_wanted, &self.n_inside);
        drop(state);
        self.notify(n_called);
        Some(Inside { jobs: self, job })
    }

    /// The number of jobs ever opened: when it changes, there may be a job to enter.
    pub(crate) fn n_opened(&self) -> usize {
        self.n_opened.load(Ordering::Acquire)
    }

    /// Wakes a worker, if all of them sleep.
    pub(crate) fn wake(&self) {
        let n_called = {
            let mut state = self.lock();
            if state.n_asleep - state.n_called == state.n_workers { state.call(1) } else { 0 }
        };
        self.notify(n_called);
    }

    fn notify(&self, n_called: usize) {
        (0..n_called).for_each(|_| self.called.notify_one());
    }

    /// The number of workers awake or being woken.
    pub(crate) fn n_active(&self) -> usize {
        let state = self.lock();
        state.n_workers - (state.n_asleep - state.n_called)
    }

    /// Puts the worker to sleep until it is called, unless more than `n_opened` jobs have been opened;
    /// `false` after shutdown.
    pub(crate) fn sleep(&self, n_opened: usize) -> bool {
        let mut state = self.lock();
        if self.n_opened() != n_opened {
            return !state.is_over;
        }
        state.n_asleep += 1;
        self.until_called(state)
    }

    /// The same for a worker that has just started and counts as asleep.
    pub(crate) fn begin(&self) -> bool {
        self.until_called(self.lock())
    }

    fn until_called(&self, mut state: MutexGuard<'_, State>) -> bool {
        while state.n_called == 0 && !state.is_over {
            state = self.called.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.n_called = state.n_called.saturating_sub(1);
        state.n_asleep -= 1;
        !state.is_over
    }

    /// Shuts down: sleeping workers exit, and those that wake see it.
    pub(crate) fn end(&self) {
        self.lock().is_over = true;
        self.n_opened.fetch_add(1, Ordering::Release);
        self.called.notify_all();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.lock().is_over
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A job that is open as long as this value lives.
struct Open<'a, S: Fn()> {
    jobs: &'a Jobs,
    job: &'static Job<'static>,
    spin: S,
}

impl<S: Fn()> Drop for Open<'_, S> {
    fn drop(&mut self) {
        self.jobs.lock().open.retain(|&job| !std::ptr::eq(job, self.job));
        (self.spin)();
        if self.job.is_left() {
            return;
        }
        // A worker that leaves after this sees the waiting caller; one that left before is already counted.
        self.jobs.n_waiting.fetch_add(1, Ordering::SeqCst);
        let mut state = self.jobs.lock();
        while !self.job.is_left() {
            state = self.jobs.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        self.jobs.n_waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A worker inside a job.
pub(crate) struct Inside<'a> {
    jobs: &'a Jobs,
    job: &'static Job<'static>,
}

impl Inside<'_> {
    pub(crate) fn work(&self) {
        self.job.work_as_worker();
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.jobs.n_inside.fetch_sub(1, Ordering::Relaxed);
        // The last use of the job. Sequentially consistent, like `Job::is_left`, for callers that sleep until then.
        self.job.n_inside().fetch_sub(1, Ordering::SeqCst);
        if self.jobs.n_waiting.load(Ordering::SeqCst) > 0 {
            drop(self.jobs.lock());
            self.jobs.left.notify_all();
        }
    }
}
