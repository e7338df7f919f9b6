//! Threads that take part in jobs: they look for one, spin for the next, and sleep.

use std::fmt;
use std::hint::spin_loop;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use crossbeam_utils::CachePadded;
use web_time::{Duration, Instant};

use crate::job::{Around, Job};
use crate::jobs::Jobs;
use crate::parts::Parts;

/// Pauses between two reads of the clock: half a µs where a pause takes 140 cycles, as on Skylake.
const PAUSES: u32 = 8;

/// How long threads spin before they sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spin {
    /// A worker without work during a run, and a caller that waits for the workers' last parts.
    pub in_runs: Duration,
    /// A worker while there is no run.
    pub between_runs: Duration,
}

/// Threads that take part in the jobs of any number of callers. They exit when this is dropped.
pub struct Workers {
    shared: Arc<Shared>,
    /// Wait for threads to exit.
    joins: Mutex<Vec<Join>>,
}

/// Starts threads, for programs that create their own.
pub trait Spawn: fmt::Debug + Send + Sync {
    /// Starts a thread that calls `work`. The result waits for its end; it is called when workers are dropped.
    ///
    /// # Errors
    ///
    /// If there is no thread.
    fn spawn(&self, name: String, work: Box<dyn FnOnce() + Send>) -> io::Result<Join>;
}

/// Waits for a thread to exit.
pub type Join = Box<dyn FnOnce() + Send>;

/// Threads of the system. Nobody waits for them.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemThreads;

impl Spawn for SystemThreads {
    fn spawn(&self, name: String, work: Box<dyn FnOnce() + Send>) -> io::Result<Join> {
        thread::Builder::new().name(name).spawn(work)?;
        Ok(Box::new(|| ()))
    }
}

/// Workers that cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The system cannot start a thread.
    #[error("cannot start a thread: {0}")]
    Spawn(#[source] io::Error),
    /// The set-up of a worker failed.
    #[error("cannot set up a worker: {0}")]
    Begin(#[source] io::Error),
}

struct Shared {
    n_workers: usize,
    jobs: Jobs,
    spin: Spin,
    /// The number of runs in progress.
    n_runs: CachePadded<AtomicUsize>,
}

impl Workers {
    /// Starts `n` workers, asleep, each after a call of `begin` with its index.
    ///
    /// # Errors
    ///
    /// The first [`StartError`] of a worker; no worker is left then.
    pub fn new(
        n: usize,
        spin: Spin,
        begin: impl Fn(usize) -> io::Result<()> + Clone + Send + 'static,
    ) -> Result<Self, StartError> {
        Self::spawned(n, spin, begin, &SystemThreads)
    }

    /// The same on threads that `threads` starts.
    ///
    /// # Errors
    ///
    /// As [`Workers::new`].
    pub fn spawned(
        n: usize,
        spin: Spin,
        begin: impl Fn(usize) -> io::Result<()> + Clone + Send + 'static,
        threads: &dyn Spawn,
    ) -> Result<Self, StartError> {
        let n_runs = CachePadded::new(AtomicUsize::new(0));
        let shared = Arc::new(Shared { n_workers: n, jobs: Jobs::new(n), spin, n_runs });
        // Dropped on an error, which stops the workers that have started.
        let workers = Self { shared, joins: Mutex::default() };
        let (sender, results) = mpsc::channel();
        for i in 0..n {
            let (shared, begin, sender) = (workers.shared.clone(), begin.clone(), sender.clone());
            let work = move || {
                let begun = begin(i);
                let is_ready = begun.is_ok();
                // No receiver is left if another worker has failed.
                if sender.send(begun).is_ok() && is_ready {
                    shared.work();
                }
            };
            let spawned = threads.spawn(format!("ort-worker-{i}"), Box::new(work));
            workers.joins().push(spawned.map_err(StartError::Spawn)?);
        }
        results.iter().take(n).collect::<io::Result<()>>().map_err(StartError::Begin)?;
        Ok(workers)
    }

    fn joins(&self) -> MutexGuard<'_, Vec<Join>> {
        self.joins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of workers awake or being woken, with work or without.
    pub fn n_active(&self) -> usize {
        self.shared.jobs.n_active()
    }

    /// Marks a run as in progress while the guard lives, so that workers spin for its next job.
    pub fn run(&self) -> InRun<'_> {
        self.shared.n_runs.fetch_add(1, Ordering::Relaxed);
        InRun(&self.shared)
    }

    /// Wakes a worker, which wakes the others, if all sleep; not if they never spin in runs, or would have no work.
    pub fn wake(&self) {
        if !self.shared.spin.in_runs.is_zero() && !self.shared.is_crowded() {
            self.shared.jobs.wake();
        }
    }

    /// Calls `part(i)` for each `i < n`, each once, on the calling thread and on workers, there within
    /// `around`; on the calling thread alone while more runs than workers are in progress.
    ///
    /// # Panics
    ///
    /// If a part panics, after all others are done or have panicked.
    pub fn for_each(&self, n: usize, part: &(dyn Fn(usize) + Sync), around: Around<'_>) {
        if n < 2 {
            return (0..n).for_each(part);
        }
        let job = Job::new(Parts::new(n, part), around);
        if self.shared.is_crowded() {
            job.work_as_caller();
            return job.resume_panic();
        }
        self.shared.jobs.open(&job, |job| self.shared.until_left(job), || job.work_as_caller());
        job.resume_panic();
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Workers({} active)", self.n_active())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.jobs.end();
        let joins = std::mem::take(&mut *self.joins());
        joins.into_iter().for_each(|join| join());
    }
}

/// A run for whose jobs workers spin.
pub struct InRun<'a>(&'a Shared);

impl fmt::Debug for InRun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InRun")
    }
}

impl Drop for InRun<'_> {
    fn drop(&mut self) {
        self.0.n_runs.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    /// Whether the callers of runs are as many threads as callers and workers of one run: each computes alone, and
    /// workers sleep, since they would only take processors from callers.
    fn is_crowded(&self) -> bool {
        self.n_runs.load(Ordering::Relaxed) > self.n_workers
    }

    /// The main loop of a worker.
    fn work(&self) {
        let mut is_active = self.jobs.begin();
        while is_active {
            // Read before looking for jobs, so that one opened later is noticed.
            let n_opened = self.jobs.n_opened();
            while !self.is_crowded()
                && let Some(job) = self.jobs.enter()
            {
                job.work();
            }
            is_active = self.until_opened(n_opened);
        }
    }

    /// Waits until more than `n_opened` jobs have been opened; `false` after shutdown.
    fn until_opened(&self, n_opened: usize) -> bool {
        let start = Instant::now();
        loop {
            for _ in 0..PAUSES {
                if self.jobs.n_opened() != n_opened {
                    return !self.jobs.is_over();
                }
                spin_loop();
            }
            let limit = match self.n_runs.load(Ordering::Relaxed) {
                0 => self.spin.between_runs,
                _ if self.is_crowded() => Duration::ZERO,
                _ => self.spin.in_runs,
            };
            if start.elapsed() >= limit {
                return self.jobs.sleep(n_opened);
            }
        }
    }

    /// Spins until no worker is inside the job, for a limited time.
    fn until_left(&self, job: &Job<'_>) {
        if job.is_left() {
            return;
        }
        let start = Instant::now();
        while start.elapsed() < self.spin.in_runs {
            for _ in 0..PAUSES {
                if job.is_left() {
                    return;
                }
                spin_loop();
            }
        }
    }
}
