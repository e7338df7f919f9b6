//! Where the rows of a padded tensor come from.

use smallvec::SmallVec;

use super::{State, VALUE};

/// Iterates over rows: an index along the outer axes.
pub(super) struct Outer<'a> {
    entries: &'a [Vec<usize>],
    index: SmallVec<[usize; 6]>,
    /// The byte offset along all outer axes but the last.
    start: usize,
}

impl<'a> Outer<'a> {
    pub(super) fn new(state: &'a State, mut row: usize) -> Self {
        let entries = &state.outer[..];
        // bounded: by the rank
        let mut index = SmallVec::from_elem(0, entries.len());
        for (i, entries) in index.iter_mut().zip(entries).rev() {
            (*i, row) = (row % entries.len(), row / entries.len());
        }
        let mut rows = Self { entries, index, start: 0 };
        rows.start = rows.offset(entries.len().saturating_sub(1));
        rows
    }

    /// The byte offset of the row in the input, or [`VALUE`].
    #[inline]
    pub(super) fn origin(&self) -> usize {
        let Some((entries, &i)) = self.entries.last().zip(self.index.last()) else { return 0 };
        if self.start == VALUE || entries[i] == VALUE { VALUE } else { self.start + entries[i] }
    }

    /// The byte offset along the first `n` outer axes, or [`VALUE`].
    fn offset(&self, n: usize) -> usize {
        let mut sum = 0;
        for (entries, &i) in self.entries.iter().zip(&self.index).take(n) {
            match entries[i] {
                VALUE => return VALUE,
                from => sum += from,
            }
        }
        sum
    }

    #[inline]
    pub(super) fn advance(&mut self) {
        if let Some((i, entries)) = self.index.last_mut().zip(self.entries.last()) {
            *i += 1;
            if *i == entries.len() {
                *i = 0;
                self.carry();
            }
        }
    }

    /// Advances along the outer axes but the last.
    fn carry(&mut self) {
        let n = self.entries.len() - 1;
        for (i, entries) in self.index.iter_mut().zip(self.entries).take(n).rev() {
            *i += 1;
            if *i < entries.len() {
                break;
            }
            *i = 0;
        }
        self.start = self.offset(n);
    }
}
