//! The layout of an image that is split for matrix tiles.

use crate::Isa;
use crate::conv_f32::Axis;
use crate::tiles::{self, Line, SIDE};
use std::ops::Range;

/// Channels per block.
const LANES: usize = 16;
/// Lines of the three parts of a chunk, unless one row needs more: 1.25 MiB.
const IMAGE: usize = 20 * 1024;

/// The phases that stride and dilation create along one axis.
#[derive(Clone, Copy, Debug)]
struct Phases {
    axis: Axis,
    /// The number of taps after which the phases repeat.
    n: usize,
}

impl Phases {
    fn new(axis: Axis) -> Self {
        // A stride can be any number, but only taps have phases.
        let repeats = |n: &usize| {
            n.checked_mul(axis.dilation).is_some_and(|at| at.is_multiple_of(axis.stride))
        };
        let period = (1..=axis.stride.min(axis.kernel)).find(repeats);
        Self { axis, n: period.unwrap_or(axis.kernel) }
    }

    /// The distance from an output to the pixel that `tap` reads, within its phase.
    fn shift(&self, tap: usize) -> usize {
        tap * self.axis.dilation / self.axis.stride
    }

    /// The maximum shift of all taps.
    fn reach(&self) -> usize {
        self.shift(self.axis.kernel - 1)
    }

    /// The input that is the `i`th pixel of `phase`, unless it is padding.
    fn input(&self, phase: usize, i: usize) -> Option<usize> {
        let residue = phase * self.axis.dilation % self.axis.stride;
        let at = (i * self.axis.stride + residue).checked_sub(self.axis.pad[0])?;
        (at < self.axis.input).then_some(at)
    }
}

/// The layout of all chunks of a convolution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    phases: [Phases; 2],
    /// Input blocks.
    pub(super) inputs: usize,
    /// The maximum rows and columns of outputs per chunk.
    most: [usize; 2],
}

/// A rectangle of outputs.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    rows: Range<usize>,
    columns: Range<usize>,
}

impl Layout {
    pub(super) fn new(axes: [Axis; 2], inputs: usize) -> Self {
        let mut layout = Self { phases: axes.map(Phases::new), inputs, most: [1, axes[1].output] };
        let images = 3 * layout.n_pairs() * layout.phases[0].n * layout.phases[1].n;
        let lines = IMAGE / images.max(1);
        let [rows, columns] = axes.map(|axis| axis.output);
        if rows > 1 {
            let most = (lines / layout.pitch(columns)).saturating_sub(layout.phases[0].reach());
            layout.most[0] = even(rows, most.max(1));
        } else {
            let height = 1 + layout.phases[0].reach();
            let most = (lines / height).saturating_sub(layout.phases[1].reach());
            layout.most[1] = even(columns, most.max(SIDE)).next_multiple_of(SIDE).min(columns);
        }
        layout
    }

    pub(super) fn taps(&self) -> usize {
        self.phases.iter().map(|phases| phases.axis.kernel).product()
    }

    /// The steps of a product: pairs of input blocks, tap by tap.
    pub(super) fn n_steps(&self) -> usize {
        self.n_pairs() * self.taps()
    }

    fn n_pairs(&self) -> usize {
        self.inputs.div_ceil(2)
    }

    /// Lines per row, for this many columns of outputs.
    fn pitch(&self, columns: usize) -> usize {
        columns + self.phases[1].reach()
    }

    /// The lines of one phase of one pair of blocks.
    fn image_len(&self, [rows, columns]: [usize; 2]) -> usize {
        (rows + self.phases[0].reach()) * self.pitch(columns)
    }

    fn part_len(&self, size: [usize; 2]) -> usize {
        let images = self.n_pairs() * self.phases[0].n * self.phases[1].n;
        // The last product reads beyond the last position.
        images * self.image_len(size) + SIDE
    }

    /// The lines of one part of the largest chunk.
    pub(super) fn most_lines(&self) -> usize {
        self.part_len(self.most)
    }

    /// The lines of one part of `chunk`.
    pub(super) fn lines(&self, chunk: &Chunk) -> usize {
        self.part_len(chunk.size())
    }

    /// The number of positions of all outputs, and of the lines that contain them.
    pub(super) fn counts(&self) -> [usize; 2] {
        let [rows, columns] = self.phases.map(|phases| phases.axis.output);
        [rows * columns, rows * self.pitch(columns)]
    }

    /// Vectors per image.
    pub(super) fn n_pixels(&self) -> usize {
        let [height, width] = &self.phases;
        self.inputs * height.axis.input * width.axis.input
    }

    /// The lines of one part of all chunks.
    pub(super) fn n_lines(&self) -> usize {
        self.part_len(self.phases.map(|phases| phases.axis.output))
    }

    /// The lines from the first position of a chunk to the last.
    pub(super) fn flat_len(&self, chunk: &Chunk) -> usize {
        let [rows, columns] = chunk.size();
        (rows - 1) * self.pitch(columns) + columns
    }

    /// The chunks that contain `positions`.
    pub(super) fn chunks(&self, positions: &Range<usize>) -> impl Iterator<Item = Chunk> + use<> {
        let [most_rows, most_columns] = self.most;
        let width = self.phases[1].axis.output.max(1);
        let rows = positions.start / width..positions.end.div_ceil(width);
        let columns = if self.phases[0].axis.output == 1 { positions.clone() } else { 0..width };
        rows.clone().step_by(most_rows).flat_map(move |row| {
            let (rows, columns) = (row..rows.end.min(row + most_rows), columns.clone());
            columns.clone().step_by(most_columns).map(move |column| Chunk {
                rows: rows.clone(),
                columns: column..columns.end.min(column + most_columns),
            })
        })
    }

    /// The line at which each step reads the first position of a chunk, within a part.
    pub(super) fn steps(&self, chunk: &Chunk, steps: &mut [u32]) {
        let [height, width] = &self.phases;
        let (image_len, pitch) = (self.image_len(chunk.size()), self.pitch(chunk.columns.len()));
        let taps =
            (0..height.axis.kernel).flat_map(|y| (0..width.axis.kernel).map(move |x| (y, x)));
        let offset = |(y, x)| {
            let image = y % height.n * width.n + x % width.n;
            image * image_len + height.shift(y) * pitch + width.shift(x)
        };
        let images = height.n * width.n;
        let offsets = (0..self.n_pairs())
            .flat_map(|pair| taps.clone().map(move |tap| pair * images * image_len + offset(tap)));
        for (step, offset) in steps.iter_mut().zip(offsets) {
            *step = u32::try_from(offset).expect("invariant: a chunk has a few thousand lines");
        }
    }

    /// The positions among the lines of a chunk, row by row, with their lines.
    pub(super) fn runs(
        &self,
        chunk: &Chunk,
        lines: Range<usize>,
    ) -> impl Iterator<Item = (Range<usize>, Range<usize>)> + use<> {
        let (pitch, width) = (self.pitch(chunk.columns.len()), self.phases[1].axis.output);
        let (first_row, columns) = (chunk.rows.start, chunk.columns.clone());
        (lines.start / pitch..lines.end.div_ceil(pitch)).filter_map(move |row| {
            let from = lines.start.max(row * pitch);
            let to = lines.end.min(row * pitch + columns.len());
            let position = |line| (first_row + row) * width + columns.start + line - row * pitch;
            (from < to).then(|| (from..to, position(from)..position(to)))
        })
    }

    /// Splits the inputs of a chunk, `x`: `[inputs][H][W][16]`.
    pub(super) fn split_image(&self, isa: Isa, x: &[f32], chunk: &Chunk, lines: &mut [Line]) {
        let part = self.lines(chunk);
        let (first, rest) = lines.split_at_mut(part);
        let (second, third) = rest.split_at_mut(part);
        let [height, width] = &self.phases;
        let plane = height.axis.input * width.axis.input;
        let pixels = x.as_chunks::<LANES>().0;
        let (rows, pitch) = (chunk.rows.len() + height.reach(), self.pitch(chunk.columns.len()));
        let mut at = 0;
        for pair in 0..self.n_pairs() {
            let low = &pixels[2 * pair * plane..][..plane];
            let high = pixels.get((2 * pair + 1) * plane..).and_then(|high| high.get(..plane));
            for (py, px) in (0..height.n).flat_map(|y| (0..width.n).map(move |x| (y, x))) {
                for row in chunk.rows.start..chunk.rows.start + rows {
                    let parts = [
                        &mut first[at..at + pitch],
                        &mut second[at..at + pitch],
                        &mut third[at..at + pitch],
                    ];
                    let input = height.input(py, row).map(|y| y * width.axis.input);
                    let source = input.map(|at| (&low[at..], high.map(|high| &high[at..])));
                    self.split_row(isa, source, (px, chunk.columns.start), parts);
                    at += pitch;
                }
            }
        }
    }

    /// Splits one row of a phase, starting with the pixel that output `column` reads.
    fn split_row(
        &self,
        isa: Isa,
        source: Option<(&[[f32; LANES]], Option<&[[f32; LANES]]>)>,
        (phase, column): (usize, usize),
        [first, second, third]: [&mut [Line]; 3],
    ) {
        let width = &self.phases[1];
        let Some((low, high)) = source else {
            [first, second, third].into_iter().for_each(|part| part.fill([0; LANES]));
            return;
        };
        let low = &low[..width.axis.input];
        let mut i = 0;
        while i < first.len() {
            let at = width.input(phase, column + i);
            let run = match at {
                Some(at) if width.axis.stride == 1 => (width.axis.input - at).min(first.len() - i),
                _ => 1,
            };
            let zero = [[0.0; LANES]];
            let (low, high) = match (at, high) {
                (Some(at), Some(high)) => (&low[at..], &high[at..]),
                (Some(at), None) => (&low[at..], &[][..]),
                (None, _) => (&zero[..], &[][..]),
            };
            let parts = [&mut first[i..i + run], &mut second[i..i + run], &mut third[i..i + run]];
            tiles::split_run(isa, low, high, parts);
            i += run;
        }
    }
}

impl Chunk {
    fn size(&self) -> [usize; 2] {
        [self.rows.len(), self.columns.len()]
    }
}

/// `n` in as few pieces of at most `most` as possible, of nearly equal length.
fn even(n: usize, most: usize) -> usize {
    n.div_ceil(n.div_ceil(most).max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::{Axis, Phases};

    #[test]
    fn phases_repeat_after_the_period_of_stride_and_dilation_or_end_with_the_taps() {
        let n = |kernel, stride, dilation| {
            Phases::new(Axis { kernel, stride, dilation, ..Axis::UNIT }).n
        };
        assert_eq!([n(5, 1, 1), n(5, 2, 1), n(5, 2, 2), n(5, 6, 4), n(2, 6, 4)], [1, 2, 1, 3, 2]);
        assert_eq!([n(3, 1 << 62, 1), n(3, 1 << 62, 1 << 62), n(3, 7, usize::MAX / 3)], [3, 1, 3]);
    }
}
