//! The loops around the lines.

use super::line::{Ahead, FLOATS_PER_LINE, Line, Merge};
use super::{Conv, Form, Start, best, is_block, line, suited};
use crate::Isa;
use crate::conv_f32::Axis;
use crate::epilogue::Epilogue;
use std::ops::Range;

/// Bytes read and written for the positions of a chunk, or the filters of a set if they are
/// more: part of a second-level cache.
const CHUNK: usize = 256 * 1024;
/// Bytes of the filters of a slice: most of a first-level cache.
const SLICE: usize = 36 * 1024;

/// The sizes of a convolution, in elements unless stated otherwise.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    /// The instruction set that computes the lines.
    isa: Isa,
    /// The maximum number of output blocks per set.
    most: usize,
    /// An input block of the image.
    x_len: usize,
    /// The part of a filter for one input block.
    w_len: usize,
    /// A filter.
    filter_len: usize,
}

impl Conv<'_> {
    /// Computes `positions`, which count row-major over the output. `y` has one piece per output
    /// block: `[positions.len(), block]`.
    ///
    /// # Panics
    /// If an operand or a piece is too short for the axes, or [`is_block`] rejects the block.
    pub fn run(&self, positions: Range<usize>, y: &mut [&mut [f32]]) {
        assert!(is_block(self.block), "unsupported block size {}", self.block);
        if positions.is_empty() {
            return;
        }
        let flat = Conv { axes: flattened(self.axes), ..*self };
        let sizes = flat.sizes(y.len().max(1));
        let chunk_len = flat.chunk_len(&sizes);
        for start in positions.clone().step_by(chunk_len) {
            let chunk = start..positions.end.min(start + chunk_len);
            for (set, y) in y.chunks_mut(sizes.most).enumerate() {
                flat.set(&sizes, set * sizes.most, (&chunk, start - positions.start), y);
            }
        }
    }

    fn sizes(&self, n_filters: usize) -> Sizes {
        let isa = suited(self.isa, self.block);
        let (most, lanes, depth) = match self.form {
            Form::Blocks => (best(isa).filters, self.block, self.block),
            Form::Planes => (best(isa).filters, 1, 1),
            Form::Depthwise => (1, self.block, 1),
        };
        let [height, width] = &self.axes;
        let x_len = height.input * width.input * lanes;
        let w_len = height.kernel * width.kernel * depth * self.block;
        Sizes { isa, most, x_len, w_len, filter_len: self.w.len() / n_filters }
    }

    /// Positions per chunk: whole rows if there are several.
    fn chunk_len(&self, sizes: &Sizes) -> usize {
        let [rows, width] = [self.axes[0].output, self.axes[1].output];
        let n_positions = (rows * width).max(1);
        let per_position = match self.form {
            // Only the activation reads anything twice.
            Form::Depthwise if self.activation.as_epilogue().is_some() => return n_positions,
            Form::Depthwise => 2 * self.block,
            _ => self.axes.iter().fold(self.x.len(), read) / n_positions + sizes.most * self.block,
        };
        let bytes = CHUNK.max(sizes.most * sizes.filter_len * size_of::<f32>());
        let len = bytes / (per_position * size_of::<f32>());
        if rows > 1 { (len / width).max(1) * width } else { len.max(width.min(64)) }
    }

    /// Computes the output blocks starting at `first`, one per piece of `y`, at the positions of `chunk`, the
    /// first of which is at `place` in the pieces.
    fn set(
        &self,
        sizes: &Sizes,
        first: usize,
        (chunk, place): (&Range<usize>, usize),
        y: &mut [&mut [f32]],
    ) {
        let inputs = sizes.filter_len / sizes.w_len.max(1);
        let x = if self.form == Form::Depthwise { &self.x[first * sizes.x_len..] } else { self.x };
        let w = &self.w[first * sizes.filter_len..];
        let bias = self.start.bias.map(|bias| &bias[first * self.block..]);
        let n_filters = y.len();
        let slice_bytes = sizes.w_len * n_filters * size_of::<f32>();
        let n_slices = inputs.div_ceil((SLICE / slice_bytes.max(1)).max(1)).max(1);
        let slice_at = |s: usize| s * inputs / n_slices..(s + 1) * inputs / n_slices;
        // After the last slice, the first one of the next set.
        let next = |s: usize| {
            let (after, slice) =
                if s + 1 < n_slices { (0, slice_at(s + 1)) } else { (n_filters, slice_at(0)) };
            let start = after * sizes.filter_len + slice.start * sizes.w_len;
            start..start + slice.len() * sizes.w_len
        };
        for s in 0..n_slices {
            let slice = slice_at(s);
            let start = match s {
                0 => Start { bias, ..self.start },
                _ => Start { bias: None, is_sum: true },
            };
            let whole = Line {
                form: self.form,
                block: self.block,
                axes: self.axes,
                x: &x[slice.start * sizes.x_len..],
                w: &w[slice.start * sizes.w_len..],
                inputs: slice.len(),
                filter_len: sizes.filter_len,
                merge: self.merge(start, s + 1 == n_slices),
                row: 0,
                taps_y: 0..0,
                outputs: 0..1,
                place,
                ahead: ahead(w, next(s), place),
            };
            self.lines(sizes.isa, &whole, chunk, y);
            if s + 1 == n_slices && self.activation.as_epilogue().is_none() {
                let elements = place * self.block..(place + chunk.len()) * self.block;
                y.iter_mut()
                    .for_each(|y| self.activation.apply(self.isa, &mut y[elements.clone()]));
            }
        }
    }

    fn merge<'s>(&self, start: Start<'s>, is_last: bool) -> Merge<'s> {
        let epilogue = if is_last { self.activation.as_epilogue() } else { None };
        Merge { start, epilogue: epilogue.unwrap_or(Epilogue::NONE) }
    }

    /// The part of each output row that lies in `chunk`.
    fn lines(&self, isa: Isa, whole: &Line<'_>, chunk: &Range<usize>, y: &mut [&mut [f32]]) {
        let width = self.axes[1].output;
        let (mut row, mut first) = (chunk.start / width, chunk.start % width);
        let mut place = whole.place;
        let end = place + chunk.len();
        while place < end {
            let outputs = first..width.min(first + end - place);
            let taps_y = self.axes[0].taps(row);
            let next = place + outputs.len();
            line(isa, &Line { row, taps_y, outputs, place, ..*whole }, y);
            (row, first, place) = (row + 1, 0, next);
        }
    }
}

/// The elements of `len` that windows along an axis read.
fn read(len: usize, axis: &Axis) -> usize {
    len / axis.stride * axis.kernel.min(axis.stride)
}

/// What is prefetched while the chunk at `place` is computed: `next` of each filter, if `w` has it.
fn ahead(w: &[f32], next: Range<usize>, place: usize) -> Ahead<'_> {
    let w = w.get(next.start..).unwrap_or_default();
    let n_lines = if w.is_empty() { 0 } else { next.len().div_ceil(FLOATS_PER_LINE) };
    Ahead { w, n_lines, place }
}

/// Merges pointwise axes to one long row.
pub(super) fn flattened(axes: [Axis; 2]) -> [Axis; 2] {
    let [height, width] = &axes;
    if !axes.iter().all(Axis::is_pointwise) {
        return axes;
    }
    let plane = height.input * width.input;
    [Axis::UNIT, Axis { input: plane, output: plane, ..Axis::UNIT }]
}
