//! The image of a convolution as the right operand of a product, generated panel by panel.

use super::{Axis, patches::patches};
use crate::gemm::{Matrix, Panels, Slice, by_width, each_panel};
use std::ops::Range;

/// `B[(c, t), p] = x[c, s·p + d·t − pad]`, zero outside: row `(c, t)` for channel and tap, column
/// `p` for the output position, both in row-major order.
///
/// With weights packed as A: [channels out, channels·taps], the product of
/// [`Gemm`](crate::gemm::Gemm) is the convolution of one group of one image, its bias
/// [`Start::ByRow`](crate::gemm::Start::ByRow). Threads take ranges of output channels or of
/// positions. For a pointwise convolution (1×1, stride 1, no padding) the image itself is B.
#[derive(Clone, Copy, Debug)]
pub struct Columns<'a> {
    input: &'a [f32],
    channels: usize,
    axes: [Axis; 3],
    is_pointwise: bool,
}

/// Consecutive output positions within one row of the output, inside one panel.
struct Run {
    /// The output row, along the first two axes.
    row: [usize; 2],
    /// Along the last axis.
    outputs: Range<usize>,
    /// The column of the panel at which the run starts.
    column: usize,
}

/// The runs of a panel. For loops over them compile to the instruction set of the caller; closures might not.
struct Runs {
    /// Of an output.
    height: usize,
    width: usize,
    /// The first position, and those to come.
    start: usize,
    rest: Range<usize>,
}

impl Iterator for Runs {
    type Item = Run;

    #[inline(always)]
    fn next(&mut self) -> Option<Run> {
        let Range { start, end } = self.rest;
        if start >= end {
            return None;
        }
        let (row, first) = (start / self.width, start % self.width);
        let last = self.width.min(first + end - start);
        self.rest.start += last - first;
        let row = [row / self.height, row % self.height];
        Some(Run { row, outputs: first..last, column: start - self.start })
    }
}

impl Run {
    /// The outputs inside of a range along each axis.
    fn inside(&self, [d, h, w]: &[Range<usize>; 3]) -> Range<usize> {
        let Range { start, end } = self.outputs;
        let is_row = d.contains(&self.row[0]) && h.contains(&self.row[1]);
        let (from, to) = (w.start.max(start), w.end.min(end));
        if is_row && from < to { from..to } else { end..end }
    }
}

impl<'a> Columns<'a> {
    /// `input: [channels, axes…]`, contiguous; a convolution of fewer dimensions has leading
    /// [`Axis::UNIT`]s.
    ///
    /// # Panics
    /// If `input` has another length.
    #[must_use]
    pub fn new(input: &'a [f32], channels: usize, axes: [Axis; 3]) -> Self {
        let plane: usize = axes.iter().map(|axis| axis.input).product();
        assert_eq!(input.len(), channels * plane, "length of the image");
        Self { input, channels, axes, is_pointwise: axes.iter().all(Axis::is_pointwise) }
    }

    /// Rows of B: channels times taps, the columns of the weights.
    #[must_use]
    pub fn k(&self) -> usize {
        self.channels * self.taps()
    }

    /// Columns of B: output positions.
    #[must_use]
    pub fn n(&self) -> usize {
        self.axes.iter().map(|axis| axis.output).product()
    }

    fn taps(&self) -> usize {
        self.axes.iter().map(|axis| axis.kernel).product()
    }

    /// Every channel whose row for `tap` lies in `k`, with the index of the row in `k`.
    #[inline(always)]
    fn rows_of_tap(&self, tap: usize, k: &Range<usize>) -> impl Iterator<Item = (usize, usize)> {
        let (taps, start) = (self.taps(), k.start);
        let channel = |k: usize| k.saturating_sub(tap).div_ceil(taps);
        // Division is slow, and `k` usually covers all rows.
        let is_whole = *k == (0..self.channels * taps);
        let channels = if is_whole { 0..self.channels } else { channel(k.start)..channel(k.end) };
        channels.map(move |c| (c, c * taps + tap - start))
    }

    /// The lines of taps along the last axis for which some channel has a row in `k`: all, or, if `k` is shorter than a
    /// channel, a subset that may wrap around from the last line to the first.
    #[inline(always)]
    fn lines_of(&self, k: &Range<usize>) -> [Range<usize>; 2] {
        let (taps, width) = (self.taps(), self.axes[2].kernel);
        if k.len() >= taps {
            return [0..taps / width, 0..0];
        }
        let start = k.start % taps;
        let end = start + k.len();
        let first = end.saturating_sub(taps).div_ceil(width);
        [0..first, first.max(start / width)..end.min(taps).div_ceil(width)]
    }

    /// The taps of a line for which some channel has a row in `k`; see [`Columns::lines_of`].
    #[inline(always)]
    fn taps_of(&self, line: usize, k: &Range<usize>) -> [Range<usize>; 2] {
        let (taps, width) = (self.taps(), self.axes[2].kernel);
        if k.len() >= taps {
            return [0..width, 0..0];
        }
        let (start, first) = (k.start % taps, line * width);
        let end = start + k.len();
        let within = |tap: usize| tap.clamp(first, first + width) - first;
        [0..within(end.saturating_sub(taps)), within(start)..within(end.min(taps))]
    }

    /// One run for one tap and every channel whose row lies in `k`.
    #[inline(always)]
    fn write_run<const NR: usize>(
        &self,
        run: &Run,
        tap: [usize; 3],
        k: &Range<usize>,
        panel: &mut [[f32; NR]],
    ) {
        let [d, h, w] = &self.axes;
        let columns = run.column..run.column + run.outputs.len();
        let rows = self.rows_of_tap((tap[0] * h.kernel + tap[1]) * w.kernel + tap[2], k);
        let Some((z, y)) = d.at(run.row[0], tap[0]).zip(h.at(run.row[1], tap[1])) else {
            return rows.for_each(|(_, row)| panel[row][columns.clone()].fill(0.0));
        };
        let Range { start: from, end: to } = w.inside(&run.outputs, tap[2]);
        let x = if from < to { w.at(from, tap[2]).unwrap_or_default() } else { 0 };
        let first = (z * h.input + y) * w.input + x;
        let plane = d.input * h.input * w.input;
        let used = from - run.outputs.start..to - run.outputs.start;
        let rows = rows.map(|(c, row)| (c * plane + first, row));
        match w.stride {
            1 => self.copy_rows::<NR, 1>(rows, used, (columns, panel)),
            2 => self.copy_rows::<NR, 2>(rows, used, (columns, panel)),
            3 => self.copy_rows::<NR, 3>(rows, used, (columns, panel)),
            stride => {
                for (first, row) in rows {
                    let out = padded(&mut panel[row][columns.clone()], &used);
                    copy_every(&self.input[first..], stride, out);
                }
            }
        }
    }

    /// Copies every `STRIDE`-th element from the first index of each row on to the used columns, and clears the others. Each
    /// length is two groups of a constant size that may overlap: rows of small images are short, and neither a call nor a
    /// loop for each would be fast.
    #[inline(always)]
    fn copy_rows<const NR: usize, const STRIDE: usize>(
        &self,
        rows: impl Iterator<Item = (usize, usize)>,
        used: Range<usize>,
        (columns, panel): (Range<usize>, &mut [[f32; NR]]),
    ) {
        let rows = rows.map(|(first, row)| (&self.input[first..], row));
        match used.len() {
            0 => rows.for_each(|(_, row)| panel[row][columns.clone()].fill(0.0)),
            1 => copy_groups::<NR, 1, STRIDE>(rows, used, (columns, panel)),
            2..4 => copy_groups::<NR, 2, STRIDE>(rows, used, (columns, panel)),
            4..8 => copy_groups::<NR, 4, STRIDE>(rows, used, (columns, panel)),
            8..16 => copy_groups::<NR, 8, STRIDE>(rows, used, (columns, panel)),
            16..32 => copy_groups::<NR, 16, STRIDE>(rows, used, (columns, panel)),
            _ => copy_groups::<NR, 32, STRIDE>(rows, used, (columns, panel)),
        }
    }

    /// The runs of a panel of `nr` columns that starts at a position.
    #[inline(always)]
    fn runs(&self, start: usize, nr: usize) -> Runs {
        let [_, h, w] = &self.axes;
        let rest = start..self.n().min(start + nr);
        Runs { height: h.output, width: w.output, start, rest }
    }

    /// One run.
    #[inline(always)]
    fn write_taps<const NR: usize>(&self, run: &Run, k: &Range<usize>, panel: &mut [[f32; NR]]) {
        let height = self.axes[1].kernel;
        for line in self.lines_of(k).into_iter().flatten() {
            for x in self.taps_of(line, k).into_iter().flatten() {
                self.write_run(run, [line / height, line % height, x], k, panel);
            }
        }
    }

    /// A panel, if the taps of a line read adjacent inputs: those of positions that do with every tap are transposed.
    #[inline(always)]
    fn write_lines<const NR: usize>(&self, slice: &Slice, panel: &mut [[f32; NR]]) {
        let interior = self.axes.map(|axis| axis.interior());
        let (mut starts, mut n_inside) = ([0; NR], 0);
        for run in self.runs(slice.column, NR) {
            let inside = run.inside(&interior);
            let first = self.first_input([run.row[0], run.row[1], inside.start]);
            let column = run.column + inside.start - run.outputs.start;
            for (i, start) in starts[column..][..inside.len()].iter_mut().enumerate() {
                *start = first + i * self.axes[2].stride;
            }
            n_inside += inside.len();
        }
        if n_inside > 0 {
            self.transpose_lines(&starts, slice, panel);
        }
        for run in self.runs(slice.column, NR) {
            let inside = run.inside(&interior);
            for outputs in [run.outputs.start..inside.start, inside.end..run.outputs.end] {
                if !outputs.is_empty() {
                    let column = run.column + outputs.start - run.outputs.start;
                    let run = Run { row: run.row, outputs, column };
                    self.write_taps(&run, &slice.k, panel);
                }
            }
        }
    }

    /// The input that an output reads with the first tap, or 0 if that is padding.
    #[inline(always)]
    fn first_input(&self, output: [usize; 3]) -> usize {
        let [d, h, w] = &self.axes;
        let at = |axis: &Axis, output| axis.at(output, 0).unwrap_or_default();
        (at(d, output[0]) * h.input + at(h, output[1])) * w.input + at(w, output[2])
    }

    /// Every line of taps of every channel that has a row in the slice: the inputs from `starts` on.
    #[inline(always)]
    fn transpose_lines<const NR: usize>(
        &self,
        starts: &[usize; NR],
        slice: &Slice,
        panel: &mut [[f32; NR]],
    ) {
        let ([d, h, w], k) = (&self.axes, &slice.k);
        let plane = d.input * h.input * w.input;
        for line in self.lines_of(k).into_iter().flatten() {
            let (z, y) = (line / h.kernel * d.dilation, line % h.kernel * h.dilation);
            for c in 0..self.channels {
                let row = c * self.taps() + line * w.kernel;
                let rows = row.max(k.start)..(row + w.kernel).min(k.end);
                if rows.start < rows.end {
                    let first = c * plane + (z * h.input + y) * w.input + rows.start - row;
                    let panel = &mut panel[rows.start - k.start..rows.end - k.start];
                    patches(slice.isa, starts, &self.input[first..], panel.as_flattened_mut());
                }
            }
        }
    }
}

impl Panels for Columns<'_> {
    fn write(&self, slice: &Slice, panels: &mut [f32]) {
        if self.is_pointwise {
            Matrix::row_major(self.input, self.channels, self.n()).write(slice, panels);
        } else {
            let write = if are_adjacent(&self.axes[2]) { by_lines } else { by_taps };
            each_panel(slice, panels, |slice, panel| write(slice.isa, self, slice, panel));
        }
    }
}

per_isa! {
    fn by_taps<FMA>(columns: &Columns<'_>, slice: &Slice, panel: &mut [f32]) {
        by_width!(slice => write_by_taps(columns, slice, panel));
    }

    fn by_lines<FMA>(columns: &Columns<'_>, slice: &Slice, panel: &mut [f32]) {
        by_width!(slice => write_by_lines(columns, slice, panel));
    }
}

#[inline(always)]
fn write_by_taps<const NR: usize>(columns: &Columns<'_>, slice: &Slice, panel: &mut [f32]) {
    let panel = panel.as_chunks_mut::<NR>().0;
    for run in columns.runs(slice.column, NR) {
        columns.write_taps(&run, &slice.k, panel);
    }
    clear_rest(columns, slice, panel);
}

#[inline(always)]
fn write_by_lines<const NR: usize>(columns: &Columns<'_>, slice: &Slice, panel: &mut [f32]) {
    let panel = panel.as_chunks_mut::<NR>().0;
    columns.write_lines(slice, panel);
    clear_rest(columns, slice, panel);
}

/// Clears the columns of a panel that are no position.
#[inline(always)]
fn clear_rest<const NR: usize>(columns: &Columns<'_>, slice: &Slice, panel: &mut [[f32; NR]]) {
    let n = columns.n() - slice.column;
    if n < NR {
        panel.iter_mut().for_each(|row| row[n..].fill(0.0));
    }
}

/// Whether the taps along an axis are better written together: if positions are far apart, and the taps of
/// each are adjacent.
fn are_adjacent(axis: &Axis) -> bool {
    axis.dilation == 1 && axis.stride >= 4 && axis.kernel >= 4
}

/// See [`Columns::copy_rows`]; at most `2·N` columns are used.
#[inline(always)]
fn copy_groups<'x, const NR: usize, const N: usize, const STRIDE: usize>(
    rows: impl Iterator<Item = (&'x [f32], usize)>,
    used: Range<usize>,
    (columns, panel): (Range<usize>, &mut [[f32; NR]]),
) {
    let Some(last) = used.len().checked_sub(N).filter(|_| N <= NR) else { return };
    for (source, row) in rows {
        let out = padded(&mut panel[row][columns.clone()], &used);
        let source = &source[..(used.len() - 1) * STRIDE + 1];
        if let Some(first) = out.first_chunk_mut::<N>() {
            copy_every(source, STRIDE, first);
        }
        if last > 0
            && let Some(end) = out.last_chunk_mut::<N>()
        {
            copy_every(&source[last * STRIDE..], STRIDE, end);
        }
    }
}

/// The used columns; the others are cleared: mostly none or one, for which a call would take longer than the rest of a row.
#[inline(always)]
fn padded<'p>(out: &'p mut [f32], used: &Range<usize>) -> &'p mut [f32] {
    let (before, rest) = out.split_at_mut(used.start);
    let (out, after) = rest.split_at_mut(used.len());
    for padding in [before, after] {
        match padding {
            [] => {}
            [one] => *one = 0.0,
            many => many.fill(0.0),
        }
    }
    out
}

/// `out[i] = source[i·stride]`.
#[inline(always)]
fn copy_every(source: &[f32], stride: usize, out: &mut [f32]) {
    let Some(last) = out.len().checked_sub(1) else { return };
    let source = &source[..=last * stride];
    for i in 0..out.len() {
        out[i] = source[i * stride];
    }
}
