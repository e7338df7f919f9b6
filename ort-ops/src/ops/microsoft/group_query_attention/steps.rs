//! The positions of the queries and keys of a call in their sequences.

use ort_graph::OpError;
use ort_tensor::{Inputs, try_collected};

use super::GroupQueryAttention;

/// The keys of a batch: rows of the past, then new ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// The position of the first row.
    pub(super) first: usize,
    /// How many rows are of the past.
    pub(super) old: usize,
    /// How many rows are new.
    pub(super) new: usize,
    /// The length of the whole sequence.
    pub(super) total: usize,
    /// How many rows are not kept for the next step.
    pub(super) dropped: usize,
    /// Whether no batch has a past.
    pub(super) is_first: bool,
}

impl Step {
    /// Rows of the past and new ones.
    pub(super) const fn rows(&self) -> usize {
        self.old + self.new
    }

    /// The position of a query.
    pub(super) const fn position(&self, query: usize) -> usize {
        self.first + self.old + query
    }
}

/// The steps of each batch, and the longest total length.
pub(super) fn read(
    op: &GroupQueryAttention,
    inputs: Inputs<'_>,
    [batch, len, capacity]: [usize; 3],
) -> Result<(Vec<Step>, usize), OpError> {
    let wrong = |index| OpError::InputValue { index, what: "no length of the sequences" };
    let &[total] = inputs.tensor(6)?.as_slice::<i32>()? else { return Err(wrong(6)) };
    let longest = usize::try_from(total).map_err(|_| wrong(6))?;
    if longest < len || (!op.slides && longest - len > capacity) {
        return Err(wrong(6));
    }
    let lens = inputs.tensor(5)?.as_slice::<i32>()?;
    if lens.len() != batch {
        return Err(wrong(5));
    }
    let step = |&last: &i32| {
        let total = usize::try_from(i64::from(last) + 1).ok().filter(|&n| n <= longest);
        let total = total.ok_or(wrong(5))?;
        // In a first step, missing tokens are padding at the end.
        let is_first = len == longest;
        let past = if is_first { 0 } else { total.checked_sub(len).ok_or(wrong(5))? };
        let mut step = Step { first: 0, old: past, new: len, total, dropped: 0, is_first };
        if let Some(window) = op.local_window_size.filter(|_| op.slides) {
            step.old = resident(past, window, capacity)?;
            step.first = past - step.old;
            step.dropped = step.rows() - resident(past + len, window, capacity)?.min(step.rows());
        }
        if step.old > capacity {
            return Err(wrong(5));
        }
        Ok(step)
    };
    Ok((try_collected(lens.iter().map(step))?, longest))
}

/// How many positions of a sequence a cache of a window keeps: all until it is full; then as many as remain when
/// `capacity − window + 1` are dropped at once.
fn resident(total: usize, window: usize, capacity: usize) -> Result<usize, OpError> {
    let room = capacity
        .checked_sub(window)
        .ok_or(OpError::Unsupported { what: "a cache that is shorter than the window" })?
        + 1;
    let over = total.saturating_sub(capacity);
    Ok(total - room * over.div_ceil(room))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_cache_makes_room_at_once() {
        let kept = |total| resident(total, 3, 5).unwrap();
        let found: Vec<_> = (0..12).map(kept).collect();
        assert_eq!(found, [0, 1, 2, 3, 4, 5, 3, 4, 5, 3, 4, 5]);
        assert_eq!(resident(9, 4, 4), Ok(4));
        assert!(resident(1, 5, 4).is_err());
    }
}
