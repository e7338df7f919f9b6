//! Rows of an image, arranged so that consecutive outputs read consecutive elements with each tap.

use std::ops::Range;

use super::{MAX_TAPS, Taps};
use crate::Isa;
use crate::conv_f32::Axis;

/// Elements per band, unless one row of outputs needs more: half of the smallest second-level
/// cache.
const BAND: usize = 64 * 1024;

/// The layout of a band: `[channels][rows][stride][columns]`, where column `q` of remainder
/// `r` is element `q·stride + r − pad` of an image row. Without padding and strides along a
/// row, the band is the image itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    channels: usize,
    axes: [Axis; 2],
    is_image: bool,
    /// Elements of a row.
    row_len: usize,
    /// Rows of outputs.
    rows: usize,
    columns: [usize; MAX_TAPS],
}

/// A band of rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Band<'a> {
    elements: &'a [f32],
    /// The output row at which the elements start.
    first: usize,
    /// The distance between rows of outputs, in elements.
    step: usize,
    channel_len: usize,
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

/// Whether no output reads padding.
fn is_inside(axis: &Axis) -> bool {
    axis.pad[0] == 0 && axis.reach(axis.output) <= axis.input
}

impl Layout {
    pub(super) fn new(channels: usize, axes: [Axis; 2]) -> Self {
        let [height, width] = &axes;
        let is_image = width.stride == 1 && axes.iter().all(is_inside);
        let tap = |tap: usize| tap * width.dilation;
        let n_columns = width.output + tap(width.kernel - 1) / width.stride;
        let row_len = if is_image { width.input } else { width.stride * n_columns };
        let columns = std::array::from_fn(|i| {
            let at = tap(i.min(width.kernel - 1));
            at % width.stride * n_columns + at / width.stride
        });
        let n_inputs = BAND / (channels * row_len).max(1);
        let rows = match n_inputs.checked_sub(height.reach(1)) {
            _ if is_image => height.output,
            Some(more) => more / height.stride + 1,
            None => 1,
        };
        Self { channels, axes, is_image, row_len, rows: rows.min(height.output.max(1)), columns }
    }

    /// Outputs per row.
    pub(super) fn width(&self) -> usize {
        self.axes[1].output
    }

    /// The maximum number of rows of outputs per band.
    pub(super) fn rows_of_band(&self) -> usize {
        self.rows
    }

    /// Elements of scratch for a band.
    pub(super) fn scratch_len(&self) -> usize {
        if self.is_image { 0 } else { self.channels * self.axes[0].reach(self.rows) * self.row_len }
    }

    /// The inputs of a tile whose outputs start at these elements.
    pub(super) fn taps<'a>(&'a self, (elements, channel_len): (&'a [f32], usize)) -> Taps<'a> {
        let [height, width] = &self.axes;
        Taps {
            band: elements,
            channels: self.channels,
            channel_len,
            rows: height.kernel,
            row_len: height.dilation * self.row_len,
            columns: &self.columns[..width.kernel],
        }
    }

    /// The band of these rows of outputs.
    pub(super) fn band<'a>(
        &self,
        isa: Isa,
        x: &'a [f32],
        rows: Range<usize>,
        scratch: &'a mut [f32],
    ) -> Band<'a> {
        let [height, width] = &self.axes;
        let step = height.stride * self.row_len;
        if self.is_image {
            let channel_len = height.input * width.input;
            return Band { elements: x, first: 0, step, channel_len };
        }
        let n_rows = height.reach(rows.len());
        let channel_len = n_rows * self.row_len;
        let band = &mut scratch[..self.channels * channel_len];
        fill(isa, self, x, (rows.start, n_rows), band);
        Band { elements: band, first: rows.start, step, channel_len }
    }
}

impl<'a> Band<'a> {
    /// The elements starting with the first input of output row `row`, and the elements per channel.
    pub(super) fn from(&self, row: usize) -> (&'a [f32], usize) {
        // An image without channels has no elements.
        let from = self.elements.get((row - self.first) * self.step..);
        (from.unwrap_or_default(), self.channel_len)
    }
}

per_isa! {
    /// Fills a band of `n` rows for the outputs starting at row `first`.
    fn fill<FMA>(layout: &Layout, x: &[f32], place: (usize, usize), band: &mut [f32]) {
        let [height, width] = &layout.axes;
        let (first, n_rows) = place;
        let plane = height.input * width.input;
        let rows = band.chunks_exact_mut(layout.row_len);
        for (i, to) in rows.enumerate() {
            let (channel, row) = (i / n_rows, i % n_rows);
            match (first * height.stride + row).checked_sub(height.pad[0]) {
                Some(y) if y < height.input => {
                    let from = &x[channel * plane + y * width.input..][..width.input];
                    match width.stride {
                        1 => fill_row::<1>(width, from, to),
                        2 => fill_row::<2>(width, from, to),
                        _ => fill_row::<0>(width, from, to),
                    }
                }
                _ => to.fill(0.0),
            }
        }
    }
}

/// Fills one row of the band. `S` is the stride, if it is not 0.
#[inline(always)]
fn fill_row<const S: usize>(width: &Axis, from: &[f32], to: &mut [f32]) {
    let stride = if S > 0 { S } else { width.stride };
    let (pad, n_columns) = (width.pad[0], to.len() / stride);
    for (remainder, to) in to.chunks_exact_mut(n_columns).enumerate() {
        // The columns inside the image.
        let start = pad.saturating_sub(remainder).div_ceil(stride).min(n_columns);
        let end = (pad + from.len()).saturating_sub(remainder).div_ceil(stride);
        let end = end.clamp(start, n_columns);
        to[..start].fill(0.0);
        to[end..].fill(0.0);
        if start < end {
            let from = &from[start * stride + remainder - pad..];
            let to = &mut to[start..end];
            if S == 1 {
                to.copy_from_slice(&from[..to.len()]);
            } else {
                let from = &from[..(to.len() - 1) * stride + 1];
                for i in 0..to.len() {
                    to[i] = from[i * stride];
                }
            }
        }
    }
}
