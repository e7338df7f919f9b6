//! The memory of a run that steps may use: all of it, or that of a branch.

// collects are bounded: as long as the graph's lists

use std::cell::Cell;

use ort_graph::ValueId;
use ort_tensor::Value;
use smallvec::{SmallVec, smallvec};

use super::targets::{Targets, Values};
use crate::plan::{Branches, MadeValues, Slab, Slabs, State, divide};

/// The memory of sequential steps.
pub(super) struct BranchArena<'m, 't> {
    slabs: Slabs<'m>,
    made: Made<'m>,
    targets: &'m Targets<'t>,
    /// The current step.
    pub(super) at: Cell<usize>,
}

enum Made<'m> {
    All(&'m mut MadeValues),
    Shared(&'m MadeValues),
}

impl<'m, 't> BranchArena<'m, 't> {
    /// For steps that run alone.
    pub(super) fn whole(state: &'m mut State, targets: &'m Targets<'t>) -> Self {
        let State { arena, made, .. } = state;
        let slabs = smallvec![(0, Slab::Own(arena.as_mut()))];
        Self { slabs, made: Made::All(made), targets, at: Cell::new(0) }
    }

    /// The memory of each branch of a region.
    pub(super) fn divide(&mut self, region: &Branches) -> SmallVec<[BranchArena<'_, 't>; 4]> {
        let (made, targets) = (self.made.get(), self.targets);
        let slabs = divide(&mut self.slabs, region.branches.len(), &region.slabs).into_iter();
        let arena =
            |slabs| BranchArena { slabs, made: Made::Shared(made), targets, at: Cell::new(0) };
        slabs.map(arena).collect()
    }

    pub(super) fn made(&self) -> &MadeValues {
        self.made.get()
    }

    /// The slabs of the block, and the values outside of it.
    pub(super) fn parts(&mut self) -> (&mut Slabs<'m>, Values<'_, 't>) {
        (&mut self.slabs, Values { made: self.made.get(), targets: self.targets })
    }

    pub(super) fn values(&self) -> Values<'_, 't> {
        Values { made: self.made.get(), targets: self.targets }
    }

    /// Drops a value no longer needed; not in a branch, since others may read it.
    pub(super) fn clear(&mut self, id: ValueId) -> Option<Value> {
        match &mut self.made {
            Made::All(made) => made.take(id),
            Made::Shared(_) => None,
        }
    }
}

impl Made<'_> {
    fn get(&self) -> &MadeValues {
        match self {
            Made::All(made) => made,
            Made::Shared(made) => made,
        }
    }
}
