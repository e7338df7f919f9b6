//! Dense NCHWc convolution with blocks of 16 on matrix tiles, see [`tiles`](crate::tiles).
//!
//! **Loops.** Chunks of the image that stay in the second-level cache as three parts ▸ sets of two
//! output blocks, whose filters are also split ▸ products of 32 positions.
//!
//! Positions of a chunk count over padded rows, long enough for the inputs of all taps,
//! so that any tap of 32 positions is 32 adjacent lines;
//! sums between the rows are ignored. With a stride, each phase is a separate
//! image.

use super::layout::{Chunk, Layout};
use super::run::flattened;
use super::{Conv, Start};
use crate::Isa;
use crate::conv_f32::Axis;
use crate::tiles::merge::{self, Merge};
use crate::tiles::{self, B_STEP, Lhs, Line, Rhs, SIDE, Sums};
use std::ops::Range;

/// Channels per block.
const LANES: usize = 16;
/// Lines of the split filters that are kept across chunks: 512 KiB.
const FILTERS: usize = 8 * 1024;
/// Products whose sums stay in the first-level cache until they are stored: 16 KiB.
const PRODUCTS: usize = 4;

/// Scratch, split into the operands of a product.
struct Workspace<'a> {
    image: &'a mut [Line],
    filters: &'a mut [Line],
    steps: &'a mut [u32],
    sums: &'a mut [Sums],
}

/// How a convolution is mapped to matrix tiles.
#[derive(Clone, Copy, Debug)]
pub struct Tiling {
    layout: Layout,
    /// The number of sets of output blocks whose split filters are kept: all, if they fit, or one.
    n_kept: usize,
}

/// The sizes of a convolution that determine its [`Tiling`].
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Height and width.
    pub axes: [Axis; 2],
    /// Input blocks.
    pub inputs: usize,
    /// Output blocks.
    pub filters: usize,
}

/// The positions of an image whose cycles are estimated.
const MAX_POSITIONS: usize = 1 << 28;

impl Size {
    /// The positions of the larger of input and output, with those that taps reach beyond them.
    fn n_positions(&self) -> usize {
        let [height, width] = self.axes.map(|axis| {
            let reach = (axis.kernel - 1).saturating_mul(axis.dilation);
            axis.input.max(axis.output).saturating_add(reach)
        });
        height.saturating_mul(width)
    }
}

impl Tiling {
    /// How a convolution of [`Form::Blocks`](super::Form::Blocks) with blocks of 16 runs on tiles; `None` if `isa` has none,
    /// or if an image is so large that the estimate of its cycles would overflow.
    #[must_use]
    pub fn new(isa: Isa, size: &Size) -> Option<Self> {
        isa.amx()?;
        if size.n_positions() > MAX_POSITIONS {
            return None;
        }
        let layout = Layout::new(flattened(size.axes), size.inputs);
        let n_sets = size.filters.div_ceil(2).max(1);
        let fits = n_sets * layout.n_steps() * B_STEP <= FILTERS;
        Some(Self { layout, n_kept: if fits { n_sets } else { 1 } })
    }

    /// Elements of scratch for [`Conv::run_on_tiles`].
    #[must_use]
    pub fn scratch_len(&self) -> usize {
        let n_steps = self.layout.n_steps();
        let operands = 3 * self.layout.most_lines() + self.n_kept * n_steps * B_STEP;
        (operands + n_steps.div_ceil(LANES) + 2 * SIDE * PRODUCTS + 1) * LANES
    }

    /// Whether tiles are faster, by estimates of the cycles of both algorithms: without them,
    /// multiply-adds reach two thirds of the peak.
    #[must_use]
    pub fn pays(&self, size: &Size) -> bool {
        let [positions, _] = self.layout.counts();
        let terms = size.inputs * self.layout.taps() * LANES;
        let plain = positions * size.filters * (terms * 3 / 4 + 6);
        self.cycles(size) < plain / 6 * 5
    }

    /// An estimate of the cycles of a convolution. The constants are for Sapphire Rapids, fitted to the
    /// networks of docs/benchmarks.md. Steps of a product are slower if those of a set exceed the
    /// first-level cache, and splitting is slower if the image was in no cache of the core; the sums of
    /// a product take 500, and storing a vector 6.
    #[must_use]
    pub fn cycles(&self, size: &Size) -> usize {
        let [positions, lines] = self.layout.counts();
        let (n_sets, n_steps) = (size.filters.div_ceil(2), self.layout.n_steps());
        let step = if n_steps <= 6 { 520 } else { 680 };
        let line = if self.layout.n_pixels() <= 8 * 1024 { 15 } else { 45 };
        let products = lines.div_ceil(SIDE) * n_sets * (n_steps * step + 500);
        let operands = n_sets * n_steps * SIDE * 15 + self.layout.n_lines() * line;
        products + operands + positions * size.filters * 6
    }
}

impl Conv<'_> {
    /// Like [`Conv::run`], except for the order of sums and the error, see [`tiles`].
    /// Vectors that are not finite are recomputed by [`Conv::run`].
    ///
    /// # Panics
    /// If an operand or a piece is too short for the axes, if scratch is shorter than
    /// [`Tiling::scratch_len`], or if the tiling belongs to another convolution.
    pub fn run_on_tiles(
        &self,
        tiling: &Tiling,
        positions: &Range<usize>,
        y: &mut [&mut [f32]],
        scratch: &mut [f32],
    ) {
        let flat = Conv { axes: flattened(self.axes), ..*self };
        let Tiling { layout, n_kept } = tiling;
        let workspace = Workspace::new(scratch, tiling);
        let mut kept = usize::MAX;
        for chunk in layout.chunks(positions) {
            layout.steps(&chunk, workspace.steps);
            layout.split_image(self.isa, flat.x, &chunk, workspace.image);
            for (set, y) in y.chunks_mut(2).enumerate() {
                if set < kept || set >= kept + n_kept {
                    kept = set;
                    flat.split_filters(layout, 2 * set..2 * (set + n_kept), workspace.filters);
                }
                let lines = &workspace.filters[(set - kept) * layout.n_steps() * B_STEP..];
                let later =
                    if set + 1 < kept + n_kept { &[] } else { flat.filters(layout, set + 1) };
                let b = Rhs { lines, later };
                let work = Work { conv: &flat, layout, chunk: &chunk, positions, set };
                work.products((workspace.image, workspace.steps, b), y, workspace.sums);
            }
        }
    }

    /// The filters of a set of two output blocks; none after the last.
    fn filters(&self, layout: &Layout, set: usize) -> &[f32] {
        let len = 2 * layout.inputs * layout.taps() * LANES * LANES;
        self.w.chunks(len.max(1)).nth(set).unwrap_or_default()
    }

    /// Splits the filters of the output blocks `which`, as far as they exist.
    fn split_filters(&self, layout: &Layout, which: Range<usize>, lines: &mut [Line]) {
        let (n_steps, taps) = (layout.n_steps(), layout.taps());
        let rows = self.w.as_chunks::<LANES>().0.as_chunks::<LANES>().0;
        let n_filters = rows.len() / (layout.inputs * taps).max(1);
        for f in which.start..which.end.min(n_filters) {
            let filter = &rows[f * layout.inputs * taps..][..layout.inputs * taps];
            let at = (f - which.start) / 2 * n_steps * B_STEP + f % 2 * LANES;
            for step in 0..n_steps {
                let (pair, tap) = (step / taps, step % taps);
                let low = &filter[2 * pair * taps + tap];
                let high =
                    filter.get((2 * pair + 1) * taps + tap).unwrap_or(&[[0.0; LANES]; LANES]);
                let lines = &mut lines[at + step * B_STEP..][..2 * SIDE + LANES];
                let (first, rest) = lines.split_at_mut(SIDE);
                let (second, third) = rest.split_at_mut(SIDE);
                let parts = [&mut first[..LANES], &mut second[..LANES], third];
                tiles::split(self.isa, low, high, parts);
            }
        }
    }
}

impl<'a> Workspace<'a> {
    fn new(scratch: &'a mut [f32], Tiling { layout, n_kept }: &Tiling) -> Self {
        let skipped = scratch.as_ptr().align_offset(size_of::<Line>()).min(LANES);
        let words: &mut [u32] = bytemuck::cast_slice_mut(&mut scratch[skipped..]);
        let lines = words.as_chunks_mut::<LANES>().0;
        let (image, lines) = lines.split_at_mut(3 * layout.most_lines());
        let (filters, lines) = lines.split_at_mut(n_kept * layout.n_steps() * B_STEP);
        let (sums, steps) = lines.split_at_mut(2 * SIDE * PRODUCTS);
        let sums: &mut [Sums] = bytemuck::cast_slice_mut(sums);
        let steps = &mut steps.as_flattened_mut()[..layout.n_steps()];
        Self { image, filters, steps, sums }
    }
}

/// A set of two output blocks, or the last single one, on a chunk.
struct Work<'a> {
    conv: &'a Conv<'a>,
    layout: &'a Layout,
    chunk: &'a Chunk,
    /// The positions in `y`.
    positions: &'a Range<usize>,
    set: usize,
}

impl Work<'_> {
    fn products(
        &self,
        (a, steps, b): (&[Line], &[u32], Rhs<'_>),
        y: &mut [&mut [f32]],
        sums: &mut [Sums],
    ) {
        let n_lines = self.layout.flat_len(self.chunk);
        let part = self.layout.lines(self.chunk);
        for from in (0..n_lines).step_by(PRODUCTS * SIDE) {
            let n_products = (n_lines - from).div_ceil(SIDE).min(PRODUCTS);
            let sums = &mut sums[..n_products];
            let later = b.later.len() * from / n_lines
                ..b.later.len() * n_lines.min(from + PRODUCTS * SIDE) / n_lines;
            let b = Rhs { later: &b.later[later], ..b };
            tiles::products(self.conv.isa, Lhs { lines: &a[from..], part }, steps, b, sums);
            for (sums, from) in sums.iter().zip((from..).step_by(SIDE)) {
                self.store(sums, from..n_lines.min(from + SIDE), y);
            }
        }
    }

    /// Stores the sums of these lines of the chunk.
    fn store(&self, sums: &Sums, lines: Range<usize>, y: &mut [&mut [f32]]) {
        for (run, positions) in self.layout.runs(self.chunk, lines.clone()) {
            let start = positions.start.max(self.positions.start);
            let end = positions.end.min(self.positions.end);
            if start < end {
                let from = run.start - lines.start + start - positions.start;
                self.finish(sums, from, start..end, y);
            }
        }
    }

    /// Finishes the sums of `positions`, the first of which is line `from` of each block.
    fn finish(&self, sums: &Sums, from: usize, positions: Range<usize>, y: &mut [&mut [f32]]) {
        for (f, y) in y.iter_mut().enumerate() {
            let sums = &sums[f * SIDE + from..][..positions.len()];
            let place = (positions.start - self.positions.start) * LANES;
            let y = &mut y[place..][..positions.len() * LANES];
            if tiles::all_finite(self.conv.isa, sums) {
                self.merge(sums, f, y);
                continue;
            }
            for ((sum, position), y) in
                sums.iter().zip(positions.clone()).zip(y.chunks_exact_mut(LANES))
            {
                match tiles::all_finite(self.conv.isa, &[*sum]) {
                    true => self.merge(&[*sum], f, y),
                    false => self.without_tiles(position, f, y),
                }
            }
        }
    }

    fn merge(&self, sums: &[[f32; LANES]], f: usize, y: &mut [f32]) {
        let conv = self.conv;
        let clamp = conv.activation.as_clamp();
        let (min, max) = clamp.unwrap_or((f32::NEG_INFINITY, f32::INFINITY));
        let merge = Merge { start: Start { bias: self.bias(f), ..conv.start }, min, max };
        merge::write(conv.isa, sums, &merge, y.as_chunks_mut().0);
        if clamp.is_none() {
            conv.activation.apply(conv.isa, y);
        }
    }

    /// Computes one position of one block without tiles.
    fn without_tiles(&self, position: usize, f: usize, y: &mut [f32]) {
        let filter_len = self.layout.inputs * self.layout.taps() * LANES * LANES;
        let w = &self.conv.w[(2 * self.set + f) * filter_len..][..filter_len];
        let start = Start { bias: self.bias(f), ..self.conv.start };
        Conv { w, start, ..*self.conv }.run(position..position + 1, &mut [y]);
    }

    /// The bias starting at block `f` of the set.
    fn bias(&self, f: usize) -> Option<&[f32]> {
        self.conv.start.bias.map(|bias| &bias[(2 * self.set + f) * LANES..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_too_large_for_an_estimate_has_no_tiling() {
        let (input, output, pad) = (1, usize::MAX / 2, [usize::MAX / 4; 2]);
        let axis = Axis { input, output, kernel: 1, stride: 1, dilation: 1, pad };
        let size = Size { axes: [axis; 2], inputs: 1, filters: 1 };
        assert!(Isa::all().into_iter().all(|isa| Tiling::new(isa, &size).is_none()));
    }
}
