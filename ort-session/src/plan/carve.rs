//! Taking one step's slices out of the arena: what it reads is shared, what it writes is its own.

use std::ops::Range;

use smallvec::SmallVec;

/// The parts of the arena that one step touches: disjoint, in ascending order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Carve {
    parts: SmallVec<[(Range<usize>, bool); 6]>,
    /// For each part asked for, in the order of asking: which piece, and where in it.
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

impl Carve {
    /// Plans the slices for `wanted` ranges, each with whether it is written. Ranges that are
    /// read may overlap each other; a range that is written overlaps none, for the plan gives
    /// values that live at once ranges of their own.
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

    /// Splits the arena into this step's pieces, which it adds to `pieces`.
    pub(crate) fn split<'a>(&self, mut arena: &'a mut [u8], pieces: &mut Pieces<'a>) {
        let mut start = 0;
        for (range, is_written) in &self.parts {
            let (_, rest) = arena.split_at_mut(range.start - start);
            let (piece, rest) = rest.split_at_mut(range.len());
            pieces.push(if *is_written { Piece::Write(Some(piece)) } else { Piece::Read(piece) });
            start = range.end;
            arena = rest;
        }
    }

    /// The slice that the `i`-th wanted range reads.
    pub(crate) fn read<'a>(&self, pieces: &[Piece<'a>], i: usize) -> &'a [u8] {
        let (piece, range) = &self.wanted[i];
        match pieces.get(*piece) {
            Some(Piece::Read(bytes)) => &bytes[range.clone()],
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
    use super::*;

    #[test]
    fn reads_may_overlap_and_writes_are_taken_once() {
        let mut arena: Vec<u8> = (0..100).collect();
        let carve = Carve::new(&[
            (10..20, false),
            (40..50, true),
            (15..30, false),
            (10..20, false),
            (5..5, true),
        ]);
        let mut pieces = Pieces::new();
        carve.split(&mut arena, &mut pieces);
        assert_eq!(carve.read(&pieces, 0), (10..20).collect::<Vec<u8>>());
        assert_eq!(carve.read(&pieces, 2), (15..30).collect::<Vec<u8>>());
        assert_eq!(carve.read(&pieces, 3), carve.read(&pieces, 0));
        carve.write(&mut pieces, 1).fill(7);
        assert!(carve.write(&mut pieces, 1).is_empty());
        assert!(carve.write(&mut pieces, 4).is_empty());
        drop(pieces);
        assert_eq!(arena[39..51], [39, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 50]);
    }
}
