//! Rows of an image, arranged so that consecutive outputs read consecutive elements with each tap.

use std::ops::Range;

use super::{MAX_TAPS, Taps};
use crate::Isa;
use crate::conv_f32::Axis;
use crate::transpose::transpose;

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

/// Merges the axes to one long row, if windows have one column and rows are adjacent: those of the image, or of a
/// band of all its rows.
pub(super) fn flattened(channels: usize, axes: [Axis; 2]) -> [Axis; 2] {
    let [height, width] = &axes;
    let (n, pad) = (width.input, height.pad.map(|pad| pad.saturating_mul(width.input)));
    let is_image = height.pad == [0; 2];
    let padded = (height.input * n).saturating_add(pad[0]).saturating_add(pad[1]);
    let fits = is_image || channels.saturating_mul(padded) <= BAND;
    if !(width.is_pointwise() && height.stride == 1 && height.kernel <= MAX_TAPS && fits) {
        return axes;
    }
    let (input, output) = (height.input * n, height.output * n);
    [Axis::UNIT, Axis { input, output, pad, dilation: height.dilation * n, ..*height }]
}

/// Whether no output reads padding.
fn is_inside(axis: &Axis) -> bool {
    axis.pad[0] == 0 && axis.reach(axis.output) <= axis.input
}

/// Whether the image itself is the band.
pub(super) fn is_image([height, width]: [&Axis; 2]) -> bool {
    width.stride == 1 && is_inside(height) && is_inside(width)
}

impl Layout {
    pub(super) fn new(channels: usize, axes: [Axis; 2]) -> Self {
        let [height, width] = &axes;
        let is_image = is_image([height, width]);
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

    /// Elements of scratch for a band, and for a row of the image with its padding.
    pub(super) fn scratch_len(&self) -> usize {
        if self.is_image {
            return 0;
        }
        self.channels * self.axes[0].reach(self.rows) * self.row_len + self.row_len
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
        let (band, line) = scratch.split_at_mut(self.channels * channel_len);
        fill(isa, self, x, (rows.start, n_rows), [&mut *band, &mut line[..self.row_len]]);
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

/// Fills a band of `n` rows for the outputs starting at row `first`; `line` has the elements of a row.
fn fill(
    isa: Isa,
    layout: &Layout,
    x: &[f32],
    (first, n_rows): (usize, usize),
    [band, line]: [&mut [f32]; 2],
) {
    let [height, width] = &layout.axes;
    let (plane, stride) = (height.input * width.input, width.stride);
    // The inputs that the band has room for; others are not read.
    let start = width.pad[0].min(layout.row_len);
    let len = width.input.min(layout.row_len - start);
    let inside = start..start + len;
    line.fill(0.0);
    for (i, to) in band.chunks_exact_mut(layout.row_len.max(1)).enumerate() {
        let (channel, row) = (i / n_rows, i % n_rows);
        let y = (first * height.stride + row).checked_sub(height.pad[0]);
        let Some(y) = y.filter(|y| *y < height.input) else {
            to.fill(0.0);
            continue;
        };
        let from = &x[channel * plane + y * width.input..][..len];
        if stride == 1 {
            to[..inside.start].fill(0.0);
            to[inside.end..].fill(0.0);
            to[inside.clone()].copy_from_slice(from);
        } else {
            line[inside.clone()].copy_from_slice(from);
            let n_columns = layout.row_len / stride;
            transpose(isa, [n_columns, stride], (line, stride), (to, n_columns));
        }
    }
}
