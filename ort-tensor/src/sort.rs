//! Sorting that can be cancelled.

use std::cmp::Ordering;

use crate::{Pace, Room, TensorError, go_on};

/// This many elements are sorted within milliseconds.
const PIECE: usize = Pace::STEP;

/// A stable sort. Pieces are sorted separately, and then merged in pairs until one is left, so that it can be
/// cancelled in between.
///
/// # Errors
/// If there is no memory for another copy, or the run was cancelled.
pub fn sort<T: Copy>(
    items: &mut [T],
    order: &dyn Fn(&T, &T) -> Ordering,
) -> Result<(), TensorError> {
    for piece in items.chunks_mut(PIECE) {
        go_on()?;
        piece.sort_by(order);
    }
    let (n, mut sorted) = (items.len(), PIECE);
    if n <= sorted {
        return Ok(());
    }
    let (mut merged, mut pace) = (Room::with_room(n)?, Pace::new());
    while sorted < n {
        merged.clear();
        for pair in items.chunks(2 * sorted) {
            let (mut a, mut b) = pair.split_at(sorted.min(pair.len()));
            while let ([first, rest @ ..], [other, others @ ..]) = (a, b) {
                pace.go(1)?;
                if order(first, other).is_le() {
                    merged.push(*first)?;
                    a = rest;
                } else {
                    merged.push(*other)?;
                    b = others;
                }
            }
            merged.extend(a.iter().chain(b).copied())?;
        }
        items.copy_from_slice(&merged);
        sorted = sorted.saturating_mul(2);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::ending::tests::Switch;
    use crate::{Ending, ended_by};

    #[test]
    fn long_lists_are_sorted_in_pieces() {
        for n in [0, 1, PIECE, PIECE + 1, 3 * PIECE + 17] {
            let mut sorted: Vec<(usize, usize)> = (0..n).map(|i| (i * 7919 % 1009, i)).collect();
            let mut expected = sorted.clone();
            expected.sort_by_key(|pair| pair.0);
            sort(&mut sorted, &|a, b| a.0.cmp(&b.0)).unwrap();
            assert_eq!(sorted, expected, "{n}");
        }
    }

    #[test]
    fn sorting_can_be_cancelled() {
        let ending: Arc<dyn Ending> = Arc::new(Switch(AtomicBool::new(true)));
        let sorted = ended_by(&ending, || sort(&mut [2, 1], &Ord::cmp));
        assert_eq!(sorted, Err(TensorError::Ended));
    }
}
