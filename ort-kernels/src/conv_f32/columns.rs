//! The image of a convolution as the right operand of a product, made panel by panel.

use super::Axis;
use crate::gemm_f32::{Matrix, Panels, Slice, by_width, each_panel};
use std::ops::Range;

/// `B[(c, t), p] = x[c, s·p + d·t − pad]`, zero outside: row `(c, t)` for channel and tap, column
/// `p` for the output position, both in row-major order.
///
/// With weights packed as A: [channels out, channels·taps], the product of
/// [`Gemm`](crate::gemm_f32::Gemm) is the convolution of one group of one image, its bias
/// [`Start::ByRow`](crate::gemm_f32::Start::ByRow). Threads take ranges of output channels or of
/// positions. Where every position is read as it stands (1×1, stride 1, no padding) the image is B.
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
    /// The column of the panel the run begins with.
    column: usize,
}

impl<'a> Columns<'a> {
    /// `input: [channels, axes…]`, contiguous; a convolution of fewer dimensions has
    /// [`Axis::UNIT`] in front.
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

    /// One run for one tap and every channel whose row lies in `k`.
    fn write_run<const NR: usize>(
        &self,
        run: &Run,
        tap: usize,
        k: &Range<usize>,
        panel: &mut [[f32; NR]],
    ) {
        let [d, h, w] = &self.axes;
        let taps = self.taps();
        let (tap_row, tap_w) = (tap / w.kernel, tap % w.kernel);
        let (tap_d, tap_h) = (tap_row / h.kernel, tap_row % h.kernel);
        let channel = |k: usize| k.saturating_sub(tap).div_ceil(taps);
        let rows = (channel(k.start)..channel(k.end)).map(|c| (c, c * taps + tap - k.start));
        let columns = run.column..run.column + run.outputs.len();
        let Some((z, y)) = d.at(run.row[0], tap_d).zip(h.at(run.row[1], tap_h)) else {
            return rows.for_each(|(_, row)| panel[row][columns.clone()].fill(0.0));
        };
        let valid = w.outputs(tap_w);
        let from = valid.start.clamp(run.outputs.start, run.outputs.end);
        let to = valid.end.clamp(from, run.outputs.end);
        let x = if from < to { w.at(from, tap_w).unwrap_or_default() } else { 0 };
        let first = (z * h.input + y) * w.input + x;
        let plane = d.input * h.input * w.input;
        for (c, row) in rows {
            let source = &self.input[c * plane + first..];
            let out = &mut panel[row][columns.clone()];
            copy_row(source, w.stride, out, from - run.outputs.start..to - run.outputs.start);
        }
    }
}

impl Panels for Columns<'_> {
    fn write(&self, slice: &Slice, panels: &mut [f32]) {
        if self.is_pointwise {
            Matrix::row_major(self.input, self.channels, self.n()).write(slice, panels);
        } else {
            each_panel(slice, panels, |slice, panel| {
                by_width!(slice => write_panel(self, slice, panel));
            });
        }
    }
}

fn write_panel<const NR: usize>(columns: &Columns<'_>, slice: &Slice, panel: &mut [f32]) {
    let panel = panel.as_chunks_mut::<NR>().0;
    let [_, h, w] = &columns.axes;
    let end = columns.n().min(slice.column + NR);
    let mut position = slice.column;
    while position < end {
        let (row, first) = (position / w.output, position % w.output);
        let last = w.output.min(first + end - position);
        let row = [row / h.output, row % h.output];
        let column = position - slice.column;
        for tap in 0..columns.taps() {
            let run = Run { row, outputs: first..last, column };
            columns.write_run(&run, tap, &slice.k, panel);
        }
        position += last - first;
    }
    if end < slice.column + NR {
        panel.iter_mut().for_each(|row| row[end - slice.column..].fill(0.0));
    }
}

/// `out[used] = source[0], source[stride], …`, zero before and after.
fn copy_row(source: &[f32], stride: usize, out: &mut [f32], used: Range<usize>) {
    out[..used.start].fill(0.0);
    out[used.end..].fill(0.0);
    let out = &mut out[used];
    // With a constant stride a piece is a few registers and no call.
    match stride {
        1 => copy_pieces(source, 1, out),
        2 => copy_pieces(source, 2, out),
        _ => copy_pieces(source, stride, out),
    }
}

#[inline(always)]
fn copy_pieces(source: &[f32], stride: usize, out: &mut [f32]) {
    const PIECE: usize = 8;
    let (pieces, rest) = out.as_chunks_mut::<PIECE>();
    let done = pieces.len() * PIECE * stride;
    for (i, piece) in pieces.iter_mut().enumerate() {
        let source = &source[i * PIECE * stride..][..(PIECE - 1) * stride + 1];
        for j in 0..PIECE {
            piece[j] = source[j * stride];
        }
    }
    for (i, to) in rest.iter_mut().enumerate() {
        *to = source[done + i * stride];
    }
}
