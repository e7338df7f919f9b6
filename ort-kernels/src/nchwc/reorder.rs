//! Between blocks and planes, or pixels of all channels.

use crate::Isa;
use crate::transpose::transpose;

/// Pixels that are filled and copied while they are in the first-level cache.
const TILE: usize = 64;

/// Images in three layouts:
///
/// ```text
/// blocks   [N][n_blocks][n_pixels][block]     channel c is lane c mod block of block c / block
/// planes   [N][n_channels][n_pixels]
/// pixels   [N][n_pixels][n_channels]
/// ```
///
/// Every function writes any part of its result, from the element its arguments name for as many
/// as there are in `y`, so that callers may split it as they like.
#[derive(Clone, Copy, Debug)]
pub struct Reorder {
    /// Which instructions to use.
    pub isa: Isa,
    /// Channels of a block, at least 1.
    pub block: usize,
    /// Blocks of an image.
    pub n_blocks: usize,
    /// Channels of an image outside blocks, at most `n_blocks·block`.
    pub n_channels: usize,
    /// Height times width.
    pub n_pixels: usize,
}

/// What a piece of a result has in common with one block.
struct Piece {
    image: usize,
    block: usize,
    /// The first pixel, or the first lane.
    first: usize,
    len: usize,
}

impl Reorder {
    /// Blocks from planes. `at` counts pixels of blocks; `y` holds whole ones. Lanes without a
    /// channel become 0.
    ///
    /// # Panics
    /// If `x` is not as long as the sizes say, or `y` is longer than the rest of the result.
    pub fn planes_to_blocks(&self, x: &[f32], at: usize, y: &mut [f32]) {
        self.each_block(at, y, |piece, n_lanes, y| {
            let channel = piece.image * self.n_channels + piece.block * self.block;
            let x = &x[channel * self.n_pixels + piece.first..];
            transpose(self.isa, [n_lanes, piece.len], (x, self.n_pixels), (y, self.block));
        });
    }

    /// Blocks from pixels of all channels; otherwise as [`Reorder::planes_to_blocks`].
    ///
    /// # Panics
    /// As [`Reorder::planes_to_blocks`].
    pub fn pixels_to_blocks(&self, x: &[f32], at: usize, y: &mut [f32]) {
        self.each_block(at, y, |piece, n_lanes, y| {
            let pixel = piece.image * self.n_pixels + piece.first;
            let x = &x[pixel * self.n_channels + piece.block * self.block..];
            copy_rows(self.isa, [piece.len, n_lanes], (x, self.n_channels), (y, self.block));
        });
    }

    /// Planes from blocks. `at` counts planes of channels; `y` holds whole ones.
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

    /// Pixels of all channels from blocks. `at` counts pixels; `y` holds whole ones.
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

    /// Where a block of `x` begins.
    fn start(&self, image: usize, block: usize) -> usize {
        (image * self.n_blocks + block) * self.n_pixels * self.block
    }

    /// Calls `copy` with what to write of each block, how many lanes have a channel, and where to.
    #[inline(always)]
    fn each_block(
        &self,
        mut at: usize,
        mut y: &mut [f32],
        copy: impl Fn(&Piece, usize, &mut [f32]),
    ) {
        while !y.is_empty() {
            let (block, first) = (at / self.n_pixels, at % self.n_pixels);
            let (image, block) = (block / self.n_blocks, block % self.n_blocks);
            let n_lanes = self.n_channels.saturating_sub(block * self.block).min(self.block);
            let mut len = (self.n_pixels - first).min(y.len() / self.block);
            if n_lanes < self.block {
                len = len.min(TILE);
            }
            let (piece, rest) = y.split_at_mut(len * self.block);
            if n_lanes < self.block {
                piece.fill(0.0);
            }
            if n_lanes > 0 {
                copy(&Piece { image, block, first, len }, n_lanes, piece);
            }
            (at, y) = (at + len, rest);
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
            // Few registers instead of a call.
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
