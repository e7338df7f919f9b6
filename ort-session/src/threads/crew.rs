//! Fork and join within a microsecond or two: helpers that wait awake while a run has work for them.
//!
//! ```text
//! seat:       EMPTY ─(called)→ CALLED ─(a worker wakes)→ FREE ─(hired)→ TAKEN ─(job done)→ FREE …
//! attendant:  sits in a seat, shows every while that it is awake, leaves 50 µs after the last run,
//!             or in a run after 1 ms without work, unless it is told to be more or less patient
//! caller:     for each part { hire a free seat, if there is one: give it the rest to share; compute }
//! ```
//!
//! A sleeping worker of rayon takes tens of µs to come, and a job it was given must be awaited. So
//! work that borrows goes only to a worker that is known to be awake: it is never waited for
//! because it sleeps, or because the system runs somebody else in its place. Who is alone calls an
//! attendant, which borrows nothing and which nobody awaits, and looks for one again before each
//! part. All attendants stay as long as anybody hires, so that rayon has no sleeper to wake.
//!
//! Without any patience there are no attendants: parts are jobs of rayon's.
//!
//! Measured on two cores at 3.7 GHz, with real-time priority: a fork and join of two parts costs
//! 1.5 µs beyond the work of the caller's part (rayon's scope alone: 6 µs), of which 0.3 µs is the
//! end of the scope.

use std::cell::Cell;
use std::fmt;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::affinities::Affinities;
use super::parts::Parts;
use super::{Around, asleep};
use crate::error::SessionError;

/// An attendant that was not seen for so long is not awake: it shows itself four times as often.
const STALE: u64 = 2_000;

/// Between two looks at the clock: half a µs where a pause takes 140 cycles, as on Skylake.
const PAUSES: u32 = 8;

/// Nobody sits here.
const EMPTY: u8 = 0;
/// An attendant is on its way.
const CALLED: u8 = 1;
/// An attendant waits for work.
const FREE: u8 = 2;
/// An attendant has work, or is about to get it.
const TAKEN: u8 = 3;

/// How long threads wait awake, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Patience {
    /// An attendant without work in a run, and a caller for the last parts.
    in_runs: u64,
    /// An attendant when nobody runs anything.
    between_runs: u64,
}

impl Patience {
    /// By default in a run as long as one part of a large kernel: who leaves while the other is at
    /// work misses the first half of the kernel after. Between runs what waking a thread takes, so
    /// that waiting at most doubles what sleeping would have cost.
    pub(super) fn new(in_runs: Option<Duration>, between_runs: Option<Duration>) -> Self {
        let in_runs = in_runs.unwrap_or(Duration::from_millis(1));
        let between_runs = between_runs.unwrap_or(Duration::from_micros(50).min(in_runs));
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self { in_runs: nanoseconds(in_runs), between_runs: nanoseconds(between_runs) }
    }
}

/// What makes a crew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CrewOptions {
    pub(super) n_helpers: usize,
    pub(super) patience: Patience,
    pub(super) affinities: Affinities,
}

/// Helpers of whoever forks. Any number of callers share them; who gets none works alone.
pub(super) struct Crew {
    workers: rayon::ThreadPool,
    seats: Arc<Seats>,
}

impl Crew {
    pub(super) fn new(options: CrewOptions) -> Result<Self, SessionError> {
        let CrewOptions { n_helpers, patience, affinities } = options;
        let builder = rayon::ThreadPoolBuilder::new().num_threads(n_helpers);
        let workers = builder.thread_name(|i| format!("ort-worker-{i}")).build();
        let workers = workers.map_err(|error| SessionError::Threads {
            n_threads: n_helpers + 1,
            reason: error.to_string(),
        })?;
        if !affinities.is_empty() {
            let pinned = workers.broadcast(|worker| affinities.pin(worker.index()));
            pinned.into_iter().collect::<Result<(), _>>().map_err(|source| {
                SessionError::Affinity { affinities: affinities.clone(), source }
            })?;
        }
        let seats = (0..n_helpers).map(|_| Seat::default()).collect();
        let seats = Seats {
            start: Instant::now(),
            patience,
            last_hired: AtomicU64::new(0),
            n_runs: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            seats,
        };
        Ok(Self { workers, seats: Arc::new(seats) })
    }

    /// The crew of this process that is made so.
    pub(super) fn shared(options: CrewOptions) -> Result<Arc<Self>, SessionError> {
        static SHARED: Mutex<Vec<(CrewOptions, Weak<Crew>)>> = Mutex::new(Vec::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.retain(|(_, crew)| crew.strong_count() > 0);
        let ready = shared.iter().find(|(other, _)| *other == options);
        if let Some(crew) = ready.and_then(|(_, crew)| crew.upgrade()) {
            return Ok(crew);
        }
        let crew = Arc::new(Self::new(options.clone())?);
        shared.push((options, Arc::downgrade(&crew)));
        Ok(crew)
    }

    /// How many helpers are awake, at work or waiting for it.
    pub(super) fn n_awake(&self) -> usize {
        self.seats.seats.iter().filter(|seat| !seat.is(EMPTY)).count()
    }

    /// Tells the helpers that a run lasts as long as the guard.
    pub(super) fn run(&self) -> InRun<'_> {
        self.seats.n_runs.fetch_add(1, Ordering::Relaxed);
        InRun(&self.seats)
    }

    /// Calls a helper, who wakes the others, if none is awake or on the way.
    pub(super) fn wake(&self) {
        if self.seats.patience.in_runs > 0 && self.n_awake() == 0 {
            self.call();
        }
    }

    /// Calls `part(i)` for each `i < n`, each once; those of helpers within `around`. A panic of a
    /// part is the caller's, after all others are done.
    pub(super) fn for_each(&self, n: usize, part: &(dyn Fn(usize) + Sync), around: Around<'_>) {
        if self.seats.patience.in_runs == 0 {
            return asleep::for_each(&self.workers, self.seats.seats.len(), n, part, around);
        }
        let parts = Parts::new(n, part);
        let Some(first) = self.alone(&parts) else { return };
        let n_working = AtomicUsize::new(0);
        let (parts, n_working) = (&parts, &n_working);
        self.workers.in_place_scope(|scope| {
            let mut hired = Some(first);
            loop {
                match hired {
                    Some(seat) => {
                        n_working.fetch_add(1, Ordering::Relaxed);
                        let leave = Leave { seat, n_working };
                        scope.spawn(move |_| {
                            let _leave = leave;
                            around(&mut || while parts.last() {});
                        });
                    }
                    None if !parts.first() => break,
                    None => {}
                }
                hired = self.hire(parts);
            }
            self.seats.wait_awake(|| n_working.load(Ordering::Acquire) == 0);
        });
    }

    /// Works until the parts are done or, which it returns, somebody is there to share them.
    fn alone(&self, parts: &Parts<'_>) -> Option<&Seat> {
        let mut has_called = false;
        loop {
            if let Some(seat) = self.hire(parts) {
                return Some(seat);
            }
            has_called = has_called || !parts.are_many() || self.call();
            if !parts.first() {
                return None;
            }
        }
    }

    /// Takes somebody who is awake, if there is more to do than the caller's next part.
    fn hire(&self, parts: &Parts<'_>) -> Option<&Seat> {
        if parts.are_many() { self.seats.hire() } else { None }
    }

    /// Calls somebody to an empty seat, if there is one.
    fn call(&self) -> bool {
        let called = self.seats.seats.iter().position(Seat::call);
        if let Some(index) = called {
            let seats = self.seats.clone();
            self.workers.spawn(move || attend(&seats, index));
        }
        called.is_some()
    }
}

impl fmt::Debug for Crew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Crew({} helpers)", self.seats.seats.len())
    }
}

/// Attendants leave, however patient they are.
impl Drop for Crew {
    fn drop(&mut self) {
        self.seats.is_over.store(true, Ordering::Relaxed);
    }
}

/// A run during which helpers stay.
pub(crate) struct InRun<'a>(&'a Seats);

impl Drop for InRun<'_> {
    fn drop(&mut self) {
        self.0.n_runs.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Frees the seat when the job is done, also by a panic.
struct Leave<'a> {
    seat: &'a Seat,
    n_working: &'a AtomicUsize,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.seat.state.store(FREE, Ordering::Release);
        self.n_working.fetch_sub(1, Ordering::Release);
    }
}

/// Where attendants sit.
struct Seats {
    start: Instant,
    patience: Patience,
    /// When somebody last looked for help.
    last_hired: AtomicU64,
    /// How many runs there are just now.
    n_runs: AtomicUsize,
    /// Whether the crew is gone.
    is_over: AtomicBool,
    seats: Box<[Seat]>,
}

/// Lines of memory of its own, since its attendant writes to it again and again.
#[derive(Default)]
#[repr(align(128))]
struct Seat {
    state: AtomicU8,
    /// When the attendant was last seen awake.
    seen: AtomicU64,
}

impl Seats {
    /// Nanoseconds since these seats exist.
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Takes a seat whose attendant is free and awake.
    fn hire(&self) -> Option<&Seat> {
        let now = self.now();
        self.last_hired.store(now, Ordering::Relaxed);
        self.seats.iter().find(|seat| {
            let is_awake = || now.saturating_sub(seat.seen.load(Ordering::Relaxed)) < STALE;
            seat.state.load(Ordering::Relaxed) == FREE && is_awake() && seat.turn(FREE, TAKEN)
        })
    }

    /// Waits awake, but not for long, until `is_done`.
    fn wait_awake(&self, is_done: impl Fn() -> bool) {
        let start = self.now();
        while !is_done() && self.now() - start < self.patience.in_runs {
            (0..PAUSES).take_while(|_| !is_done()).for_each(|_| spin_loop());
        }
    }
}

impl Seat {
    fn turn(&self, from: u8, to: u8) -> bool {
        let turned = self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
        turned.is_ok()
    }

    fn is(&self, state: u8) -> bool {
        self.state.load(Ordering::Acquire) == state
    }

    fn call(&self) -> bool {
        self.is(EMPTY) && self.turn(EMPTY, CALLED)
    }
}

/// Sits in a seat, as a worker of the crew, until there has been no work for a while.
fn attend(seats: &Arc<Seats>, index: usize) {
    thread_local! {
        static IS_ATTENDING: Cell<bool> = const { Cell::new(false) };
    }
    let seat = &seats.seats[index];
    // A worker that looks for its work may find a call instead: it sits already.
    if IS_ATTENDING.replace(true) {
        return seat.state.store(EMPTY, Ordering::Release);
    }
    // Who comes first wakes the others, so that the caller need not.
    for other in [2 * index + 1, 2 * index + 2] {
        if seats.seats.get(other).is_some_and(Seat::call) {
            let seats = seats.clone();
            rayon::spawn(move || attend(&seats, other));
        }
    }
    let mut last_work = seats.now();
    seat.seen.store(last_work, Ordering::Relaxed);
    seat.state.store(FREE, Ordering::Release);
    loop {
        (0..PAUSES).take_while(|_| seat.is(FREE)).for_each(|_| spin_loop());
        let now = seats.now();
        seat.seen.store(now, Ordering::Relaxed);
        if seat.is(TAKEN) {
            // The work is in the pool's queue, or will be in a moment.
            while seat.is(TAKEN) && rayon::yield_now().is_some() {
                spin_loop();
            }
            last_work = seats.now();
        }
        let since = last_work.max(seats.last_hired.load(Ordering::Relaxed));
        let patience = match seats.n_runs.load(Ordering::Relaxed) {
            0 => seats.patience.between_runs,
            _ => seats.patience.in_runs,
        };
        let has_patience = now.saturating_sub(since) <= patience;
        if (!has_patience || seats.is_over.load(Ordering::Relaxed)) && seat.turn(FREE, EMPTY) {
            break;
        }
    }
    IS_ATTENDING.set(false);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_patient_helper_ends_with_its_crew() {
        let patience = Patience::new(Some(Duration::MAX), Some(Duration::MAX));
        let options = CrewOptions { n_helpers: 1, patience, affinities: Affinities::default() };
        let crew = Crew::new(options).unwrap();
        assert!(crew.call());
        while !crew.seats.seats[0].is(FREE) {
            std::thread::yield_now();
        }
        let seats = Arc::downgrade(&crew.seats);
        drop(crew);
        while seats.strong_count() > 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn helpers_are_no_more_patient_between_runs_than_in_one_unless_they_are_told() {
        let microseconds = Duration::from_micros;
        for (in_runs, between_runs, expected) in [
            (None, None, (1_000_000, 50_000)),
            (Some(microseconds(20)), None, (20_000, 20_000)),
            (Some(microseconds(20)), Some(microseconds(30)), (20_000, 30_000)),
            (Some(microseconds(2000)), None, (2_000_000, 50_000)),
            (Some(Duration::MAX), Some(Duration::ZERO), (u64::MAX, 0)),
        ] {
            let patience = Patience::new(in_runs, between_runs);
            assert_eq!((patience.in_runs, patience.between_runs), expected);
        }
    }
}
