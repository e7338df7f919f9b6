//! The loops around the register tile.

use super::pack::{RowPanels, pack_panel};
use super::vector::add_row_times_matrix;
use super::{Lhs, Matrix, Merge, Panels, Rows, Slice, Start, best, tile};
use crate::{Activation, Isa};
use std::ops::Range;

/// Rows of B in a slice: with 32 columns 32 KiB, most of a first-level cache.
const K_SLICE: usize = 256;
/// Rows of A in a block: with a slice of `k`, a third of a second-level cache of 1 MiB.
const M_BLOCK: usize = 336;
/// Panels of B that are written to scratch together: 128 KiB.
const PANELS: usize = 4;
/// Elements of A that stay in the second-level cache while all of B passes by.
const RESIDENT: usize = 96 * 1024;
/// The rows of the highest tile of any variant.
const MAX_MR: usize = 14;
/// Elements to a cache line.
const LINE: usize = 16;

/// One product; threads share it and each runs its own [`Region`].
#[derive(Clone, Copy, Debug)]
pub struct Gemm<'a, B> {
    /// Which tile to use.
    pub isa: Isa,
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// A: [m, k].
    pub a: Lhs<'a>,
    /// B: [k, n].
    pub b: B,
    /// What C starts from.
    pub start: Start<'a>,
    /// What is applied to the sums.
    pub activation: Activation,
}

/// The part of C one call computes.
///
/// Rows of a packed A are cut where a panel of [`row_panels`](super::row_panels) begins, columns of
/// a packed B at a multiple of [`Variant::nr`](super::Variant::nr).
#[derive(Clone, Debug)]
pub struct Region {
    /// Rows of C.
    pub rows: Range<usize>,
    /// Columns of C.
    pub columns: Range<usize>,
}

/// A block of rows of A, packed.
struct Block<'a> {
    /// From the first row of the block on, all of `k`.
    a: &'a [f32],
    rows: Range<usize>,
    panels: RowPanels,
    /// Those of `panels` that make up `rows`.
    which: Range<usize>,
}

impl<B: Panels> Gemm<'_, B> {
    /// All of C.
    #[must_use]
    pub fn whole(&self) -> Region {
        Region { rows: 0..self.m, columns: 0..self.n }
    }

    /// The elements of scratch [`Gemm::run`] needs for a region of `rows` rows.
    #[must_use]
    pub fn scratch_len(&self, rows: usize) -> usize {
        if self.is_tiled() {
            return self.tiled_scratch_len(rows);
        }
        let packed_a = match self.a {
            Lhs::Strided { .. } => rows.min(M_BLOCK) * self.k,
            Lhs::Packed(_) => 0,
        };
        packed_a + PANELS * self.panel_len() + LINE
    }

    /// Computes `region`. Row `i` of `c` is row `region.rows.start + i` of C, and begins with
    /// column `region.columns.start`.
    ///
    /// # Panics
    /// If an operand, `c` or the scratch is too short, or a packed operand is cut inside a panel.
    pub fn run(&self, region: &Region, c: &mut (impl Rows + ?Sized), scratch: &mut [f32]) {
        if let (1, Lhs::Strided { a, alpha }) = (region.rows.len(), &self.a)
            && let Some(b) = self.b.as_rows()
            && let Some(c) = c.rows(0, 1).next()
        {
            return self.run_row(region, (a.part(region.rows.start, 0), *alpha), &b, c);
        }
        if self.is_tiled() {
            return self.run_on_tiles(region, c, scratch);
        }
        let (b_panels, packed) = from_line(scratch).split_at_mut(PANELS * self.panel_len());
        let panels = match self.a {
            Lhs::Strided { .. } => RowPanels::new(self.isa, &region.rows),
            Lhs::Packed(_) => RowPanels::new(self.isa, &(0..self.m)),
        };
        let within = panels.within(&region.rows);
        let per_block = M_BLOCK / best(self.isa).mr;
        for from in within.clone().step_by(per_block) {
            let which = from..within.end.min(from + per_block);
            let rows = panels.get(which.start).start..panels.get(which.end - 1).end;
            let a = self.pack_block(&panels, &which, packed);
            self.block(&Block { a, rows, panels, which }, region, c, b_panels);
        }
    }

    /// A region of one row, with B as it stands.
    fn run_row(
        &self,
        region: &Region,
        (a, alpha): (Matrix<'_>, f32),
        b: &Matrix<'_>,
        c: &mut [f32],
    ) {
        let columns = region.columns.clone();
        let c = &mut c[..columns.len()];
        match self.start {
            Start::Zero => c.fill(0.0),
            Start::C => {}
            Start::ByColumn(bias) => c.copy_from_slice(&bias[columns.clone()]),
            Start::ByRow(bias) => c.fill(bias[region.rows.start]),
        }
        let b = b.part(0, columns.start);
        add_row_times_matrix(self.isa, &a, alpha, &b, c);
        self.activation.apply(self.isa, c);
    }

    /// The longest piece of a panel of B that may have to be written to scratch.
    fn panel_len(&self) -> usize {
        self.k.min(K_SLICE) * best(self.isa).nr
    }

    /// A from the first row of the panels `which` on.
    fn pack_block<'s>(
        &'s self,
        panels: &RowPanels,
        which: &Range<usize>,
        packed: &'s mut [f32],
    ) -> &'s [f32] {
        let first = panels.get(which.start).start;
        match &self.a {
            Lhs::Packed(a) => &a[first * self.k..],
            Lhs::Strided { a, alpha } => {
                for rows in which.clone().map(|i| panels.get(i)) {
                    let panel = (rows.start - first) * self.k..(rows.end - first) * self.k;
                    pack_panel(self.isa, a, rows, *alpha, &mut packed[panel]);
                }
                packed
            }
        }
    }

    /// The panels of B inside or outside the slices of `k`: all of a small A is read again for each
    /// panel, but only one slice of a large A.
    fn block(
        &self,
        block: &Block<'_>,
        region: &Region,
        c: &mut (impl Rows + ?Sized),
        b_panels: &mut [f32],
    ) {
        let nr = best(self.isa).nr;
        let slices = self.k.div_ceil(K_SLICE).max(1);
        let k = |s| s * self.k / slices..(s + 1) * self.k / slices;
        let columns = region.columns.clone().step_by(PANELS * nr);
        if block.rows.len() * self.k <= RESIDENT {
            for column in columns {
                for s in 0..slices {
                    let slice = Slice { isa: self.isa, k: k(s), column, nr };
                    self.panels(block, &slice, (region, &mut *c), b_panels);
                }
            }
        } else {
            for s in 0..slices {
                for column in columns.clone() {
                    let slice = Slice { isa: self.isa, k: k(s), column, nr };
                    self.panels(block, &slice, (region, &mut *c), b_panels);
                }
            }
        }
    }

    /// A few panels of B, from `slice` on, against the block.
    fn panels(
        &self,
        block: &Block<'_>,
        slice: &Slice,
        (region, c): (&Region, &mut (impl Rows + ?Sized)),
        scratch: &mut [f32],
    ) {
        let panel_len = slice.k.len() * slice.nr;
        let count = (region.columns.end - slice.column).div_ceil(slice.nr).min(PANELS);
        if self.b.stored(slice).is_none() {
            self.b.write(slice, &mut scratch[..count * panel_len]);
        }
        for i in 0..count {
            let slice = Slice { column: slice.column + i * slice.nr, ..slice.clone() };
            let written = &scratch[i * panel_len..(i + 1) * panel_len];
            let b = self.b.stored(&slice).unwrap_or(written);
            self.panel(block, &slice, b, (region, &mut *c));
        }
    }

    /// One panel of B against every panel of A in the block.
    fn panel(
        &self,
        block: &Block<'_>,
        slice: &Slice,
        b: &[f32],
        (region, c): (&Region, &mut (impl Rows + ?Sized)),
    ) {
        let left = slice.column - region.columns.start;
        let width = slice.nr.min(region.columns.end - slice.column);
        for rows in block.which.clone().map(|i| block.panels.get(i)) {
            let panel = (rows.start - block.rows.start) * self.k;
            let a = panel + slice.k.start * rows.len()..panel + slice.k.end * rows.len();
            let mut pieces: [&mut [f32]; MAX_MR] = Default::default();
            let pieces = &mut pieces[..rows.len()];
            let c = c.rows(rows.start - region.rows.start, rows.len());
            pieces.iter_mut().zip(c).for_each(|(piece, row)| *piece = &mut row[left..left + width]);
            self.tile(slice, rows.start, (&block.a[a], b), pieces);
        }
    }

    /// One register tile, whose first row is `row`.
    fn tile(&self, slice: &Slice, row: usize, (a, b): (&[f32], &[f32]), c: &mut [&mut [f32]]) {
        let is_last = slice.k.end == self.k;
        let start = match self.start {
            _ if slice.k.start > 0 => Start::C,
            Start::ByColumn(bias) => Start::ByColumn(&bias[slice.column..]),
            Start::ByRow(bias) => Start::ByRow(&bias[row..]),
            start => start,
        };
        let clamp = if is_last { self.activation.as_clamp() } else { None };
        let (min, max) = clamp.unwrap_or((f32::NEG_INFINITY, f32::INFINITY));
        tile(self.isa, a, b, c, &Merge { start, min, max });
        if is_last && clamp.is_none() {
            c.iter_mut().for_each(|row| self.activation.apply(self.isa, row));
        }
    }
}

/// Scratch from its first cache line on.
pub(super) fn from_line(scratch: &mut [f32]) -> &mut [f32] {
    let skipped = scratch.as_ptr().align_offset(LINE * size_of::<f32>());
    &mut scratch[skipped.min(LINE)..]
}
