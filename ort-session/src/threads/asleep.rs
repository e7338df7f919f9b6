//! Fork and join on threads of rayon's that sleep whenever they have no work, and whoever waits for
//! them sleeps, too. A fork costs tens of µs, and nobody burns time between two of them.

use super::Around;
use super::parts::Parts;

/// Calls `part(i)` for each `i < n`, each once, on the calling thread and on at most `n_helpers` of
/// `workers`, those within `around`. A panic of a part is the caller's, after all others are done.
///
/// A caller that is one of the workers computes alone: while it waited it would do other work of the
/// pool, in the middle of its own.
pub(super) fn for_each(
    workers: &rayon::ThreadPool,
    n_helpers: usize,
    n: usize,
    part: &(dyn Fn(usize) + Sync),
    around: Around<'_>,
) {
    if workers.current_thread_index().is_some() {
        return (0..n).for_each(part);
    }
    let parts = &Parts::new(n, part);
    workers.in_place_scope(|scope| {
        for _ in 0..n_helpers.min(n.saturating_sub(1)) {
            scope.spawn(move |_| around(&mut || while parts.last() {}));
        }
        while parts.first() {}
    });
}
