//! Where in one block each buffer lives, so that no two that live at once overlap.

use std::ops::Range;

/// A buffer that must live from step `first` to step `last`, both included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Buffer {
    pub(super) n_bytes: usize,
    pub(super) first: usize,
    pub(super) last: usize,
}

/// Offsets are multiples of this: a cache line, and the width of the widest register.
const ALIGN: usize = 64;

/// The byte range of every buffer, and the size of the block.
///
/// The largest goes first; each takes the lowest gap that is free during its whole life. This is
/// "greedy by size" of Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
/// Inference" (2020), which is within a few percent of the lower bound on real networks.
pub(super) fn place(buffers: &[Buffer]) -> (Vec<Range<usize>>, usize) {
    let mut by_size: Vec<usize> = (0..buffers.len()).collect();
    by_size.sort_by_key(|&i| (std::cmp::Reverse(buffers[i].n_bytes), buffers[i].first, i));
    let mut ranges = vec![0..0; buffers.len()];
    // Indices of the placed buffers, in the order of their offsets.
    let mut placed: Vec<usize> = Vec::with_capacity(buffers.len());
    let mut total = 0;
    for i in by_size {
        let buffer = &buffers[i];
        let mut start = 0;
        for &other in &placed {
            let lives_with =
                buffers[other].first <= buffer.last && buffer.first <= buffers[other].last;
            if !lives_with || ranges[other].is_empty() {
                continue;
            }
            if ranges[other].start >= start + buffer.n_bytes {
                break;
            }
            start = start.max(ranges[other].end.next_multiple_of(ALIGN));
        }
        ranges[i] = start..start + buffer.n_bytes;
        total = total.max(start + buffer.n_bytes);
        let at = placed.partition_point(|&other| ranges[other].start <= start);
        placed.insert(at, i);
    }
    (ranges, total.next_multiple_of(ALIGN))
}

/// For each step, how many bytes live then, each buffer rounded up to whole lines. No block can be
/// smaller than the most of them.
pub(super) fn live_bytes(buffers: &[Buffer], n_steps: usize) -> Vec<usize> {
    let mut live = vec![0; n_steps];
    for buffer in buffers {
        let last = buffer.last.min(n_steps.saturating_sub(1));
        for at in live.get_mut(buffer.first..=last).unwrap_or_default() {
            *at += buffer.n_bytes.next_multiple_of(ALIGN);
        }
    }
    live
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(n_bytes: usize, first: usize, last: usize) -> Buffer {
        Buffer { n_bytes, first, last }
    }

    #[test]
    fn a_chain_needs_two_buffers() {
        let chain: Vec<_> = (0..10).map(|i| buffer(1000, i, i + 1)).collect();
        assert_eq!(place(&chain).1, 2048);
    }

    #[test]
    fn buffers_that_live_at_once_never_overlap() {
        // A fixed pseudo-random sequence: sizes and lives of all kinds.
        let mut seed = 1_u64;
        let mut draw = |n: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            usize::try_from((seed >> 33) % n).unwrap()
        };
        let buffers: Vec<_> = (0..200)
            .map(|_| {
                let first = draw(50);
                buffer(draw(5000), first, first + draw(10))
            })
            .collect();
        let (ranges, total) = place(&buffers);
        for (i, a) in buffers.iter().enumerate() {
            assert_eq!(ranges[i].start % ALIGN, 0);
            assert!(ranges[i].end <= total && ranges[i].len() == a.n_bytes);
            for (j, b) in buffers.iter().enumerate().skip(i + 1) {
                let live = a.first <= b.last && b.first <= a.last;
                let overlap = ranges[i].start < ranges[j].end && ranges[j].start < ranges[i].end;
                assert!(!(live && overlap), "{i} and {j}");
            }
        }
    }
}
