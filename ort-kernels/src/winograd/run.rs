//! The strips of a convolution.

use super::strip::pixel_stride;
use super::{Strip, Tile, Winograd, strip, variant};
use crate::Isa;
use crate::conv_f32::Axis;
use crate::conv_nchwc::{Conv, Form, suited};
use std::ops::Range;

/// Bytes of the transformed pixels and the sums of a strip: most of a second-level cache of 1 MiB.
const STRIP: usize = 640 * 1024;
/// The minimum number of tiles per strip, if there are as many: those of a register tile.
const MIN_TILES: usize = 28;

impl Tile {
    /// Elements of scratch that [`Winograd::run`] needs for images of `inputs` channels.
    #[must_use]
    pub fn scratch_len(&self, isa: Isa, block: usize, inputs: usize, axes: &[Axis; 2]) -> usize {
        let (filters, inputs) = (variant(isa, block).filters, inputs / block);
        let tiles = self.strip_len([inputs, filters], block).min(self.n_tiles(axes));
        (pixel_stride(inputs, tiles) + pixel_stride(filters, tiles)) * self.products() * block
    }

    /// The number of strips of an image of `inputs` channels, each of which reads all filters.
    #[must_use]
    pub fn n_strips(&self, isa: Isa, block: usize, inputs: usize, axes: &[Axis; 2]) -> usize {
        self.n_tiles(axes)
            .div_ceil(self.strip_len([inputs / block, variant(isa, block).filters], block))
    }

    /// The maximum number of tiles per strip, for these input blocks and output blocks per set.
    fn strip_len(&self, [inputs, filters]: [usize; 2], block: usize) -> usize {
        let tile_bytes = (inputs + filters) * block * self.products() * size_of::<f32>();
        (STRIP / tile_bytes).max(MIN_TILES)
    }
}

impl Winograd<'_> {
    /// Computes `rows` of the grid of tiles. `y` has one piece per output block, starting at the first
    /// output of these rows: `[positions, block]`. Scratch need not be initialized.
    ///
    /// # Panics
    /// If there is no [`Tile`] for it, or an operand, a piece or the scratch is too short for the axes.
    pub fn run(&self, rows: Range<usize>, y: &mut [&mut [f32]], scratch: &mut [f32]) {
        let Conv { block, axes, activation, .. } = self.conv;
        let tile = Tile::of(block, &axes).filter(|_| self.conv.form == Form::Blocks);
        let tile = tile.expect("a convolution with a tile");
        let isa = suited(self.conv.isa, block);
        let ([down, _], [_, across]) = (tile.outputs(), tile.grid(&axes));
        let image = axes[0].input * axes[1].input * block;
        let inputs = self.conv.x.len().checked_div(image).unwrap_or(0);
        if rows.is_empty() {
            return;
        }
        let tiles = rows.start * across..rows.end * across;
        let most = tile.strip_len([inputs, variant(isa, block).filters], block);
        let n_strips = tiles.len().div_ceil(most);
        let first = rows.start * down * axes[1].output;
        for i in 0..n_strips {
            let at = |i| tiles.start + i * tiles.len() / n_strips;
            let tiles = at(i)..at(i + 1);
            let part = Strip { conv: &self.conv, tile, packed: self.packed, inputs, tiles, first };
            strip(isa, &part, scratch, y);
        }
        if activation.as_epilogue().is_none() {
            let end = axes[0].output.min(rows.end * down) * axes[1].output;
            y.iter_mut().for_each(|y| activation.apply(isa, &mut y[..(end - first) * block]));
        }
    }
}
