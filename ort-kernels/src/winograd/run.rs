//! The strips of a convolution.

use super::strip::pixel_stride;
use super::{Strip, Tile, Winograd, strip, variant};
use crate::Isa;
use crate::conv_f32::Axis;
use crate::conv_nchwc::{Conv, Form, suited};
use std::ops::Range;

/// Bytes of the transformed pixels and the sums of a strip: most of a second-level cache of 1 MiB.
const STRIP: usize = 640 * 1024;
/// The fewest tiles of a strip, if there are so many: those of a register tile.
const LEAST: usize = 28;

impl Tile {
    /// The elements of scratch that [`Winograd::run`] needs for images of `inputs` channels.
    #[must_use]
    pub fn scratch_len(&self, isa: Isa, block: usize, inputs: usize, axes: &[Axis; 2]) -> usize {
        let (filters, inputs) = (variant(isa, block).filters, inputs / block);
        let n_tiles: usize = self.grid(axes).iter().product();
        let tiles = self.strip_len([inputs, filters], block).min(n_tiles);
        (pixel_stride(inputs, tiles) + pixel_stride(filters, tiles)) * self.products() * block
    }

    /// How many strips an image of `inputs` channels has: so often all the filters are read.
    #[must_use]
    pub fn n_strips(&self, isa: Isa, block: usize, inputs: usize, axes: &[Axis; 2]) -> usize {
        let n_tiles: usize = self.grid(axes).iter().product();
        n_tiles.div_ceil(self.strip_len([inputs / block, variant(isa, block).filters], block))
    }

    /// The most tiles of a strip, for so many input blocks and output blocks of a set.
    fn strip_len(&self, [inputs, filters]: [usize; 2], block: usize) -> usize {
        let tile_bytes = (inputs + filters) * block * self.products() * size_of::<f32>();
        (STRIP / tile_bytes).max(LEAST)
    }
}

impl Winograd<'_> {
    /// Computes `rows` of the grid of tiles. `y` has a piece for each output block, from the first
    /// output of these rows on: `[positions, block]`. Scratch may hold anything.
    ///
    /// # Panics
    /// If there is no [`Tile`] for it, or an operand, a piece or the scratch is shorter than the axes say.
    pub fn run(&self, rows: Range<usize>, y: &mut [&mut [f32]], scratch: &mut [f32]) {
        let Conv { block, axes, activation, .. } = self.conv;
        let tile = Tile::of(block, &axes).filter(|_| self.conv.form == Form::Blocks);
        let tile = tile.expect("a convolution in blocks for which there is a tile");
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
