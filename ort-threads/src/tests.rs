//! Every part is done once, whoever sleeps, comes late, panics or calls at the same time.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;
use std::{io, thread};

use super::*;

const FOREVER: Duration = Duration::MAX;

fn workers(n: usize, spin: Duration) -> Workers {
    Workers::new(n, Spin { in_runs: spin, between_runs: spin }, |_| Ok(())).unwrap()
}

/// Workers that sleep at once, spin as by default, and never sleep once they are awake.
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
fn every_part_is_done_once() {
    for n_workers in [1, 2, 7] {
        for workers in all_kinds(n_workers) {
            [0, 1, 2, 3, 100, 10_000].into_iter().for_each(|n| assert_each_once(&workers, n));
        }
    }
}

#[test]
fn any_number_of_callers_share_workers() {
    for workers in [1, 3].into_iter().flat_map(all_kinds) {
        thread::scope(|scope| {
            for caller in 0..6 {
                let workers = &workers;
                scope.spawn(move || (0..300).for_each(|n| assert_each_once(workers, n + caller)));
            }
        });
    }
}

#[test]
fn parts_may_have_parts() {
    for workers in all_kinds(3) {
        for _ in 0..100 {
            workers.for_each(20, &|i| assert_each_once(&workers, i), &|body| body());
        }
    }
}

#[test]
fn a_worker_that_wakes_in_the_middle_of_a_part_finds_the_others_without_the_caller() {
    for workers in all_kinds(1) {
        let (caller, is_done) = (thread::current().id(), AtomicBool::new(false));
        let part = |i: usize| match i {
            // The caller comes back from its first part only when a worker has done the last.
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
        // Both threads of the other caller's job are inside a part until this one is through.
        barrier.wait();
        assert_each_once(&workers, 100);
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn workers_work_within_what_is_to_be_around_them_and_callers_do_not() {
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
fn a_panic_is_the_callers_after_all_parts_and_harms_nobody_else() {
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
fn workers_sleep_until_they_are_called_and_again_when_nothing_is_to_do() {
    let hasty = workers(3, Duration::ZERO);
    assert_eq!(hasty.n_active(), 0);
    let run = hasty.run();
    assert_each_once(&hasty, 1000);
    until(|| hasty.n_active() == 0);
    hasty.wake();
    assert_eq!(hasty.n_active(), 0, "who does not spin is not woken before there is work");
    drop(run);

    let in_runs = Spin { in_runs: FOREVER, between_runs: Duration::ZERO };
    let patient = Workers::new(1, in_runs, |_| Ok(())).unwrap();
    let run = patient.run();
    patient.wake();
    assert_eq!(patient.n_active(), 1);
    assert_each_once(&patient, 10);
    assert_eq!(patient.n_active(), 1);
    drop(run);
    until(|| patient.n_active() == 0);
}

#[test]
fn workers_end_with_their_owner_however_long_they_spin() {
    for spin in [Duration::ZERO, FOREVER] {
        let alive = Arc::new(());
        let held = alive.clone();
        let workers = Workers::new(2, Spin { in_runs: spin, between_runs: spin }, move |_| {
            // The thread's own, gone when it ends.
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
fn what_cannot_begin_is_an_error_and_leaves_no_thread() {
    let spin = Spin { in_runs: FOREVER, between_runs: FOREVER };
    let refuse = |i| if i == 1 { Err(io::Error::other("no")) } else { Ok(()) };
    let error = Workers::new(3, spin, refuse).unwrap_err();
    assert!(matches!(error, StartError::Begin(source) if source.to_string() == "no"));
}
