//! Dense convolution in blocks of 16 on matrix tiles, see [`tiles`](crate::tiles).
//!
//! **Loops.** Chunks of the image that stay in the second-level cache as three parts ▸ sets of two
//! output blocks, whose filters are split, too ▸ products of 32 positions.
//!
//! Positions of a chunk count over rows that are as long as what one tap of a row reads together
//! with what the others read beyond it, so that any tap of 32 positions is 32 adjacent lines;
//! sums between the rows are not looked at. With a stride, each of its phases is an image of its
//! own.

use super::layout::{Chunk, Layout};
use super::run::flattened;
use super::{Conv, Form, Start};
use crate::tiles::merge::{self, Merge};
use crate::tiles::{self, B_STEP, Lhs, Line, SIDE, Sums};
use std::ops::Range;

/// Channels of a block.
const LANES: usize = 16;
/// Lines of the split filters that are kept when chunks change: 512 KiB.
const FILTERS: usize = 8 * 1024;
/// Products whose sums stay in the first-level cache until they are stored: 16 KiB.
const PRODUCTS: usize = 4;

/// Scratch, cut into what a product reads and writes.
struct Desk<'a> {
    image: &'a mut [Line],
    filters: &'a mut [Line],
    steps: &'a mut [u32],
    sums: &'a mut [Sums],
}

impl Conv<'_> {
    /// The elements of scratch [`Conv::run_on_tiles`] needs for `n_filters` output blocks; `None` if
    /// the convolution is not of the kind, or the machine has no tiles.
    #[must_use]
    pub fn tiles_scratch_len(&self, n_filters: usize) -> Option<usize> {
        let is_taken = self.isa.amx().is_some() && self.block == LANES && self.form == Form::Blocks;
        is_taken.then(|| {
            let layout = self.layout(n_filters);
            let n_steps = layout.n_steps();
            let filters = kept_sets(n_steps, n_filters) * n_steps * B_STEP;
            let lines = 3 * layout.most_lines() + filters + n_steps.div_ceil(LANES) + 2 * SIDE * PRODUCTS + 1;
            lines * LANES
        })
    }

    /// As [`Conv::run`], but for the order of sums and the error, see [`tiles`](crate::tiles).
    /// Positions whose result is not finite are computed by [`Conv::run`].
    ///
    /// # Panics
    /// If an operand or a piece is shorter than the axes say, or scratch shorter than
    /// [`Conv::tiles_scratch_len`], which must not be `None`.
    pub fn run_on_tiles(
        &self,
        positions: &Range<usize>,
        y: &mut [&mut [f32]],
        scratch: &mut [f32],
    ) {
        assert!(self.tiles_scratch_len(y.len()).is_some(), "{self:?} is not for tiles");
        let flat = Conv { axes: flattened(self.axes), ..*self };
        let layout = flat.layout(y.len());
        let n_kept = kept_sets(layout.n_steps(), y.len());
        let desk = Desk::new(scratch, &layout, n_kept);
        let mut kept = usize::MAX;
        for chunk in layout.chunks(positions) {
            layout.steps(&chunk, desk.steps);
            layout.split_image(self.isa, flat.x, &chunk, desk.image);
            for (set, y) in y.chunks_mut(2).enumerate() {
                if set < kept || set >= kept + n_kept {
                    kept = set;
                    flat.split_filters(&layout, 2 * set..2 * (set + n_kept), desk.filters);
                }
                let b = &desk.filters[(set - kept) * layout.n_steps() * B_STEP..];
                let work = Work { conv: &flat, layout: &layout, chunk: &chunk, positions, set };
                work.products((desk.image, desk.steps, b), y, desk.sums);
            }
        }
    }

    fn layout(&self, n_filters: usize) -> Layout {
        let axes = flattened(self.axes);
        let taps: usize = axes.iter().map(|axis| axis.kernel).product();
        let inputs = self.w.len() / (n_filters.max(1) * taps * LANES * LANES);
        Layout::new(axes, inputs)
    }

    /// Splits the filters of the output blocks `which`, as far as there are any.
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
                let high = filter.get((2 * pair + 1) * taps + tap).unwrap_or(&[[0.0; LANES]; LANES]);
                let lines = &mut lines[at + step * B_STEP..][..2 * SIDE + LANES];
                let (first, rest) = lines.split_at_mut(SIDE);
                let (second, third) = rest.split_at_mut(SIDE);
                tiles::split(self.isa, low, high, &mut first[..LANES], &mut second[..LANES], third);
            }
        }
    }
}

/// The sets of output blocks whose split filters are kept: as many as fit, at least one.
fn kept_sets(n_steps: usize, n_filters: usize) -> usize {
    (FILTERS / (n_steps * B_STEP).max(1)).clamp(1, n_filters.div_ceil(2).max(1))
}

impl<'a> Desk<'a> {
    fn new(scratch: &'a mut [f32], layout: &Layout, n_kept: usize) -> Self {
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

/// A set of two output blocks, or the last one, on a chunk.
struct Work<'a> {
    conv: &'a Conv<'a>,
    layout: &'a Layout,
    chunk: &'a Chunk,
    /// Those that `y` has.
    positions: &'a Range<usize>,
    set: usize,
}

impl Work<'_> {
    fn products(
        &self,
        (a, steps, b): (&[Line], &[u32], &[Line]),
        y: &mut [&mut [f32]],
        sums: &mut [Sums],
    ) {
        let n_lines = self.layout.flat_len(self.chunk);
        let part = self.layout.lines(self.chunk);
        for from in (0..n_lines).step_by(PRODUCTS * SIDE) {
            let n_products = (n_lines - from).div_ceil(SIDE).min(PRODUCTS);
            let sums = &mut sums[..n_products];
            tiles::products(self.conv.isa, Lhs { lines: &a[from..], part }, steps, b, sums);
            for (sums, from) in sums.iter().zip((from..).step_by(SIDE)) {
                self.store(sums, from..n_lines.min(from + SIDE), y);
            }
        }
    }

    /// The sums of these lines of the chunk.
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

    /// The sums of `positions`, the first of which is line `from` of each block.
    fn finish(
        &self,
        sums: &Sums,
        from: usize,
        positions: Range<usize>,
        y: &mut [&mut [f32]],
    ) {
        let conv = self.conv;
        let place = positions.start - self.positions.start;
        let lines = |f: usize| &sums[f * SIDE + from..][..positions.len()];
        if !(0..y.len()).all(|f| tiles::all_finite(conv.isa, lines(f))) {
            return self.plainly(positions, y);
        }
        for (f, y) in y.iter_mut().enumerate() {
            let y = &mut y[place * LANES..][..positions.len() * LANES];
            let bias = conv.start.bias.map(|bias| &bias[(2 * self.set + f) * LANES..]);
            let clamp = conv.activation.as_clamp();
            let (min, max) = clamp.unwrap_or((f32::NEG_INFINITY, f32::INFINITY));
            let merge = Merge { start: Start { bias, is_sum: conv.start.is_sum }, min, max };
            merge::write(conv.isa, lines(f), &merge, y.as_chunks_mut().0);
            if clamp.is_none() {
                conv.activation.apply(conv.isa, y);
            }
        }
    }

    /// The positions without tiles.
    fn plainly(&self, positions: Range<usize>, y: &mut [&mut [f32]]) {
        let conv = self.conv;
        let place = (positions.start - self.positions.start) * LANES;
        let filter_len = self.layout.inputs * self.layout.taps() * LANES * LANES;
        let first = 2 * self.set;
        let w = &conv.w[first * filter_len..(first + y.len()) * filter_len];
        let start = Start { bias: conv.start.bias.map(|bias| &bias[first * LANES..]), ..conv.start };
        let n_blocks = y.len();
        let mut pieces: [&mut [f32]; 2] = Default::default();
        for (piece, y) in pieces.iter_mut().zip(y.iter_mut()) {
            *piece = &mut y[place..][..positions.len() * LANES];
        }
        Conv { w, start, ..*conv }.run(positions, &mut pieces[..n_blocks]);
    }
}
