//! Fork and join on a user-provided rayon pool: its threads sleep whenever they have no work, and
//! a caller that waits for them sleeps, too. A fork costs tens of µs, and no thread spins between two of them.

use ort_threads::{Around, Parts};

/// Calls `part(i)` for each `i < n`, each once, on the calling thread and on at most `n_helpers` of
/// `pool`, the latter within `around`. A panic of a part reaches the caller after all others are done.
///
/// A caller that is one of the pool's workers computes alone: while waiting it would run other work of the
/// pool, nested in its own.
pub(super) fn for_each(
    pool: &rayon::ThreadPool,
    n_helpers: usize,
    n: usize,
    part: &(dyn Fn(usize) + Sync),
    around: Around<'_>,
) {
    if pool.current_thread_index().is_some() {
        return (0..n).for_each(part);
    }
    let parts = &Parts::new(n, part);
    pool.in_place_scope(|scope| {
        for _ in 0..n_helpers.min(n.saturating_sub(1)) {
            scope.spawn(move |_| around(&mut || while parts.last() {}));
        }
        while parts.first() {}
    });
}
