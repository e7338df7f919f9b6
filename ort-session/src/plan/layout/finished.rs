//! The end of planning a layout: buffers are placed, and steps get their slices.

// collects are bounded: as long as the graph's lists

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use ort_graph::ValueId;
use smallvec::SmallVec;

use super::{Builder, Draft, Layout, Made, Place, StepLayout};
use crate::plan::arena::{Buffer, Placement};
use crate::plan::branches::{self, Block};
use crate::plan::{Split, Step};

/// The buffers of a block: their purpose, and their position.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// Their sizes, which are larger than needed in a layout that follows another one of nearly the same
    /// sizes.
    pub(super) buffers: Vec<Buffer>,
    pub(super) ranges: Vec<Range<usize>>,
    /// By value: its buffer, if it is in the arena.
    pub(super) roots: Vec<Option<usize>>,
    /// By step: the buffer of its scratch memory.
    pub(super) scratch: Vec<Option<usize>>,
}

impl Draft {
    const fn scratch(&self) -> Option<usize> {
        match self {
            Self::Static { scratch, .. } => *scratch,
            _ => None,
        }
    }
}

impl Builder<'_> {
    /// Where sizes slightly exceed those of another layout, as they do from token to token, enlarges those
    /// buffers by a quarter, so that subsequent layouts need no new placement. Returns whether it did.
    fn leave_room(&mut self, near: Option<&Layout>) -> bool {
        let Some(near) = near.map(|near| &near.buffers.buffers) else { return false };
        let sum = |buffers: &[Buffer]| {
            buffers.iter().map(|buffer| buffer.n_bytes).fold(0, usize::saturating_add)
        };
        let (before, now) = (sum(near), sum(&self.buffers));
        if near.len() != self.buffers.len() || now < before || now - before > before / 8 {
            return false;
        }
        for (buffer, before) in self.buffers.iter_mut().zip(near) {
            if buffer.n_bytes > before.n_bytes {
                buffer.n_bytes = buffer.n_bytes.saturating_add(buffer.n_bytes / 4);
            }
        }
        true
    }

    pub(super) fn finish(mut self, near: Option<&Layout>) -> Layout {
        let is_tight = !self.leave_room(near);
        let mut regions = std::mem::take(&mut self.regions);
        let is_idle = |steps: &Range<usize>| {
            self.drafts[steps.clone()].iter().all(|draft| matches!(draft, Draft::Skip))
        };
        regions.iter_mut().for_each(|region| region.branches.retain(|steps| !is_idle(steps)));
        let block = branches::place(&self.buffers, &mut regions, self.plan.steps.len(), |step| {
            let inputs = self.plan.steps[step].inputs.iter().flatten();
            inputs.filter_map(|id| self.roots[id.index()]).collect()
        });
        let Block { placement: Placement { ranges, n_bytes }, live_bytes } = block;
        let own_bytes = self.places.iter().map(Place::own_bytes).fold(0, usize::saturating_add);
        for (place, root) in self.places.iter_mut().zip(&self.roots) {
            if let (Place::Arena { range, .. }, Some(root)) = (place, root) {
                *range = ranges[*root].start..ranges[*root].start + range.len();
            }
        }
        let scratch = self.drafts.iter().map(Draft::scratch).collect();
        let drafts = std::mem::take(&mut self.drafts);
        let steps = self.plan.steps.iter().zip(drafts).enumerate();
        let steps = steps.map(|(i, (step, draft))| match draft {
            Draft::Skip => StepLayout::Skip,
            Draft::Dynamic => {
                let split = split(step, &[], 0..0, |id| &self.places[id.index()]);
                let (last_uses, taken) = (self.last_uses(i), self.taken(i, step));
                StepLayout::Dynamic { split, last_uses, taken }
            }
            Draft::Static { prepared, in_place, scratch } => {
                let start = scratch.map_or(0, |buffer| ranges[buffer].start);
                let scratch = start..start + prepared.scratch_bytes;
                let split = split(step, &in_place, scratch, |id| &self.places[id.index()]);
                StepLayout::Static { prepared, split, in_place, last_uses: self.last_uses(i) }
            }
        });
        let steps = steps.map(Arc::new).collect();
        // Including inputs that are moved in.
        let given = self.plan.graph.inputs().iter().copied();
        let made =
            self.plan.graph.value_ids().filter(|&id| self.is_made(id)).chain(given).collect();
        let places = { self.places }.into_iter().map(Arc::new).collect();
        let facts = { self.facts }.into_iter().map(Arc::new).collect();
        let (described, signature) = (OnceLock::new(), self.signature);
        let buffers =
            Arc::new(Buffers { buffers: self.buffers, ranges, roots: self.roots, scratch });
        Layout {
            signature,
            facts,
            buffers,
            steps,
            regions,
            made,
            places,
            arena_bytes: n_bytes,
            live_bytes,
            own_bytes,
            is_tight,
            described,
        }
    }

    fn is_made(&self, id: ValueId) -> bool {
        matches!(self.places[id.index()], Place::Own { .. } | Place::Dynamic)
    }

    fn last_uses(&self, step: usize) -> Made {
        self.selection.last_uses(step).iter().copied().filter(|&id| self.is_made(id)).collect()
    }
}

/// The slices of a step: its inputs, outputs and scratch memory.
pub(super) fn split<'p>(
    step: &Step,
    in_place: &[(usize, usize)],
    scratch: Range<usize>,
    place: impl Fn(ValueId) -> &'p Place,
) -> Split {
    let range = |id: &Option<ValueId>| match id.map(&place) {
        Some(Place::Arena { range, .. }) => range.clone(),
        _ => 0..0,
    };
    let is_overwritten = |i: usize| in_place.iter().any(|&(input, _)| input == i);
    let inputs = step.inputs.iter().enumerate();
    let inputs = inputs.map(|(i, id)| if is_overwritten(i) { 0..0 } else { range(id) });
    let reads = inputs.map(|range| (range, false));
    let writes = step.outputs.iter().map(|id| (range(id), true));
    let wanted: SmallVec<[_; 12]> = reads.chain(writes).chain([(scratch, true)]).collect();
    Split::new(&wanted)
}
