//! The order in which panels of B are multiplied with a block of A.

use super::block::cuts;
use super::{Element, Panels, Slice};
use crate::Isa;
use std::ops::Range;

/// Rows per slice of B: 48 KiB with 32 columns, which the tiles read from the second-level cache
/// as fast as from the first.
pub(super) const K_SLICE: usize = 384;
/// Panels of B that are written to scratch together.
pub(super) const PANELS: usize = 4;

/// The panels of B to multiply with a block of A.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    pub(super) isa: Isa,
    pub(super) k: Range<usize>,
    /// The maximum rows of B before the next pass over the panels.
    pub(super) k_block: usize,
    pub(super) columns: Range<usize>,
}

/// Adjacent panels with the same rows.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The first of them.
    pub(super) slice: Slice,
    /// How many there are.
    pub(super) panels: usize,
}

impl Steps {
    /// All steps. Within a block of rows they are ordered column by column, so that the sums of
    /// a column stay in the first-level cache.
    pub(super) fn each<T: Element, B: Panels<T>>(&self, b: &B) -> impl Iterator<Item = Step> {
        let nr = T::variant(self.isa).nr;
        let group = if b.is_stored() { 1 } else { PANELS };
        cuts(self.k.clone(), self.k_block).flat_map(move |block| {
            self.columns.clone().step_by(group * nr).flat_map(move |column| {
                let panels = (self.columns.end - column).div_ceil(nr).min(group);
                cuts(block.clone(), K_SLICE)
                    .map(move |k| Step { slice: Slice { isa: self.isa, k, column, nr }, panels })
            })
        })
    }
}

impl Step {
    /// The panels.
    pub(super) fn each_panel(&self) -> impl Iterator<Item = Slice> {
        let Slice { isa, ref k, column, nr } = self.slice;
        (0..self.panels).map(move |i| Slice { isa, k: k.clone(), column: column + i * nr, nr })
    }
}
