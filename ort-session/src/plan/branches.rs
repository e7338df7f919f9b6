//! The arena of a run with parallel regions.
//!
//! ```text
//! block:   live before or after the fork       │ branch 0's own │ branch 1's own
//! before:    written                           │    ·           │    ·
//! branch 0:  read, or written for later        │  written       │    ·
//! branch 1:  read, or written for later        │    ·           │  written
//! ```
//!
//! Buffers used by only one branch share a range in which they may reuse memory; others that
//! a region uses live as long as the region. So no branch's memory depends on the progress of another.

// collects are bounded: as long as the graph's lists

use std::collections::BTreeMap;
use std::ops::Range;

use super::arena::{self, Buffer, Placement};

/// Branches that run in parallel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Branches {
    /// The steps of all branches.
    pub(crate) steps: Range<usize>,
    /// The steps of each branch, the most expensive first.
    pub(crate) branches: Vec<Range<usize>>,
    /// The ranges of the block that they use, in ascending order, each with the branch that may write it, or `None`
    /// if all may read it.
    pub(crate) slabs: Vec<(Range<usize>, Option<usize>)>,
}

/// The region and the branch of a step.
pub(super) fn branch_of(regions: &[Branches], step: usize) -> Option<(usize, usize)> {
    let region = region_of(regions, step)?;
    let branch = regions[region].branches.iter().position(|steps| steps.contains(&step))?;
    Some((region, branch))
}

fn region_of(regions: &[Branches], step: usize) -> Option<usize> {
    let region = regions.partition_point(|region| region.steps.end <= step);
    regions.get(region).filter(|region| region.steps.contains(&step)).map(|_| region)
}

/// The block of a run.
pub(super) struct Block {
    pub(super) placement: Placement,
    /// By step, as [`arena::live_bytes`].
    pub(super) live_bytes: Vec<usize>,
}

/// The range of the block that one branch uses alone.
struct ArenaRange {
    region: usize,
    branch: usize,
    /// The buffers in it, and their offsets.
    buffers: Vec<usize>,
    inner: Placement,
}

/// Places all buffers, and records the ranges and their branches in `regions`. `reads` returns the buffers that a step
/// reads.
pub(super) fn place(
    buffers: &[Buffer],
    regions: &mut [Branches],
    n_steps: usize,
    reads: impl Fn(usize) -> Vec<usize>,
) -> Block {
    let own = own_ranges(buffers, regions, n_steps);
    let mut all: Vec<_> = buffers.iter().map(|buffer| extended(buffer, regions)).collect();
    for ArenaRange { region, buffers, inner, .. } in &own {
        // They have no place in the block themselves; the range does.
        buffers.iter().for_each(|&i| all[i].n_bytes = 0);
        let Range { start, end } = regions[*region].steps;
        all.push(Buffer { n_bytes: inner.n_bytes, first: start, last: end - 1 });
    }
    let mut block = placed(&all, n_steps);
    let ranges = &mut block.placement.ranges;
    let places = ranges.split_off(buffers.len());
    for (ArenaRange { region, branch, buffers, inner }, place) in own.iter().zip(places) {
        for (&i, range) in buffers.iter().zip(&inner.ranges) {
            ranges[i] = place.start + range.start..place.start + range.end;
        }
        regions[*region].slabs.push((place, Some(*branch)));
    }
    for (buffer, range) in buffers.iter().zip(&block.placement.ranges) {
        // Written in a branch, and read after it.
        if let Some((region, branch)) = branch_of(regions, buffer.first)
            && home(buffer, regions).is_none()
        {
            regions[region].slabs.push((range.clone(), Some(branch)));
        }
    }
    for region in regions {
        let read = region.steps.clone().flat_map(&reads);
        let read = read.filter(|&i| buffers[i].first < region.steps.start);
        region.slabs.extend(read.map(|i| (block.placement.ranges[i].clone(), None)));
        region.slabs.retain(|(range, _)| !range.is_empty());
        region.slabs.sort_by_key(|(range, _)| range.start);
        region.slabs.dedup();
    }
    block
}

/// The ranges of branches with their own buffers.
fn own_ranges(buffers: &[Buffer], regions: &[Branches], n_steps: usize) -> Vec<ArenaRange> {
    let mut own: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (i, buffer) in buffers.iter().enumerate() {
        if let Some(home) = home(buffer, regions) {
            own.entry(home).or_default().push(i);
        }
    }
    let range = |((region, branch), own): (_, Vec<usize>)| {
        let inside: Vec<_> = own.iter().map(|&i| buffers[i].clone()).collect();
        let inner = placed(&inside, n_steps).placement;
        ArenaRange { region, branch, buffers: own, inner }
    };
    own.into_iter().map(range).collect()
}

fn placed(buffers: &[Buffer], n_steps: usize) -> Block {
    let live_bytes = arena::live_bytes(buffers, n_steps);
    let bound = live_bytes.iter().copied().max().unwrap_or(0);
    Block { placement: arena::place(buffers, bound), live_bytes }
}

/// The branch that alone uses a buffer.
fn home(buffer: &Buffer, regions: &[Branches]) -> Option<(usize, usize)> {
    branch_of(regions, buffer.first).filter(|&home| branch_of(regions, buffer.last) == Some(home))
}

/// The same buffer, with a lifetime that covers whole regions.
fn extended(buffer: &Buffer, regions: &[Branches]) -> Buffer {
    let region = |step| region_of(regions, step).map(|region| &regions[region].steps);
    Buffer {
        n_bytes: buffer.n_bytes,
        first: region(buffer.first).map_or(buffer.first, |steps| steps.start),
        last: region(buffer.last).map_or(buffer.last, |steps| steps.end - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(n_bytes: usize, first: usize, last: usize) -> Buffer {
        Buffer { n_bytes, first, last }
    }

    /// 0, then 1 and 2 in parallel with 3 and 4, then 5.
    fn region() -> Branches {
        Branches { steps: 1..5, branches: vec![3..5, 1..3], slabs: vec![] }
    }

    #[test]
    fn steps_know_their_branch() {
        let regions =
            [region(), Branches { steps: 7..9, branches: vec![7..8, 8..9], slabs: vec![] }];
        let found: Vec<_> = (0..10).map(|step| branch_of(&regions, step)).collect();
        let (none, a, b) = (None, Some((0, 1)), Some((0, 0)));
        let rest = [none, none, Some((1, 0)), Some((1, 1)), none];
        assert_eq!(found, [&[none, a, a, b, b][..], &rest].concat());
    }

    #[test]
    fn branches_write_separate_ranges_and_read_shared_ones() {
        let buffers = [
            buffer(100, 0, 3), // read by both
            buffer(200, 1, 1), // within the second branch, one after the other
            buffer(200, 2, 2),
            buffer(300, 3, 4), // within the first branch
            buffer(400, 4, 5), // of the first for later
            buffer(500, 5, 5),
        ];
        let mut regions = [region()];
        let reads = |step: usize| if step == 1 || step == 3 { vec![0] } else { vec![] };
        let block = place(&buffers, &mut regions, 6, reads);
        let ranges = &block.placement.ranges;
        let of =
            |owner| { regions[0].slabs.iter() }.filter(move |(_, o)| *o == owner).map(|s| &s.0);
        assert_eq!(of(None).collect::<Vec<_>>(), [&ranges[0]]);
        let holds = |owner, i: usize| {
            of(owner).any(|s| s.start <= ranges[i].start && ranges[i].end <= s.end)
        };
        assert!(holds(Some(1), 1) && holds(Some(1), 2) && holds(Some(0), 3) && holds(Some(0), 4));
        let mut end = 0;
        for (range, _) in &regions[0].slabs {
            assert!(end <= range.start, "{:?}", regions[0].slabs);
            end = range.end;
        }
        // It is not overwritten, even if its last reader is in a branch that has finished.
        regions[0] = region();
        regions[0].branches.pop();
        let lives = place(&[buffer(100, 0, 2)], &mut regions, 6, |_| vec![]).live_bytes;
        assert_eq!(lives, [128, 128, 128, 128, 128, 0]);
        // Buffer 0 lives as long as the region, though its last reader is not the last step.
        assert_eq!(block.live_bytes[4], 128 + 256 + 320 + 448);
    }

    #[test]
    fn without_regions_the_placement_is_unchanged() {
        let buffers = [buffer(100, 0, 1), buffer(100, 1, 2), buffer(100, 2, 3)];
        let Block { placement, live_bytes } = place(&buffers, &mut [], 4, |_| vec![]);
        assert_eq!(placement, arena::place(&buffers, 256));
        assert_eq!(live_bytes, arena::live_bytes(&buffers, 4));
    }
}
