//! The greatest of many keys, and sorting them: a run that can be cancelled does not wait for the end.

use std::cmp::Ordering;

use ort_tensor::{Pace, TensorError, can_end};

use crate::pieces::wanted;

/// Slices of this length are selected from and sorted within milliseconds.
const MANY: usize = 1 << 17;
/// From how many keys a pivot is chosen.
const N_SAMPLES: usize = 256;

/// Reorders keys, all different, so that the `n` greatest come first, in any order.
///
/// # Errors
/// If the run was cancelled.
pub(crate) fn select<P: Ord + Copy>(keys: &mut [P], n: usize) -> Result<(), TensorError> {
    let (mut keys, mut n) = (keys, n);
    while 0 < n && n < keys.len() && keys.len() > MANY && can_end() {
        let pivot = pivot(keys, n);
        let n_greater = partition(keys, |key| key.cmp(&pivot).is_gt())?;
        // The pivot is not among them, so that neither part is the whole.
        keys = match n_greater.cmp(&n) {
            Ordering::Equal => return Ok(()),
            Ordering::Greater => &mut keys[..n_greater],
            Ordering::Less => {
                let (_, rest) = keys.split_at_mut(n_greater);
                n -= n_greater;
                put_first(rest, pivot)?;
                n -= 1;
                &mut rest[1..]
            }
        };
    }
    if 0 < n && n < keys.len() {
        keys.select_nth_unstable_by(n, |a, b| b.cmp(a));
    }
    Ok(())
}

/// Sorts, greatest first.
///
/// # Errors
/// If the run was cancelled.
pub(crate) fn sort<P: Ord + Copy>(keys: &mut [P]) -> Result<(), TensorError> {
    if keys.len() <= MANY || !can_end() {
        keys.sort_unstable_by(|a, b| b.cmp(a));
        return Ok(());
    }
    let middle = keys.len() / 2;
    select(keys, middle)?;
    let (greater, lesser) = keys.split_at_mut(middle);
    wanted([greater, lesser].into_iter()).try_for_each(sort)
}

/// A key with about `n` greater ones.
fn pivot<P: Ord + Copy>(keys: &[P], n: usize) -> P {
    let mut samples = [keys[0]; N_SAMPLES];
    let step = keys.len() / N_SAMPLES;
    for (i, sample) in samples.iter_mut().enumerate() {
        // Uneven, so that no period of the data is hit.
        *sample = keys[i * step + (i * i * 7919) % step.max(1)];
    }
    samples.sort_unstable_by(|a, b| b.cmp(a));
    samples[(n / step.max(1)).min(N_SAMPLES - 1)]
}

/// Moves the keys with this property to the front; returns their number.
fn partition<P: Copy>(keys: &mut [P], is_first: impl Fn(&P) -> bool) -> Result<usize, TensorError> {
    let (mut n, mut pace) = (0, Pace::new());
    for start in (0..keys.len()).step_by(Pace::STEP) {
        pace.go(Pace::STEP)?;
        for at in start..keys.len().min(start + Pace::STEP) {
            let is_first = is_first(&keys[at]);
            keys.swap(n, at);
            n += usize::from(is_first);
        }
    }
    Ok(n)
}

/// Swaps `key` with the first one.
fn put_first<P: Ord>(keys: &mut [P], key: P) -> Result<(), TensorError> {
    let mut pace = Pace::new();
    for (i, piece) in keys.chunks(Pace::STEP).enumerate() {
        pace.go(piece.len())?;
        if let Some(at) = piece.iter().position(|other| *other == key) {
            keys.swap(0, i * Pace::STEP + at);
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use ort_tensor::{Ending, ended_by};

    use super::*;

    #[derive(Debug)]
    struct Flag(AtomicBool);

    impl Ending for Flag {
        fn is_ended(&self) -> bool {
            self.0.load(Relaxed)
        }
    }

    fn cancellable<R>(is_ended: bool, body: impl FnOnce() -> R) -> R {
        let ending: Arc<dyn Ending> = Arc::new(Flag(AtomicBool::new(is_ended)));
        ended_by(&ending, body)
    }

    /// Different numbers: in order, in reverse, mixed.
    fn lists(len: usize) -> [Vec<u64>; 3] {
        let n = len as u64;
        let mixed = (0..n).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) << 32 | i);
        [(0..n).collect(), (0..n).rev().collect(), mixed.collect()]
    }

    #[test]
    fn the_greatest_come_first_whether_cancellable_or_not() {
        let len = 2 * MANY + 12345;
        for keys in lists(len) {
            let mut sorted = keys.clone();
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            for n in [0, 1, 1000, len / 2, len - 1, len] {
                let mut selected = keys.clone();
                cancellable(false, || select(&mut selected, n)).unwrap();
                selected[..n].sort_unstable_by(|a, b| b.cmp(a));
                assert_eq!(selected[..n], sorted[..n], "{n}");
                selected[n..].sort_unstable_by(|a, b| b.cmp(a));
                assert_eq!(selected[n..], sorted[n..], "{n}");
            }
            let mut own = keys.clone();
            cancellable(false, || sort(&mut own)).unwrap();
            assert_eq!(own, sorted);
            let mut own = keys;
            sort(&mut own).unwrap();
            assert_eq!(own, sorted);
        }
    }

    #[test]
    fn many_keys_are_not_sorted_to_the_end_after_cancellation() {
        let [mut keys, ..] = lists(2 * MANY);
        assert_eq!(cancellable(true, || select(&mut keys, MANY)), Err(TensorError::Ended));
        assert_eq!(cancellable(true, || sort(&mut keys)), Err(TensorError::Ended));
    }
}
