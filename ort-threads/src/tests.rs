//! Every part runs once, even if workers sleep, arrive late or panic, or callers overlap.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;
use std::{io, thread};

use super::*;

const FOREVER: Duration = Duration::MAX;

/// Interpreted, tests do a small part of their work.
const SHARE: usize = if cfg!(miri) { 100 } else { 1 };

fn workers(n: usize, spin: Duration) -> Workers {
    Workers::new(n, Spin { in_runs: spin, between_runs: spin }, |_| Ok(())).unwrap()
}

/// Workers that sleep at once, that spin as by default, and that never sleep once awake.
fn all_kinds(n: usize) -> [Workers; 3] {
    [Duration::ZERO, Duration::from_micros(50), FOREVER].map(|spin| workers(n, spin))
}

fn assert_each_once(workers: &Workers, n: usize) {
    let done: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
    let part = |i: usize| {
        done[i].fetch_add(1, Ordering::Relaxed);
    };
    workers.for_each(n, &part, &|body| body());
    assert!(done.iter().all(|count| count.load(Ordering::Relaxed) == 1));
}

fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        thread::yield_now();
    }
}

#[test]
fn every_part_runs_once() {
    for n_workers in [1, 2, 7] {
        for workers in all_kinds(n_workers) {
            [0, 1, 2, 3, 100, 10_000 / SHARE]
                .into_iter()
                .for_each(|n| assert_each_once(&workers, n));
        }
    }
}

#[test]
fn any_number_of_callers_share_workers() {
    for workers in [1, 3].into_iter().flat_map(all_kinds) {
        thread::scope(|scope| {
            for caller in 0..6 {
                let workers = &workers;
                scope.spawn(move || {
                    (0..300 / SHARE).for_each(|n| assert_each_once(workers, n + caller))
                });
            }
        });
    }
}

#[test]
fn parts_may_be_nested() {
    for workers in all_kinds(3) {
        for _ in 0..100 / SHARE {
            workers.for_each(20, &|i| assert_each_once(&workers, i), &|body| body());
        }
    }
}

#[test]
fn a_worker_that_wakes_in_the_middle_of_a_part_finds_the_others_without_the_caller() {
    for workers in all_kinds(1) {
        let (caller, is_done) = (thread::current().id(), AtomicBool::new(false));
        let part = |i: usize| match i {
            // The caller returns from its first part only when a worker has done the last.
            0 => until(|| is_done.load(Ordering::Relaxed)),
            _ => {
                assert_ne!(thread::current().id(), caller, "part {i}");
                is_done.fetch_or(i == 1, Ordering::Relaxed);
            }
        };
        workers.for_each(9, &part, &|body| body());
    }
}

#[test]
fn one_caller_does_not_wait_for_workers_that_are_busy_for_another() {
    let (workers, barrier) = (workers(1, Duration::ZERO), Barrier::new(3));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let part = |_| {
                barrier.wait();
                until(|| is_over.load(Ordering::Relaxed));
            };
            workers.for_each(2, &part, &|body| body());
        });
        // Both threads of the other caller's job are inside a part until this caller has finished.
        barrier.wait();
        assert_each_once(&workers, 100);
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn around_wraps_the_work_of_workers_and_not_of_callers() {
    let (workers, n_around) = (workers(2, FOREVER), AtomicUsize::new(0));
    let caller = thread::current().id();
    let around = |body: &mut dyn FnMut()| {
        assert_ne!(thread::current().id(), caller);
        n_around.fetch_add(1, Ordering::Relaxed);
        body();
    };
    let is_done = AtomicBool::new(false);
    let part = |i: usize| match i {
        0 => until(|| is_done.load(Ordering::Relaxed)),
        _ => is_done.store(true, Ordering::Relaxed),
    };
    workers.for_each(2, &part, &around);
    assert!(n_around.load(Ordering::Relaxed) >= 1);
}

#[test]
fn a_panic_reaches_the_caller_after_all_parts_and_affects_no_other_job() {
    for workers in all_kinds(2) {
        for n in 0..200 {
            let n_running = AtomicUsize::new(0);
            let fail = |i| {
                n_running.fetch_add(1, Ordering::Relaxed);
                if i == n % 50 {
                    n_running.fetch_sub(1, Ordering::Relaxed);
                    resume_unwind(Box::new("part"));
                }
                n_running.fetch_sub(1, Ordering::Relaxed);
            };
            let run = || workers.for_each(50, &fail, &|body| body());
            let result = catch_unwind(AssertUnwindSafe(run));
            assert_eq!(result.unwrap_err().downcast_ref(), Some(&"part"));
            assert_eq!(n_running.load(Ordering::Relaxed), 0);
            assert_each_once(&workers, 50);
        }
    }
}

#[test]
fn workers_sleep_until_called_and_again_without_work() {
    let no_spin = workers(3, Duration::ZERO);
    assert_eq!(no_spin.n_active(), 0);
    let run = no_spin.run();
    assert_each_once(&no_spin, 1000);
    until(|| no_spin.n_active() == 0);
    no_spin.wake();
    assert_eq!(
        no_spin.n_active(),
        0,
        "workers that do not spin are not woken before there is work"
    );
    drop(run);

    let in_runs = Spin { in_runs: FOREVER, between_runs: Duration::ZERO };
    let spinning = Workers::new(1, in_runs, |_| Ok(())).unwrap();
    let run = spinning.run();
    spinning.wake();
    assert_eq!(spinning.n_active(), 1);
    assert_each_once(&spinning, 10);
    assert_eq!(spinning.n_active(), 1);
    drop(run);
    until(|| spinning.n_active() == 0);
}

#[test]
fn callers_of_as_many_runs_as_threads_compute_alone() {
    for workers in all_kinds(2) {
        let caller = thread::current().id();
        let runs = [workers.run(), workers.run(), workers.run()];
        workers.wake();
        let part = |_| assert_eq!(thread::current().id(), caller);
        (0..1000).for_each(|_| workers.for_each(10, &part, &|body| body()));
        assert_each_once(&workers, 1000);
        until(|| workers.n_active() == 0);

        drop(runs);
        let is_done = AtomicBool::new(false);
        let part = |i: usize| match i {
            0 => until(|| is_done.load(Ordering::Relaxed)),
            _ => is_done.store(true, Ordering::Relaxed),
        };
        workers.for_each(2, &part, &|body| body());
    }
}

#[test]
fn workers_end_with_their_owner_however_long_they_spin() {
    for spin in [Duration::ZERO, FOREVER] {
        let alive = Arc::new(());
        let held = alive.clone();
        let workers = Workers::new(2, Spin { in_runs: spin, between_runs: spin }, move |_| {
            // Thread-local: dropped when the thread exits.
            thread_local!(static HELD: std::cell::RefCell<Vec<Arc<()>>> = const { std::cell::RefCell::new(Vec::new()) });
            HELD.with_borrow_mut(|all| all.push(held.clone()));
            Ok(())
        });
        let workers = workers.unwrap();
        assert_each_once(&workers, 100);
        drop(workers);
        until(|| Arc::strong_count(&alive) == 1);
    }
}

#[test]
fn a_worker_that_cannot_start_is_an_error_and_leaves_no_thread() {
    let spin = Spin { in_runs: FOREVER, between_runs: FOREVER };
    let fail = |i| if i == 1 { Err(io::Error::other("no")) } else { Ok(()) };
    let error = Workers::new(3, spin, fail).unwrap_err();
    assert!(matches!(error, StartError::Begin(source) if source.to_string() == "no"));
}

/// Counts threads that have started and ended.
#[derive(Debug, Default)]
struct Counting(Arc<AtomicUsize>);

impl Spawn for Counting {
    fn spawn(&self, name: String, work: Box<dyn FnOnce() + Send>) -> io::Result<Join> {
        let n_alive = self.0.clone();
        n_alive.fetch_add(1, Ordering::Relaxed);
        let thread = thread::Builder::new().name(name).spawn(move || {
            work();
            n_alive.fetch_sub(1, Ordering::Relaxed);
        })?;
        Ok(Box::new(move || thread.join().unwrap()))
    }
}

#[test]
fn threads_of_a_program_have_ended_when_their_workers_are_dropped() {
    let threads = Counting::default();
    let spin = Spin { in_runs: Duration::ZERO, between_runs: Duration::ZERO };
    let workers = Workers::spawned(3, spin, |_| Ok(()), &threads).unwrap();
    assert_eq!(threads.0.load(Ordering::Relaxed), 3);
    assert_each_once(&workers, 100);
    drop(workers);
    assert_eq!(threads.0.load(Ordering::Relaxed), 0);
    let fail = |i| if i == 1 { Err(io::Error::other("no")) } else { Ok(()) };
    assert!(Workers::spawned(3, spin, fail, &threads).is_err());
    assert_eq!(threads.0.load(Ordering::Relaxed), 0);
}
