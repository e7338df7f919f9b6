//! A row of outputs, and the runs of adjacent elements it reads.

use super::Start;
use crate::Activation;
use crate::conv_f32::Axis;
use crate::vec::clamp;
use std::ops::Range;

/// The widest block.
pub(super) const MAX_BLOCK: usize = 64;
/// Pixels that a tile of 8 windows, 5 wide and 2 apart, reads.
pub(super) const MAX_WINDOW: usize = 7 * 2 + 5;
/// What a tap reads beside the image.
static ZEROS: [f32; MAX_BLOCK] = [0.0; MAX_BLOCK];

/// Where sums start, and the range the results are clamped to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Merge<'a> {
    pub(super) start: Start<'a>,
    pub(super) min: f32,
    pub(super) max: f32,
}

/// Consecutive outputs of one row, for one slice of input blocks.
#[derive(Clone, Debug)]
pub(super) struct Line<'a> {
    pub(super) block: usize,
    pub(super) axes: [Axis; 2],
    /// From the slice on: `[inputs][H][W][lanes]`.
    pub(super) x: &'a [f32],
    /// From the slice on, one output block every `filter_len`: `[inputs][KH][KW][depth][block]`.
    pub(super) w: &'a [f32],
    /// Elements of x to a tap.
    pub(super) lanes: usize,
    /// Vectors of w to a tap.
    pub(super) depth: usize,
    /// Input blocks of the slice.
    pub(super) inputs: usize,
    pub(super) filter_len: usize,
    pub(super) merge: Merge<'a>,
    /// What the kernel leaves to apply.
    pub(super) after: Activation,
    pub(super) row: usize,
    /// Of the row.
    pub(super) outputs: Range<usize>,
    /// Where in the pieces of y the outputs begin, in positions.
    pub(super) place: usize,
}

impl Default for Line<'_> {
    fn default() -> Self {
        let merge = Merge { start: Start::default(), min: f32::NEG_INFINITY, max: f32::INFINITY };
        Self {
            block: 1,
            axes: [Axis::UNIT; 2],
            x: &[],
            w: &[],
            lanes: 1,
            depth: 1,
            inputs: 0,
            filter_len: 0,
            merge,
            after: Activation::None,
            row: 0,
            outputs: 0..0,
            place: 0,
        }
    }
}

impl Line<'_> {
    /// Whether outputs are computed lane by lane.
    pub(super) fn is_depthwise(&self) -> bool {
        self.lanes != self.depth
    }

    /// Calls `tile` with the first output and the number of outputs of each tile: as few tiles as
    /// can be of at most `most`, all about as long.
    #[inline(always)]
    pub(super) fn each_tile(&self, most: usize, mut tile: impl FnMut(usize, usize)) {
        let n_tiles = self.outputs.len().div_ceil(most).max(1);
        let (len, longer) = (self.outputs.len() / n_tiles, self.outputs.len() % n_tiles);
        let mut first = self.outputs.start;
        for i in 0..n_tiles {
            let len = len + usize::from(i < longer);
            tile(first, len);
            first += len;
        }
    }

    /// The positions of `R` outputs from `first` on, in pieces of y.
    #[inline(always)]
    pub(super) fn places<const R: usize>(&self, first: usize) -> Range<usize> {
        let place = self.place + first - self.outputs.start;
        place..place + R
    }

    /// Rows of the image that a depthwise filter reads, each with its `K` taps.
    #[inline(always)]
    pub(super) fn rows<const K: usize, const B: usize>(
        &self,
    ) -> impl Iterator<Item = (&[[f32; B]], &[[f32; B]; K])> {
        let [height, width] = &self.axes;
        let x = self.x.as_chunks::<B>().0;
        let w = self.w.as_chunks::<B>().0.as_chunks::<K>().0;
        height.taps(self.row).map(move |tap| {
            let y = self.row * height.stride + tap * height.dilation - height.pad[0];
            (&x[y * width.input..][..width.input], &w[tap])
        })
    }

    /// The `len` pixels of `row` from the first that output `first` reads, with zeros beside it.
    #[inline(always)]
    pub(super) fn window<'x, const B: usize>(
        &self,
        row: &'x [[f32; B]],
        first: usize,
        len: usize,
        padded: &'x mut [[f32; B]; MAX_WINDOW],
    ) -> &'x [[f32; B]] {
        let width = &self.axes[1];
        // To the left of the image places wrap, and no range follows them.
        let start = (first * width.stride).wrapping_sub(width.pad[0]);
        if let Some(inside) = row.get(start..start.wrapping_add(len)) {
            return inside;
        }
        for (i, pixel) in padded[..len].iter_mut().enumerate() {
            *pixel = row.get(start.wrapping_add(i)).copied().unwrap_or([0.0; B]);
        }
        &padded[..len]
    }

    /// The runs of the outputs `first..first + R`, in the order of the filter.
    #[inline(always)]
    pub(super) fn runs<const R: usize, const F: usize, const B: usize>(
        &self,
        first: usize,
    ) -> Runs<'_, R, F, B> {
        let [height, width] = &self.axes;
        let from = first * width.stride;
        let last = from + (R - 1) * width.stride + width.kernel - 1;
        let is_inside = from >= width.pad[0] && last < width.pad[0] + width.input;
        Runs {
            line: self,
            filters: self.w.as_chunks::<B>().0,
            filter_len: self.filter_len / B,
            from,
            taps_y: height.taps(self.row),
            together: if is_inside && width.dilation == 1 { width.kernel } else { 1 },
            row: &[],
            // One before the first.
            input: usize::MAX,
            tap_y: usize::MAX - 1,
            tap: width.kernel,
        }
    }
}

/// For each run elements of x for each of `R` outputs, and vectors of w for each of `F` output
/// blocks. Of both there are as many as there are taps, times `lanes` and `depth`.
#[derive(Clone, Debug)]
pub(super) struct Runs<'a, const R: usize, const F: usize, const B: usize> {
    line: &'a Line<'a>,
    filters: &'a [[f32; B]],
    filter_len: usize,
    /// What the first tap of the first output reads, padding included.
    from: usize,
    /// The taps that read a row of the image.
    taps_y: Range<usize>,
    /// Taps to a run: all of a row where they are adjacent in the image, too, and lie in it.
    together: usize,
    /// The row of the image that `tap_y` reads.
    row: &'a [f32],
    /// The input block, the row of its filter, and the next tap of that row.
    input: usize,
    tap_y: usize,
    tap: usize,
}

impl<'a, const R: usize, const F: usize, const B: usize> Iterator for Runs<'a, R, F, B> {
    type Item = ([&'a [f32]; R], [&'a [[f32; B]]; F]);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let line = self.line;
        let [height, width] = &line.axes;
        if self.tap == width.kernel {
            self.next_row()?;
        }
        let (x_len, w_len) = (self.together * line.lanes, self.together * line.depth);
        let at = self.from + self.tap * width.dilation;
        let mut x = [&ZEROS[..line.lanes]; R];
        for (r, x) in x.iter_mut().enumerate() {
            // To the left of the image the start wraps, and no range follows it.
            let start = (at + r * width.stride).wrapping_sub(width.pad[0]);
            let start = start.wrapping_mul(line.lanes);
            if let Some(inside) = self.row.get(start..start.wrapping_add(x_len)) {
                *x = inside;
            }
        }
        let taps = (self.input * height.kernel + self.tap_y) * width.kernel + self.tap;
        let mut w = [self.filters; F];
        for (f, w) in w.iter_mut().enumerate() {
            *w = &self.filters[f * self.filter_len + taps * line.depth..][..w_len];
        }
        self.tap += self.together;
        Some((x, w))
    }
}

impl<const R: usize, const F: usize, const B: usize> Runs<'_, R, F, B> {
    /// Goes on to the next row of a filter; `None` after the last.
    #[inline(always)]
    fn next_row(&mut self) -> Option<()> {
        let line = self.line;
        let [height, width] = &line.axes;
        self.tap_y += 1;
        if self.tap_y >= self.taps_y.end {
            (self.tap_y, self.input) = (self.taps_y.start, self.input.wrapping_add(1));
        }
        if self.input >= line.inputs || self.taps_y.is_empty() {
            return None;
        }
        let y = line.row * height.stride + self.tap_y * height.dilation - height.pad[0];
        let row_len = width.input * line.lanes;
        self.row = &line.x[(self.input * height.input + y) * row_len..][..row_len];
        self.tap = 0;
        Some(())
    }
}

impl Start<'_> {
    /// The sums of `R` positions to start from; `y` holds their summands, if there are any.
    #[inline(always)]
    pub(super) fn sums<const B: usize, const R: usize>(&self, y: &[[f32; B]]) -> [[f32; B]; R] {
        let bias = self.bias.and_then(|bias| bias.first_chunk::<B>());
        let bias = *bias.unwrap_or(&[0.0; B]);
        let mut sums = [bias; R];
        if self.is_sum {
            for r in 0..R {
                for j in 0..B {
                    sums[r][j] += y[r][j];
                }
            }
        }
        sums
    }
}

impl Merge<'_> {
    /// Stores the sums of `R` positions, clamped.
    #[inline(always)]
    pub(super) fn store<const B: usize, const R: usize>(
        &self,
        sums: &[[f32; B]; R],
        y: &mut [[f32; B]],
    ) {
        for r in 0..R {
            for j in 0..B {
                y[r][j] = clamp(sums[r][j], self.min, self.max);
            }
        }
    }
}
