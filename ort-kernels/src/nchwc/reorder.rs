//! Conversion between NCHWc and NCHW or NHWC.

use crate::Isa;
use crate::transpose::transpose;
use std::ops::Range;

/// Pixels that are zeroed and copied while they are in the first-level cache.
const TILE: usize = 64;

/// Images in three layouts:
///
/// ```text
/// blocks   [N][n_blocks][n_pixels][block]     NCHWc: channel c is lane c mod block of block c / block
/// planes   [N][n_channels][n_pixels]          NCHW
/// pixels   [N][n_pixels][n_channels]          NHWC
/// ```
///
/// Every function writes any part of its result, starting at the element given by its arguments, for the
/// length of `y`, so that callers may split it arbitrarily.
#[derive(Clone, Copy, Debug)]
pub struct Reorder {
    /// The instruction set.
    pub isa: Isa,
    /// Channels per block, at least 1.
    pub block: usize,
    /// Blocks per image.
    pub n_blocks: usize,
    /// Channels per image in NCHW and NHWC, at most `n_blocks·block`.
    pub n_channels: usize,
    /// Height times width.
    pub n_pixels: usize,
}

/// A copied part of one block: some pixels, and the position of the first in the result.
struct Piece {
    image: usize,
    block: usize,
    first: usize,
    len: usize,
    at: usize,
}

impl Reorder {
    /// NCHW to NCHWc. `at` counts pixels of blocks; `y` holds whole ones. Lanes without a
    /// channel become 0.
    ///
    /// # Panics
    /// If `x` does not have the length of the image, or `y` is longer than the rest of the result.
    pub fn planes_to_blocks(&self, x: &[f32], at: usize, y: &mut [f32]) {
        for piece in self.pieces(at..at + y.len() / self.block, self.n_pixels) {
            let channel = piece.image * self.n_channels + piece.block * self.block;
            self.fill(&piece, at, y, |n_lanes, pixel, y| {
                let x = &x[channel * self.n_pixels + pixel..];
                let size = [n_lanes, y.len() / self.block];
                transpose(self.isa, size, (x, self.n_pixels), (y, self.block));
            });
        }
    }

    /// NHWC to NCHWc; otherwise as [`Reorder::planes_to_blocks`].
    ///
    /// # Panics
    /// As [`Reorder::planes_to_blocks`].
    pub fn pixels_to_blocks(&self, x: &[f32], at: usize, y: &mut [f32]) {
        // A few pixels for all blocks, then the next: memory is read sequentially.
        for piece in self.pieces(at..at + y.len() / self.block, TILE) {
            let image = piece.image * self.n_pixels;
            self.fill(&piece, at, y, |n_lanes, pixel, y| {
                let x = &x[(image + pixel) * self.n_channels + piece.block * self.block..];
                let size = [y.len() / self.block, n_lanes];
                copy_rows(self.isa, size, (x, self.n_channels), (y, self.block));
            });
        }
    }

    /// NCHWc to NCHW. `at` counts planes of channels; `y` holds whole ones.
    ///
    /// # Panics
    /// As [`Reorder::planes_to_blocks`].
    pub fn blocks_to_planes(&self, x: &[f32], mut at: usize, mut y: &mut [f32]) {
        while !y.is_empty() {
            let (image, channel) = (at / self.n_channels, at % self.n_channels);
            let (block, lane) = (channel / self.block, channel % self.block);
            let n_left = (self.n_channels - channel).min(y.len() / self.n_pixels);
            let n_lanes = n_left.min(self.block - lane);
            let (piece, rest) = y.split_at_mut(n_lanes * self.n_pixels);
            let x = &x[self.start(image, block) + lane..];
            let size = [self.n_pixels, n_lanes];
            transpose(self.isa, size, (x, self.block), (piece, self.n_pixels));
            (at, y) = (at + n_lanes, rest);
        }
    }

    /// NCHWc to NHWC. `at` counts pixels; `y` holds whole ones.
    ///
    /// # Panics
    /// As [`Reorder::planes_to_blocks`].
    pub fn blocks_to_pixels(&self, x: &[f32], mut at: usize, y: &mut [f32]) {
        for mut y in y.chunks_mut(TILE * self.n_channels) {
            while !y.is_empty() {
                let (image, pixel) = (at / self.n_pixels, at % self.n_pixels);
                let len = (self.n_pixels - pixel).min(y.len() / self.n_channels);
                let (piece, rest) = y.split_at_mut(len * self.n_channels);
                for first in (0..self.n_channels).step_by(self.block) {
                    let x = &x[self.start(image, first / self.block) + pixel * self.block..];
                    let size = [len, self.block.min(self.n_channels - first)];
                    let y = &mut piece[first..];
                    copy_rows(self.isa, size, (x, self.block), (y, self.n_channels));
                }
                (at, y) = (at + len, rest);
            }
        }
    }

    /// The offset of a block of `x`.
    fn start(&self, image: usize, block: usize) -> usize {
        (image * self.n_blocks + block) * self.n_pixels * self.block
    }

    /// The pixels of `range`, which counts those of all blocks, image by image: `tile` pixels of each
    /// block, then the next of each.
    fn pieces(&self, range: Range<usize>, tile: usize) -> impl Iterator<Item = Piece> {
        let &Self { n_blocks, n_pixels, .. } = self;
        let of_image = (n_blocks * n_pixels).max(1);
        let images = range.start / of_image..range.end.div_ceil(of_image);
        let tiles = (0..n_pixels).step_by(tile.max(1));
        let all = images.flat_map(move |image| {
            tiles
                .clone()
                .flat_map(move |first| (0..n_blocks).map(move |block| (image, first, block)))
        });
        all.filter_map(move |(image, first, block)| {
            let start = (image * n_blocks + block) * n_pixels;
            let from = range.start.max(start + first);
            let to = range.end.min(start + n_pixels.min(first + tile));
            (from < to).then(|| Piece {
                image,
                block,
                first: from - start,
                len: to - from,
                at: from,
            })
        })
    }

    /// Calls `copy` with the number of lanes of a piece that have a channel, the first pixel to copy,
    /// and the destination, which is zeroed first if there is a lane without a channel.
    #[inline(always)]
    fn fill(
        &self,
        piece: &Piece,
        at: usize,
        y: &mut [f32],
        copy: impl Fn(usize, usize, &mut [f32]),
    ) {
        let n_lanes = self.n_channels.saturating_sub(piece.block * self.block).min(self.block);
        let y = &mut y[(piece.at - at) * self.block..][..piece.len * self.block];
        if n_lanes == self.block {
            return copy(n_lanes, piece.first, y);
        }
        for (i, y) in y.chunks_mut(TILE * self.block).enumerate() {
            y.fill(0.0);
            if n_lanes > 0 {
                copy(n_lanes, piece.first + i * TILE, y);
            }
        }
    }
}

/// `y[i·y_stride + j] = x[i·x_stride + j]` for every row `i` and column `j` of `size`.
fn copy_rows(
    isa: Isa,
    size: [usize; 2],
    (x, x_stride): (&[f32], usize),
    (y, y_stride): (&mut [f32], usize),
) {
    copy(isa, size, (x, x_stride), (y, y_stride));
}

per_isa! {
    fn copy<FMA>(size: [usize; 2], x: (&[f32], usize), y: (&mut [f32], usize)) {
        match size[1] {
            // A few registers instead of a call.
            16 => copy_runs::<16>(size, x, y),
            8 => copy_runs::<8>(size, x, y),
            _ => copy_runs::<0>(size, x, y),
        }
    }
}

/// Rows of `L` columns, or of any number if that is 0.
#[inline(always)]
fn copy_runs<const L: usize>(
    [rows, columns]: [usize; 2],
    (x, x_stride): (&[f32], usize),
    (y, y_stride): (&mut [f32], usize),
) {
    let columns = if L == 0 { columns } else { L };
    for i in 0..rows {
        y[i * y_stride..][..columns].copy_from_slice(&x[i * x_stride..][..columns]);
    }
}
