//! Records the steps of one run.

// collects are bounded: by the threads

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ort_ep::{DenormalsMet, ExecutionProvider, Threads};
use smallvec::SmallVec;
use web_time::{Duration, Instant};

use super::thread;
use super::trace::{Share, StepTime};
use super::work::StepWork;
use crate::plan::Step;
use crate::run::Observer;

/// Records the steps of one run. Threads that run its steps in parallel share it.
#[derive(Debug)]
pub(crate) struct Recorder<'a> {
    providers: &'a [Arc<dyn ExecutionProvider>],
    origin: Instant,
    steps: Mutex<Vec<StepTime>>,
    observer: Option<Observer<'a>>,
}

impl<'a> Recorder<'a> {
    /// Times are relative to `origin`; `n_steps` is the initial capacity.
    pub(crate) fn new(
        providers: &'a [Arc<dyn ExecutionProvider>],
        origin: Instant,
        n_steps: usize,
    ) -> Self {
        // bounded: by the steps of the plan
        let steps = Mutex::new(Vec::with_capacity(n_steps));
        Self { providers, origin, steps, observer: None }
    }

    /// The same, which also passes the values that steps compute to an observer.
    pub(crate) fn observed_by(self, observer: Observer<'a>) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// The observer of computed values.
    pub(crate) const fn observer(&self) -> Option<Observer<'a>> {
        self.observer
    }

    /// The provider that runs a step.
    pub(crate) fn provider(&self, step: &Step) -> Option<&'a dyn ExecutionProvider> {
        step.provider().map(|index| &*self.providers[index])
    }

    /// Starts watching a step, which is to be run with the result as its threads.
    pub(crate) fn watch<'t>(&self, step: &Step, threads: &'t dyn Threads) -> Watch<'t>
    where
        'a: 't,
    {
        let helpers = (1..threads.count()).map(|_| Helper::default()).collect();
        Watch {
            threads,
            provider: self.provider(step),
            origin: self.origin,
            caller: thread::id(),
            helpers,
            met: AtomicU8::new(UNREPORTED),
        }
    }

    /// Records a step that took from `start` until now.
    pub(crate) fn note(&self, watch: &Watch<'_>, times: (Duration, Duration), work: Arc<StepWork>) {
        let (start, end) = times;
        let step = StepTime {
            work,
            start,
            time: end - start,
            thread: watch.caller,
            helpers: watch.helpers.iter().filter_map(Helper::share).collect(),
            denormals: watch.denormals(),
        };
        // Only threads of this run contend, and only if it runs steps in parallel.
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).push(step);
    }

    /// The origin of times.
    pub(super) const fn origin(&self) -> Instant {
        self.origin
    }

    pub(crate) fn into_steps(self) -> Vec<StepTime> {
        self.steps.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Denormals were not reported.
const UNREPORTED: u8 = 0;
/// Denormals were reported.
const REPORTED: u8 = 1;
/// A denormal operand was met.
const OPERANDS: u8 = 2;
/// A denormal result was met.
const RESULTS: u8 = 4;

/// The instrumented threads of one step.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    threads: &'a dyn Threads,
    provider: Option<&'a dyn ExecutionProvider>,
    origin: Instant,
    caller: u64,
    helpers: SmallVec<[Helper; 1]>,
    met: AtomicU8,
}

impl Watch<'_> {
    /// Runs the step on the thread that started to watch it; returns its start and end.
    pub(crate) fn step(&self, run: &mut dyn FnMut()) -> (Duration, Duration) {
        let start = self.origin.elapsed();
        self.watched(run);
        (start, self.origin.elapsed())
    }

    fn watched(&self, body: &mut dyn FnMut()) {
        let met = match self.provider {
            Some(provider) => provider.watch(body),
            None => {
                body();
                None
            }
        };
        if let Some(DenormalsMet { operands, results }) = met {
            let bit = |is_met, bit| if is_met { bit } else { 0 };
            let met = REPORTED | bit(operands, OPERANDS) | bit(results, RESULTS);
            if self.met.load(Ordering::Relaxed) | met != self.met.load(Ordering::Relaxed) {
                self.met.fetch_or(met, Ordering::Relaxed);
            }
        }
    }

    fn denormals(&self) -> Option<DenormalsMet> {
        let met = self.met.load(Ordering::Relaxed);
        let has = |bit| met & bit != 0;
        has(REPORTED).then(|| DenormalsMet { operands: has(OPERANDS), results: has(RESULTS) })
    }

    /// The work of another thread on the step.
    fn helped(&self, body: &mut dyn FnMut()) {
        let thread = thread::id();
        // Already watched, as all work of the caller is.
        if thread == self.caller {
            return body();
        }
        let start = self.origin.elapsed();
        self.watched(body);
        let end = self.origin.elapsed();
        if let Some(helper) = self.helpers.iter().find(|helper| helper.is_of(thread)) {
            helper.add(start, end);
        }
    }
}

impl Threads for Watch<'_> {
    fn count(&self) -> usize {
        self.threads.count()
    }

    fn for_each(&self, n: usize, part: &(dyn Fn(usize) + Sync)) {
        self.threads.for_each_within(n, part, &|body| self.helped(body));
    }

    fn for_each_within(
        &self,
        n: usize,
        part: &(dyn Fn(usize) + Sync),
        around: &(dyn Fn(&mut dyn FnMut()) + Sync),
    ) {
        self.threads.for_each_within(n, part, &|body| self.helped(&mut || around(body)));
    }
}

/// The share of one thread in a step. Only that thread writes to it.
#[derive(Debug, Default)]
struct Helper {
    /// 0 while it is unused.
    thread: AtomicU64,
    n_turns: AtomicU64,
    start: AtomicU64,
    end: AtomicU64,
    busy: AtomicU64,
}

impl Helper {
    /// Whether it belongs to this thread; an unused one is assigned to it.
    fn is_of(&self, thread: u64) -> bool {
        let found = self.thread.compare_exchange(0, thread, Ordering::Relaxed, Ordering::Relaxed);
        found.is_ok() || found == Err(thread)
    }

    fn add(&self, start: Duration, end: Duration) {
        if self.n_turns.fetch_add(1, Ordering::Relaxed) == 0 {
            self.start.store(nanos(start), Ordering::Relaxed);
        }
        self.end.store(nanos(end), Ordering::Relaxed);
        self.busy.fetch_add(nanos(end - start), Ordering::Relaxed);
    }

    fn share(&self) -> Option<Share> {
        let time = |nanos: &AtomicU64| Duration::from_nanos(nanos.load(Ordering::Relaxed));
        let share = Share {
            thread: self.thread.load(Ordering::Relaxed),
            n_turns: self.n_turns.load(Ordering::Relaxed),
            start: time(&self.start),
            time: time(&self.end).saturating_sub(time(&self.start)),
            busy: time(&self.busy),
        };
        (share.n_turns > 0).then_some(share)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
