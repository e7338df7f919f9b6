//! Every kind of pool runs every part once.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::*;
use crate::builder::SessionBuilder;
use crate::error::SessionError;
use crate::resolved::Resolved;
use crate::session::Session;

/// Longer than any test takes.
const FOREVER: Duration = Duration::from_secs(1_000_000);

fn pool_of(n_threads: usize, builder: &SessionBuilder) -> Pool {
    builder.pool.pool(n_threads).unwrap()
}

/// A pool of each kind with this many threads.
fn pools(n_threads: usize) -> [Pool; 4] {
    let workers = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().unwrap();
    [
        Session::builder(),
        Session::builder().own_pool(true),
        Session::builder().spinning(Duration::ZERO),
        Session::builder().thread_pool(Arc::new(workers)),
    ]
    .map(|builder| pool_of(n_threads, &builder))
}

fn assert_each_once(threads: &dyn Threads, n: usize) {
    let done: Vec<AtomicU32> = (0..n).map(|_| AtomicU32::new(0)).collect();
    threads.for_each(n, &|i| {
        done[i].fetch_add(1, Ordering::Relaxed);
    });
    assert!(done.iter().all(|count| count.load(Ordering::Relaxed) == 1));
}

#[test]
fn every_part_runs_once_with_any_number_of_threads() {
    for n_threads in [1, 2, 3, 8] {
        for pool in pools(n_threads) {
            let threads = ScopedThreads { pool: &pool, providers: &[] };
            assert_eq!(threads.count(), n_threads);
            for n in [0, 1, 2, 7, 100, 10_000] {
                assert_each_once(&threads, n);
            }
        }
    }
}

#[test]
fn concurrent_callers_share_the_workers() {
    for pool in [2, 4].into_iter().flat_map(pools) {
        std::thread::scope(|scope| {
            for caller in 0..6 {
                let threads = ScopedThreads { pool: &pool, providers: &[] };
                scope.spawn(move || (0..300).for_each(|n| assert_each_once(&threads, n + caller)));
            }
        });
    }
}

#[test]
fn parts_may_be_nested() {
    for pool in pools(3) {
        let threads = ScopedThreads { pool: &pool, providers: &[] };
        for _ in 0..100 {
            threads.for_each(20, &|i| assert_each_once(&threads, i));
        }
    }
}

#[test]
fn a_panic_reaches_the_caller_and_affects_no_other_job() {
    for pool in pools(2) {
        let threads = ScopedThreads { pool: &pool, providers: &[] };
        for n in 0..200 {
            let fail = |i| {
                if i == n % 50 {
                    resume_unwind(Box::new("part"));
                }
            };
            let result = catch_unwind(AssertUnwindSafe(|| threads.for_each(50, &fail)));
            assert_eq!(result.unwrap_err().downcast_ref(), Some(&"part"));
            assert_each_once(&threads, 50);
        }
    }
}

#[test]
fn workers_that_call_compute_alone() {
    let workers = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap());
    let pool = pool_of(2, &Session::builder().thread_pool(workers.clone()));
    workers.install(|| {
        let caller = std::thread::current().id();
        let threads = ScopedThreads { pool: &pool, providers: &[] };
        threads.for_each(100, &|_| assert_eq!(std::thread::current().id(), caller));
    });
}

#[test]
fn equal_pools_are_shared_unless_a_session_wants_its_own() {
    // A size that no other test uses.
    let of = |builder: &SessionBuilder| pool_of(6, builder);
    let workers = |pool: &Pool| std::ptr::from_ref(pool.workers().unwrap()).addr();
    let common = Session::builder();
    let (one, other) = (of(&common), of(&common));
    assert_eq!(workers(&one), workers(&other));
    let spinning = common.clone().spinning(Duration::from_millis(2));
    let (spinning, spinning_too) = (of(&spinning), of(&spinning));
    assert_eq!(workers(&spinning), workers(&spinning_too));
    assert_ne!(workers(&spinning), workers(&one));
    let own = common.own_pool(true);
    let (own, own_too) = (of(&own), of(&own));
    assert_ne!(workers(&own), workers(&own_too));
    assert_ne!(workers(&own), workers(&one));
    let Helpers::Workers(shared) = &one.helpers else { unreachable!("invariant: it has helpers") };
    let shared = Arc::downgrade(shared);
    drop((one, other));
    assert!(shared.upgrade().is_none());
}

/// Runs parts until a worker runs one or spins, and returns the number of active workers
/// then. On one processor, a spinning worker may never be observed.
fn work_until_helped(pool: &Pool) -> usize {
    let caller = std::thread::current().id();
    let threads = ScopedThreads { pool, providers: &[] };
    let n_helped = AtomicU32::new(0);
    while n_helped.load(Ordering::Relaxed) == 0 && pool.n_active() == 0 {
        threads.for_each(4, &|_| {
            if std::thread::current().id() != caller {
                n_helped.fetch_add(1, Ordering::Relaxed);
            }
            std::thread::sleep(Duration::from_micros(100));
        });
    }
    pool.n_active()
}

#[test]
fn workers_spin_for_the_configured_duration() {
    let own = |time| Session::builder().own_pool(true).spinning(time);
    let none = pool_of(2, &own(Duration::ZERO));
    let run = none.run();
    work_until_helped(&none);
    while none.n_active() > 0 {
        std::thread::yield_now();
    }
    drop(run);
    // Only in a run, and also after it.
    let in_runs = pool_of(2, &own(FOREVER).spinning_between_runs(Duration::ZERO));
    let run = in_runs.run();
    assert_eq!(work_until_helped(&in_runs), 1, "in a run");
    drop(run);
    while in_runs.n_active() > 0 {
        std::thread::yield_now();
    }
    let always = pool_of(2, &own(FOREVER).spinning_between_runs(FOREVER));
    assert_eq!(work_until_helped(&always), 1, "after runs");
    assert_eq!(always.n_active(), 1);
}

#[test]
fn runs_with_branches_wake_a_worker_in_advance() {
    let spinning = Session::builder().own_pool(true).spinning(FOREVER);
    let pool = pool_of(2, &spinning.spinning_between_runs(Duration::ZERO));
    let run = pool.run_with(None);
    assert_eq!(pool.n_active(), 0);
    drop(run);
    // On the same pool, the run is one, so that the worker is not one too many.
    let with_branches = pool.run_with(Some(&pool));
    assert_eq!(pool.n_active(), 1);
    drop(with_branches);
    let no_spin = pool_of(2, &Session::builder().own_pool(true).spinning(Duration::ZERO));
    let _run = pool.run_with(Some(&no_spin));
    assert_eq!(no_spin.n_active(), 0);
}

#[test]
fn the_number_of_affinities_is_the_number_of_workers() {
    for (text, n_threads, expected) in
        [("1;1", 2, Some((2, 1))), ("1", 1, Some((1, 0))), ("1", 3, Some((1, 2))), ("", 3, None)]
    {
        let builder = Session::builder().thread_affinities(text.parse().unwrap());
        let counts = match builder.pool.pool(n_threads) {
            Err(SessionError::Affinities { n_groups, n_helpers }) => Some((n_groups, n_helpers)),
            _ => None,
        };
        assert_eq!(counts, expected, "{text}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn unknown_processors_are_an_error() {
    let builder = Session::builder().thread_affinities("1024".parse().unwrap());
    let error = builder.pool.pool(2).unwrap_err();
    assert!(matches!(error, SessionError::Affinity { .. }), "{error}");
}

/// Whether both have the same workers.
fn is_same(one: &Pool, other: &Pool) -> bool {
    match (&one.helpers, &other.helpers) {
        (Helpers::Workers(one), Helpers::Workers(other)) => Arc::ptr_eq(one, other),
        (Helpers::Rayon(one), Helpers::Rayon(other)) => Arc::ptr_eq(one, other),
        _ => false,
    }
}

#[test]
fn branches_share_the_pool_of_steps_where_possible() {
    let workers = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let given = Session::builder().thread_pool(Arc::new(workers));
    let (two, ten) = (Session::builder().threads(2), Duration::from_millis(10));
    for (what, builder, expected) in [
        ("as many", two.clone(), Some((2, true))),
        ("the same number", two.clone().inter_op_threads(2), Some((2, true))),
        (
            "the same spin duration",
            two.clone().inter_op_spinning(Duration::from_millis(1)),
            Some((2, true)),
        ),
        ("its own pool", two.clone().own_pool(true), Some((2, true))),
        ("given", given.clone().inter_op_spinning(ten), Some((2, true))),
        ("more", two.clone().inter_op_threads(3), Some((3, false))),
        ("more than one", two.clone().threads(1).inter_op_threads(2), Some((2, false))),
        ("spinning", two.clone().inter_op_spinning(ten), Some((2, false))),
        ("more than are given", given.clone().inter_op_threads(9), Some((2, true))),
        (
            "pinned steps only",
            two.clone().thread_affinities("1".parse().unwrap()).inter_op_threads(3),
            Some((3, false)),
        ),
        ("one", two.clone().inter_op_threads(1), None),
        ("none", two.clone().inter_op_threads(0), None),
        ("one thread", two.threads(1), None),
        ("one of those given", given.inter_op_threads(1), None),
    ] {
        let pools = |builder: SessionBuilder| {
            let settings = builder.resolved().unwrap();
            (settings.pool, settings.branches)
        };
        assert!(pools(builder.clone()).1.is_none(), "{what}, sequential");
        let (pool, branches) = pools(builder.execution_mode(ExecutionMode::Parallel));
        let found = branches.map(|branches| (branches.n_threads(), is_same(&branches, &pool)));
        assert_eq!(found, expected, "{what}");
    }
}

fn with(builder: SessionBuilder, entries: &[(&str, &str)]) -> SessionBuilder {
    let set = |builder: SessionBuilder, (key, value): &(&str, &str)| builder.config(key, value);
    entries.iter().try_fold(builder, set).unwrap()
}

#[test]
fn keys_select_the_same_pools_as_methods() {
    // A size that no other test uses.
    let common = Session::builder().threads(7).execution_mode(ExecutionMode::Parallel);
    let (times, off) = (Duration::from_micros, Duration::ZERO);
    let (allow, limit) = ("session.intra_op.allow_spinning", "session.intra_op.spin_duration_us");
    let (allow_inter, limit_inter) =
        ("session.inter_op.allow_spinning", "session.inter_op.spin_duration_us");
    for (entries, methods) in [
        (&[("session.intra_op_num_threads", "5")][..], common.clone().threads(5)),
        (&[(limit, "30")], common.clone().spinning(times(30))),
        (&[(limit, "0")], common.clone().spinning(off)),
        (&[(allow, "0")], common.clone().spinning(off)),
        (&[(allow, "0"), (limit, "30")], common.clone().spinning(off)),
        (&[(allow, "0"), (allow, "1"), (limit, "30")], common.clone().spinning(times(30))),
        (&[("session.force_spinning_stop", "1")], common.clone().spinning_between_runs(off)),
        (&[("session.inter_op_num_threads", "3")], common.clone().inter_op_threads(3)),
        (&[(limit_inter, "30")], common.clone().inter_op_spinning(times(30))),
        (&[(limit_inter, "30"), (allow_inter, "0")], common.clone().inter_op_spinning(off)),
    ] {
        let (by_key, by_method) = (with(common.clone(), entries), methods);
        let [plain, by_key, by_method] =
            [common.clone(), by_key, by_method].map(|builder| builder.resolved().unwrap());
        let branches = |settings: &Resolved| settings.branches.clone().unwrap();
        let same = |one: &Resolved, other: &Resolved| {
            is_same(&one.pool, &other.pool) && is_same(&branches(one), &branches(other))
        };
        assert!(same(&by_key, &by_method), "{entries:?}");
        assert!(!same(&by_key, &plain), "{entries:?}");
    }
}

#[test]
fn a_key_gives_a_session_its_own_threads() {
    let key = "session.use_per_session_threads";
    let [one, other, shared, too] =
        ["1", "1", "0", "0"].map(|value| pool_of(4, &with(Session::builder(), &[(key, value)])));
    assert!(!is_same(&one, &other) && is_same(&shared, &too) && !is_same(&one, &shared));
}

#[test]
fn a_key_stops_spinning_with_the_last_run() {
    let spinning =
        Session::builder().own_pool(true).spinning(FOREVER).spinning_between_runs(FOREVER);
    let pool = pool_of(2, &with(spinning, &[("session.force_spinning_stop", "1")]));
    let run = pool.run();
    assert_eq!(work_until_helped(&pool), 1);
    drop(run);
    while pool.n_active() > 0 {
        std::thread::yield_now();
    }
}
