//! A row of outputs, and the inputs of each tap.

use super::{Form, Start};
use crate::conv_f32::Axis;
use crate::epilogue::Epilogue;
use crate::isa::{SECOND_LEVEL, prefetch};
use std::ops::Range;

/// The maximum block size.
pub(super) const MAX_BLOCK: usize = 64;
/// The pixels that 8 windows of width 5 at stride 2 read.
pub(super) const MAX_WINDOW: usize = 7 * 2 + 5;

/// The floats of a cache line.
pub(super) const FLOATS_PER_LINE: usize = 16;

/// The initial value of sums, and the epilogue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Merge<'a> {
    pub(super) start: Start<'a>,
    pub(super) epilogue: Epilogue,
}

/// Consecutive outputs of one row, for one slice of input blocks.
#[derive(Clone, Debug)]
pub(super) struct Line<'a> {
    pub(super) block: usize,
    pub(super) axes: [Axis; 2],
    /// Starting at the slice: `[inputs][H][W][…]`.
    pub(super) x: &'a [f32],
    /// Starting at the slice, one output block every `filter_len`: `[inputs][KH][KW][…]`.
    pub(super) w: &'a [f32],
    pub(super) form: Form,
    /// Input blocks of the slice.
    pub(super) inputs: usize,
    pub(super) filter_len: usize,
    pub(super) merge: Merge<'a>,
    pub(super) row: usize,
    /// The filter rows that read a row of the image.
    pub(super) taps_y: Range<usize>,
    /// A non-empty range of the row.
    pub(super) outputs: Range<usize>,
    /// The position of the first output in the pieces of y.
    pub(super) place: usize,
    pub(super) ahead: Ahead<'a>,
}

/// What is prefetched: the part of the filters that is read next. Where images are small, filters are in no cache of the
/// core.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead<'a> {
    /// Starting at that part, like the filters of the line.
    pub(super) w: &'a [f32],
    /// Its cache lines of each filter.
    pub(super) n_lines: usize,
    /// The position of the chunk in the pieces of y.
    pub(super) place: usize,
}

impl Line<'_> {
    /// Calls `tile` with the first output and the number of outputs of each tile: as few tiles as
    /// possible of at most `most`, of nearly equal length.
    #[inline(always)]
    pub(super) fn each_tile(&self, most: usize, mut tile: impl FnMut(usize, usize)) {
        let n_tiles = self.outputs.len().div_ceil(most);
        let (len, longer) = (self.outputs.len() / n_tiles, self.outputs.len() % n_tiles);
        let mut first = self.outputs.start;
        for i in 0..n_tiles {
            let len = len + usize::from(i < longer);
            tile(first, len);
            first += len;
        }
    }

    /// The positions of `R` outputs starting at `first`, in pieces of y.
    #[inline(always)]
    pub(super) fn places<const R: usize>(&self, first: usize) -> Range<usize> {
        let place = self.place + first - self.outputs.start;
        place..place + R
    }

    /// Where the tile that starts at output `first` prefetches from, if a tile has up to `most` outputs and each of its
    /// steps prefetches `per_step` cache lines of each filter. After the last of them, lines that are cached.
    #[inline(always)]
    pub(super) fn ahead(&self, first: usize, most: usize, per_step: usize) -> *const f32 {
        let Ahead { w, n_lines, place } = self.ahead;
        let position = self.place - place + first - self.outputs.start;
        let n_steps = self.inputs * self.taps_y.len() * self.n_taps();
        let start = position.saturating_mul(n_steps * per_step) / most;
        if start < n_lines {
            w.as_ptr().wrapping_add(start * FLOATS_PER_LINE)
        } else {
            self.w.as_ptr()
        }
    }

    /// Prefetches `n` cache lines of each of `F` filters starting at `from`. Returns their end.
    #[inline(always)]
    pub(super) fn fetch<const F: usize>(&self, from: *const f32, n: usize) -> *const f32 {
        for f in 0..F {
            for line in 0..n {
                let at = f * self.filter_len + line * FLOATS_PER_LINE;
                prefetch::<SECOND_LEVEL>(from.wrapping_add(at));
            }
        }
        from.wrapping_add(n * FLOATS_PER_LINE)
    }

    /// The stride, if it is 1 or 2 and every tap of the outputs `first..first + len` is inside the
    /// image; else 0.
    pub(super) fn step(&self, first: usize, len: usize) -> usize {
        let width = &self.axes[1];
        let from = first * width.stride;
        let last = from + (len - 1) * width.stride + (width.kernel - 1) * width.dilation;
        let is_inside = from >= width.pad[0] && last < width.pad[0] + width.input;
        if is_inside && width.stride <= 2 { width.stride } else { 0 }
    }

    /// Whether filters have a single tap that is always inside the image.
    pub(super) fn is_pointwise(&self) -> bool {
        let is_inside = |axis: &Axis, output| axis.at(output, 0).is_some();
        let ends_inside = |axis: &Axis| is_inside(axis, 0) && is_inside(axis, axis.output - 1);
        self.axes.iter().all(|axis| axis.kernel == 1 && ends_inside(axis))
    }

    /// Taps per filter row.
    #[inline(always)]
    pub(super) fn n_taps(&self) -> usize {
        self.axes[1].kernel
    }

    /// The row of an input block or plane that `tap_y` reads, as pixels `P` lanes wide.
    #[inline(always)]
    pub(super) fn row<const P: usize>(&self, input: usize, tap_y: usize) -> &[[f32; P]] {
        let [height, width] = &self.axes;
        let y = self.row * height.stride + tap_y * height.dilation - height.pad[0];
        let pixels = self.x.as_chunks::<P>().0;
        &pixels[(input * height.input + y) * width.input..][..width.input]
    }

    /// The inputs of `tap` of `R` outputs starting at `first`. `S` is the [`step`](Self::step):
    /// with a compile-time stride, a single check suffices.
    #[inline(always)]
    pub(super) fn pixels<'x, const P: usize, const R: usize, const S: usize>(
        &self,
        row: &'x [[f32; P]],
        first: usize,
        tap: usize,
    ) -> [&'x [f32; P]; R] {
        let width = &self.axes[1];
        // Left of the image, indices wrap to values out of bounds.
        let at = (first * width.stride + tap * width.dilation).wrapping_sub(width.pad[0]);
        let mut pixels = [const { &[0.0; P] }; R];
        if S > 0 {
            let row = &row[at..][..(R - 1) * S + 1];
            pixels.iter_mut().enumerate().for_each(|(r, pixel)| *pixel = &row[r * S]);
        } else {
            for (r, pixel) in pixels.iter_mut().enumerate() {
                if let Some(inside) = row.get(at.wrapping_add(r * width.stride)) {
                    *pixel = inside;
                }
            }
        }
        pixels
    }

    /// Width and stride of a filter with adjacent taps, as `10·width + stride`, if both are
    /// small, plus 100 if some tap of the outputs `first..first + len` is outside the image; else 0.
    pub(super) fn window(&self, first: usize, len: usize) -> usize {
        match self.axes[1] {
            Axis { kernel: kernel @ (3 | 5), stride: stride @ (1 | 2), dilation: 1, .. } => {
                let outside = usize::from(self.step(first, len) == 0);
                100 * outside + 10 * kernel + stride
            }
            _ => 0,
        }
    }

    /// The `len` pixels of `row` starting at the first that output `first` reads, zeros outside
    /// the image, where some are if `OUTSIDE`.
    #[inline(always)]
    pub(super) fn adjacent<'x, const P: usize, const OUTSIDE: bool>(
        &self,
        row: &'x [[f32; P]],
        first: usize,
        len: usize,
    ) -> [&'x [f32; P]; MAX_WINDOW] {
        let width = &self.axes[1];
        // Left of the image, indices wrap to values out of bounds.
        let start = (first * width.stride).wrapping_sub(width.pad[0]);
        let mut pixels = [const { &[0.0; P] }; MAX_WINDOW];
        if OUTSIDE {
            for (i, pixel) in pixels[..len].iter_mut().enumerate() {
                if let Some(inside) = row.get(start.wrapping_add(i)) {
                    *pixel = inside;
                }
            }
        } else {
            let row = &row[start..][..len];
            pixels.iter_mut().zip(row).for_each(|(pixel, inside)| *pixel = inside);
        }
        pixels
    }

    /// One tap of a filter for each of `F` output blocks, `D` vectors.
    #[inline(always)]
    pub(super) fn tap<const B: usize, const D: usize, const F: usize>(
        &self,
        input: usize,
        tap_y: usize,
        tap: usize,
    ) -> [&[[f32; B]; D]; F] {
        let [height, width] = &self.axes;
        let taps = self.w.as_chunks::<B>().0.as_chunks::<D>().0;
        let at = (input * height.kernel + tap_y) * width.kernel + tap;
        let mut vectors = [const { &[[0.0; B]; D] }; F];
        for (f, vectors) in vectors.iter_mut().enumerate() {
            *vectors = &taps[at + f * (self.filter_len / (B * D))];
        }
        vectors
    }

    /// The `n` taps of a filter row for each of `F` output blocks, each `D` vectors.
    #[inline(always)]
    pub(super) fn taps<const B: usize, const D: usize, const F: usize>(
        &self,
        input: usize,
        tap_y: usize,
        n: usize,
    ) -> [&[[[f32; B]; D]]; F] {
        let [height, width] = &self.axes;
        let taps = self.w.as_chunks::<B>().0.as_chunks::<D>().0;
        let first = (input * height.kernel + tap_y) * width.kernel;
        let mut rows = [taps; F];
        for (f, row) in rows.iter_mut().enumerate() {
            *row = &taps[first + f * (self.filter_len / (B * D))..][..n];
        }
        rows
    }
}
