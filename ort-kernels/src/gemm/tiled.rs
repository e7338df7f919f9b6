//! Products on matrix tiles, see [`tiles`](crate::tiles).
//!
//! **Order.** An element is the sum of slices of `k`, each added to the one before; how they are
//! split, and whether tiles are used, depends only on `m`, `n` and `k`, so the bits still
//! depend only on the operands. A non-finite element is recomputed as the chain of multiply-adds
//! used without tiles.
//!
//! **Loops.** Slices of `k` ▸ blocks of rows of A that stay in the second-level cache as three parts
//! ▸ panels of B, which are also split ▸ products of 32 rows.

use super::block::from_line;
use super::merge_rows::{Merge, merge_rows};
use super::{Gemm, Lhs, Matrix, Panels, Region, Rows, Slice, Start, Stored};
use crate::Isa;
use crate::tiles::{self, B_STEP, Lhs as Lines, Line, Rhs, SIDE, Sums};
use std::ops::Range;

/// Terms per step.
const STEP: usize = 32;
/// The maximum steps per slice of `k`.
const STEPS: usize = 16;
/// Rows per block: with all steps of a slice 960 KiB of lines.
const BLOCK: usize = 320;
/// Products whose sums stay in the first-level cache until they are stored: 16 KiB.
const PRODUCTS: usize = 4;
/// Elements per line.
const LANES: usize = 16;

/// Scratch, split into the operands of a product.
struct Workspace<'a> {
    a: &'a mut [Line],
    b: &'a mut [Line],
    sums: &'a mut [Sums],
    /// A panel of B for a slice, unless it is stored.
    panel: &'a mut [f32],
}

/// Split rows of A for a slice of `k`.
struct Block {
    rows: Range<usize>,
    k: Range<usize>,
    is_first: bool,
    is_last: bool,
}

impl<B: Panels> Gemm<'_, B> {
    /// Whether tiles are used for this product: if they exist, rows of A are contiguous, and they are faster.
    pub(super) fn is_tiled(&self) -> bool {
        let is_by_rows = matches!(&self.a, Lhs::Strided { a, .. } if a.column_stride == 1);
        is_by_rows && self.isa.amx().is_some() && pays([self.m, self.n, self.k])
    }

    /// Elements of scratch for a region of `rows` rows.
    pub(super) fn tiled_scratch_len(&self, rows: usize) -> usize {
        let n_steps = self.k.div_ceil(STEP).min(STEPS);
        let lines = 3 * part_len(n_steps, rows.min(BLOCK)) + n_steps * B_STEP;
        (lines + 2 * SIDE * PRODUCTS + 1) * LANES + n_steps * STEP * SIDE
    }

    /// Computes `region`.
    pub(super) fn run_on_tiles(
        &self,
        region: &Region,
        c: &mut (impl Rows + ?Sized),
        scratch: &mut [f32],
    ) {
        let Lhs::Strided { a, alpha } = self.a else { return };
        let n_slices = self.k.div_ceil(STEPS * STEP);
        let slice_len = self.k.div_ceil(n_slices).next_multiple_of(STEP);
        let mut steps = [0; STEPS];
        for start in (0..self.k).step_by(slice_len) {
            let k = start..self.k.min(start + slice_len);
            let n_steps = k.len().div_ceil(STEP);
            for row in region.rows.clone().step_by(BLOCK) {
                let rows = row..region.rows.end.min(row + BLOCK);
                let mut workspace = Workspace::new(scratch, n_steps, rows.len());
                let pitch = rows.len().next_multiple_of(SIDE);
                (0..).step_by(pitch).zip(&mut steps[..n_steps]).for_each(|(at, step)| *step = at);
                let (is_first, is_last) = (start == 0, k.end == self.k);
                let block = Block { rows, k: k.clone(), is_first, is_last };
                block.split_a(self.isa, &a, alpha, workspace.a);
                self.tiled_panels(&block, &steps[..n_steps], (region, c), &mut workspace);
            }
        }
    }

    /// Multiplies a block by all panels of B in the region.
    fn tiled_panels(
        &self,
        block: &Block,
        steps: &[u32],
        (region, c): (&Region, &mut (impl Rows + ?Sized)),
        workspace: &mut Workspace<'_>,
    ) {
        let slice = |column| Slice { isa: self.isa, k: block.k.clone(), column, nr: SIDE };
        for column in region.columns.clone().step_by(SIDE) {
            let slices = [slice(column), slice((column + SIDE).min(region.columns.end))];
            let values = match self.b.stored(&slices[0]).and_then(Stored::whole) {
                Some(values) => values,
                None => {
                    let values = &mut workspace.panel[..block.k.len() * SIDE];
                    self.b.write(&slices[0], values);
                    values
                }
            };
            tiles::split_panel(self.isa, values.as_chunks().0.as_chunks().0, workspace.b);
            let is_last = column + SIDE >= region.columns.end;
            let later = if is_last { None } else { self.b.stored(&slices[1]) };
            let columns = column..region.columns.end.min(column + SIDE);
            let later = later.and_then(Stored::whole).unwrap_or_default();
            let work = Work { block, region, values, later, columns };
            self.products(&work, (workspace.a, steps, workspace.b), &mut *c, workspace.sums);
        }
    }

    /// Multiplies a block by one panel of B.
    fn products(
        &self,
        work: &Work<'_>,
        (a, steps, b): (&[Line], &[u32], &[Line]),
        c: &mut (impl Rows + ?Sized),
        sums: &mut [Sums],
    ) {
        let Work { block, region, later, columns, .. } = work;
        let (n_rows, part) = (block.rows.len(), part_len(steps.len(), block.rows.len()));
        for first in (0..n_rows).step_by(PRODUCTS * SIDE) {
            let rows = first..n_rows.min(first + PRODUCTS * SIDE);
            let sums = &mut sums[..rows.len().div_ceil(SIDE)];
            let share = |row: usize| later.len() * row / n_rows;
            let later = &later[share(rows.start)..share(rows.end)];
            let (a, b) = (Lines { lines: &a[first..], part }, Rhs { lines: b, later });
            tiles::products(self.isa, a, steps, b, sums);
            for (sums, row) in sums.iter_mut().zip((rows.start..).step_by(SIDE)) {
                let rows =
                    block.rows.start + row..block.rows.end.min(block.rows.start + row + SIDE);
                self.make_finite(work, rows.clone(), sums);
                let mut pieces: [&mut [f32]; SIDE] = Default::default();
                let left = columns.start - region.columns.start;
                let c = c.rows(rows.start - region.rows.start, rows.len());
                pieces.iter_mut().zip(c).for_each(|(piece, row)| {
                    *piece = &mut row[left..left + columns.len()];
                });
                self.finish(work, rows.start, sums, &mut pieces[..rows.len()]);
            }
        }
    }

    /// Finishes the rows of C starting at `row` from their sums.
    fn finish(&self, work: &Work<'_>, row: usize, sums: &Sums, c: &mut [&mut [f32]]) {
        let Work { block, columns, .. } = work;
        let start = match self.start {
            _ if !block.is_first => Start::C,
            Start::ByColumn(bias) => Start::ByColumn(&bias[columns.clone()]),
            Start::ByRow(bias) => Start::ByRow(&bias[row..]),
            start => start,
        };
        let clamp = if block.is_last { self.activation.as_clamp() } else { None };
        let (min, max) = clamp.unwrap_or((f32::NEG_INFINITY, f32::INFINITY));
        merge_rows(self.isa, sums, &Merge { start, min, max }, c);
        if block.is_last && clamp.is_none() {
            c.iter_mut().for_each(|row| self.activation.apply(self.isa, row));
        }
    }

    /// Recomputes the sums of 16 columns of a row that are not all finite, as chains of
    /// multiply-adds.
    fn make_finite(&self, work: &Work<'_>, rows: Range<usize>, sums: &mut Sums) {
        for tile in 0..2 {
            let sums = &mut sums[tile * SIDE..][..rows.len()];
            if tiles::all_finite(self.isa, sums) {
                continue;
            }
            for (row, sums) in rows.clone().zip(sums) {
                if !tiles::all_finite(self.isa, &[*sums]) {
                    *sums = self.plain(work, row)[tile];
                }
            }
        }
    }

    /// The sums of a row without tiles: chains of multiply-adds.
    fn plain(&self, work: &Work<'_>, row: usize) -> [[f32; LANES]; 2] {
        let mut sums = [[0.0; LANES]; 2];
        let Lhs::Strided { a, alpha } = self.a else { return sums };
        let values = work.values.as_chunks::<SIDE>().0;
        for (k, b) in work.block.k.clone().zip(values) {
            let a = alpha * a.data[row * a.row_stride + k];
            let sums = sums.as_flattened_mut().iter_mut();
            sums.zip(b).for_each(|(sum, &b)| *sum = a.mul_add(b, *sum));
        }
        sums
    }
}

/// Whether tiles are faster, by an estimate of the cycles of both algorithms. The constants are for
/// Sapphire Rapids: a step of a product takes 650 and its sums 450, a step of a panel of B 570, one of
/// a row of A 30; without tiles, 26 multiply-adds finish per cycle, and a register tile takes 80
/// more. Both estimates are within a tenth for most of 30 sizes, hence the margin of one twentieth.
fn pays([m, n, k]: [usize; 3]) -> bool {
    let (n_steps, n_panels) = (k.div_ceil(STEP), n.div_ceil(SIDE));
    let products = m.div_ceil(SIDE) * n_panels * (n_steps * 650 + 450);
    let operands = n_panels * n_steps * 570 + m * n_steps * 30;
    let without = m * n * k / 26 + m.div_ceil(14) * n_panels * 80;
    products + operands < without / 20 * 19
}

/// The operands of a panel of B times a block.
struct Work<'a> {
    block: &'a Block,
    region: &'a Region,
    /// The panel: `[k][32]`.
    values: &'a [f32],
    /// The panel after it, if it is stored.
    later: &'a [f32],
    columns: Range<usize>,
}

impl Block {
    /// Splits the rows of A, times `alpha`: one line per row for each step.
    fn split_a(&self, isa: Isa, a: &Matrix<'_>, alpha: f32, lines: &mut [Line]) {
        let pitch = self.rows.len().next_multiple_of(SIDE);
        let part = part_len(self.k.len().div_ceil(STEP), self.rows.len());
        for (i, row) in self.rows.clone().enumerate() {
            let row = &a.data[row * a.row_stride + self.k.start..][..self.k.len()];
            tiles::split_row(isa, row, alpha, &mut lines[i..], [part, pitch]);
        }
    }
}

/// The lines of one part of a block.
fn part_len(n_steps: usize, n_rows: usize) -> usize {
    n_steps * n_rows.next_multiple_of(SIDE)
}

impl<'a> Workspace<'a> {
    fn new(scratch: &'a mut [f32], n_steps: usize, n_rows: usize) -> Self {
        let (lines, panel) = from_line(scratch).split_at_mut(
            (3 * part_len(n_steps, n_rows) + n_steps * B_STEP + 2 * SIDE * PRODUCTS) * LANES,
        );
        let lines: &mut [u32] = bytemuck::cast_slice_mut(lines);
        let lines = lines.as_chunks_mut::<LANES>().0;
        let (a, lines) = lines.split_at_mut(3 * part_len(n_steps, n_rows));
        let (b, sums) = lines.split_at_mut(n_steps * B_STEP);
        Self { a, b, sums: bytemuck::cast_slice_mut(sums), panel }
    }
}
