//! Splits the arena into slices: for parallel branches, and for the operands of a step. Read
//! ranges are shared, written ones are exclusive.

// collects are bounded: as long as the graph's lists

use std::ops::Range;

use smallvec::SmallVec;

/// A range of the arena.
#[derive(Debug)]
pub(crate) enum Slab<'a> {
    /// Shared, for reading.
    Shared(&'a [u8]),
    /// Exclusive, for reading and writing.
    Own(&'a mut [u8]),
}

/// Ranges of the arena, with their starts: disjoint, in ascending order.
pub(crate) type Slabs<'a> = SmallVec<[(usize, Slab<'a>); 1]>;

impl<'a> Slab<'a> {
    const fn len(&self) -> usize {
        match self {
            Self::Shared(bytes) => bytes.len(),
            Self::Own(bytes) => bytes.len(),
        }
    }

    fn reborrow(&mut self) -> Slab<'_> {
        match self {
            Self::Shared(bytes) => Slab::Shared(bytes),
            Self::Own(bytes) => Slab::Own(bytes),
        }
    }

    /// The parts before and after `middle`.
    fn split_at(self, middle: usize) -> (Self, Self) {
        match self {
            Self::Shared(bytes) => {
                let (before, after) = bytes.split_at(middle);
                (Self::Shared(before), Self::Shared(after))
            }
            Self::Own(bytes) => {
                let (before, after) = bytes.split_at_mut(middle);
                (Self::Own(before), Self::Own(after))
            }
        }
    }

    fn into_shared(self) -> &'a [u8] {
        match self {
            Self::Shared(bytes) => bytes,
            Self::Own(bytes) => bytes,
        }
    }
}

/// Splits the arena among parallel branches: `ranges` are disjoint and in ascending
/// order, each with the branch that may write it, or `None` if all may read it.
pub(crate) fn divide<'a>(
    slabs: &'a mut Slabs<'_>,
    n_branches: usize,
    ranges: &[(Range<usize>, Option<usize>)],
) -> SmallVec<[Slabs<'a>; 4]> {
    let mut divided: SmallVec<[Slabs<'a>; 4]> = (0..n_branches).map(|_| Slabs::new()).collect();
    let mut cutter = Cutter::new(slabs);
    for (range, owner) in ranges {
        let slab = cutter.cut(range);
        match owner {
            Some(owner) => divided[*owner].push((range.start, slab)),
            None => {
                let bytes = slab.into_shared();
                divided.iter_mut().for_each(|own| own.push((range.start, Slab::Shared(bytes))));
            }
        }
    }
    divided
}

/// Takes ranges out of slabs, in ascending order.
struct Cutter<'a, 'b> {
    slabs: std::slice::IterMut<'a, (usize, Slab<'b>)>,
    /// The rest of the current slab, and its start.
    start: usize,
    rest: Slab<'a>,
}

impl<'a, 'b> Cutter<'a, 'b> {
    fn new(slabs: &'a mut [(usize, Slab<'b>)]) -> Self {
        Self { slabs: slabs.iter_mut(), start: 0, rest: Slab::Shared(&[]) }
    }

    /// The range, if it lies within one slab; otherwise an empty slab.
    fn cut(&mut self, range: &Range<usize>) -> Slab<'a> {
        while range.end > self.start + self.rest.len() {
            let Some((start, slab)) = self.slabs.next() else { return Slab::Shared(&[]) };
            (self.start, self.rest) = (*start, slab.reborrow());
        }
        let Some(skipped) = range.start.checked_sub(self.start) else { return Slab::Shared(&[]) };
        let rest = std::mem::replace(&mut self.rest, Slab::Shared(&[]));
        let (_, rest) = rest.split_at(skipped);
        let (cut, rest) = rest.split_at(range.len());
        (self.start, self.rest) = (range.end, rest);
        cut
    }
}

/// The parts of the arena that one step uses: disjoint, in ascending order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Split {
    parts: SmallVec<[(Range<usize>, bool); 6]>,
    /// For each requested range, in order: its piece, and the range within the piece.
    wanted: SmallVec<[(usize, Range<usize>); 6]>,
}

/// One slice of the arena.
#[derive(Debug)]
pub(crate) enum Piece<'a> {
    /// Read by the step.
    Read(&'a [u8]),
    /// Written by the step; taken once.
    Write(Option<&'a mut [u8]>),
}

/// The pieces of one step.
pub(crate) type Pieces<'a> = SmallVec<[Piece<'a>; 6]>;

impl Split {
    /// Plans the slices for `wanted` ranges, each with whether it is written. Ranges that are
    /// read may overlap; a written range overlaps no other, as the plan gives separate
    /// ranges to values that live at the same time.
    pub(crate) fn new(wanted: &[(Range<usize>, bool)]) -> Self {
        let mut sorted: Vec<_> = wanted.iter().filter(|(range, _)| !range.is_empty()).collect();
        sorted.sort_by_key(|(range, _)| (range.start, range.end));
        let mut parts: SmallVec<[(Range<usize>, bool); 6]> = SmallVec::new();
        for (range, is_written) in sorted {
            match parts.last_mut() {
                Some((last, false)) if range.start < last.end && !is_written => {
                    last.end = last.end.max(range.end);
                }
                _ => parts.push((range.clone(), *is_written)),
            }
        }
        let find = |range: &Range<usize>| {
            let holds = |part: &Range<usize>| part.start <= range.start && range.end <= part.end;
            let piece = parts.iter().position(|(part, _)| !range.is_empty() && holds(part));
            match piece {
                Some(i) => (i, range.start - parts[i].0.start..range.end - parts[i].0.start),
                None => (usize::MAX, 0..0),
            }
        };
        let wanted = wanted.iter().map(|(range, _)| find(range)).collect();
        Self { parts, wanted }
    }

    /// Takes this step's pieces out of the slabs, and adds them to `pieces`.
    pub(crate) fn split<'a>(&self, slabs: &'a mut Slabs<'_>, pieces: &mut Pieces<'a>) {
        let mut cutter = Cutter::new(slabs);
        for (range, is_written) in &self.parts {
            pieces.push(match (cutter.cut(range), is_written) {
                (Slab::Own(bytes), true) => Piece::Write(Some(bytes)),
                // The plan never lets a branch write what another may read.
                (Slab::Shared(_), true) => Piece::Write(None),
                (slab, false) => Piece::Read(slab.into_shared()),
            });
        }
    }

    /// The slice that the `i`-th wanted range reads.
    pub(crate) fn read<'a>(&self, pieces: &[Piece<'a>], i: usize) -> &'a [u8] {
        let (piece, range) = &self.wanted[i];
        match pieces.get(*piece) {
            Some(Piece::Read(bytes)) => bytes.get(range.clone()).unwrap_or_default(),
            _ => &[],
        }
    }

    /// The slice that the `i`-th wanted range writes.
    pub(crate) fn write<'a>(&self, pieces: &mut [Piece<'a>], i: usize) -> &'a mut [u8] {
        let (piece, _) = &self.wanted[i];
        match pieces.get_mut(*piece) {
            Some(Piece::Write(bytes)) => bytes.take().unwrap_or_default(),
            _ => &mut [],
        }
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;

    #[test]
    fn reads_may_overlap_and_writes_are_taken_once() {
        let mut arena: Vec<u8> = (0..100).collect();
        let split = Split::new(&[
            (10..20, false),
            (40..50, true),
            (15..30, false),
            (10..20, false),
            (5..5, true),
        ]);
        let mut slabs: Slabs<'_> = smallvec![(0, Slab::Own(&mut arena))];
        let mut pieces = Pieces::new();
        split.split(&mut slabs, &mut pieces);
        assert_eq!(split.read(&pieces, 0), (10..20).collect::<Vec<u8>>());
        assert_eq!(split.read(&pieces, 2), (15..30).collect::<Vec<u8>>());
        assert_eq!(split.read(&pieces, 3), split.read(&pieces, 0));
        split.write(&mut pieces, 1).fill(7);
        assert!(split.write(&mut pieces, 1).is_empty());
        assert!(split.write(&mut pieces, 4).is_empty());
        drop(pieces);
        drop(slabs);
        assert_eq!(arena[39..51], [39, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 50]);
    }

    #[test]
    fn branches_share_ranges_that_none_writes() {
        let mut arena: Vec<u8> = (0..100).collect();
        let mut slabs: Slabs<'_> = smallvec![(0, Slab::Own(&mut arena))];
        let ranges = [(0..10, Some(1)), (20..40, None), (40..50, Some(0)), (60..100, Some(1))];
        let mut branches = divide(&mut slabs, 2, &ranges);
        let starts = |slabs: &Slabs<'_>| slabs.iter().map(|(start, _)| *start).collect::<Vec<_>>();
        assert_eq!(starts(&branches[0]), [20, 40]);
        assert_eq!(starts(&branches[1]), [0, 20, 60]);
        for (branch, write) in [(0, 42..44), (1, 70..72)] {
            let split = Split::new(&[(25..30, false), (write, true)]);
            let mut pieces = Pieces::new();
            split.split(&mut branches[branch], &mut pieces);
            assert_eq!(split.read(&pieces, 0), [25, 26, 27, 28, 29]);
            split.write(&mut pieces, 1).fill(7);
        }
        drop(branches);
        drop(slabs);
        assert_eq!((&arena[41..45], &arena[69..73]), (&[41, 7, 7, 44][..], &[69, 7, 7, 72][..]));
    }

    #[test]
    fn a_branch_gets_no_range_that_it_may_not_write() {
        let bytes = [0; 100];
        let mut slabs: Slabs<'_> = smallvec![(10, Slab::Shared(&bytes))];
        let split = Split::new(&[(20..30, true), (200..210, false)]);
        let mut pieces = Pieces::new();
        split.split(&mut slabs, &mut pieces);
        assert!(split.write(&mut pieces, 0).is_empty() && split.read(&pieces, 1).is_empty());
    }
}
