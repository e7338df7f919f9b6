//! The strips of a convolution.

use super::strip::pixel_stride;
use super::{PRODUCTS, Strip, TILE, Winograd, strip, takes, variant};
use crate::Isa;
use crate::conv_f32::Axis;
use crate::conv_nchwc::{Conv, Form, suited};
use std::ops::Range;

/// Bytes of the transformed pixels and the sums of a strip: most of a second-level cache of 1 MiB.
const STRIP: usize = 640 * 1024;
/// The fewest tiles of a strip, if there are so many: those of a register tile.
const LEAST: usize = 28;

/// The elements of scratch that [`Winograd::run`] needs for images of `inputs` channels.
#[must_use]
pub fn scratch_len(isa: Isa, block: usize, inputs: usize, axes: &[Axis; 2]) -> usize {
    let filters = variant(isa, block).filters;
    let n_tiles = Strip::tiles_across(axes) * axes[0].output.div_ceil(TILE);
    let tiles = strip_len([inputs / block, filters], block).min(n_tiles);
    (pixel_stride(inputs / block, tiles) + pixel_stride(filters, tiles)) * PRODUCTS * block
}

/// How many strips an image of `inputs` channels has: so often all the filters are read.
#[must_use]
pub fn n_strips(isa: Isa, block: usize, inputs: usize, axes: &[Axis; 2]) -> usize {
    let n_tiles = Strip::tiles_across(axes) * axes[0].output.div_ceil(TILE);
    n_tiles.div_ceil(strip_len([inputs / block, variant(isa, block).filters], block))
}

/// The most tiles of a strip, for so many input blocks and output blocks of a set.
fn strip_len([inputs, filters]: [usize; 2], block: usize) -> usize {
    let tile_bytes = (inputs + filters) * block * PRODUCTS * size_of::<f32>();
    (STRIP / tile_bytes).max(LEAST)
}

impl Winograd<'_> {
    /// Computes `rows` of the grid of tiles. `y` has a piece for each output block, from the first
    /// output of these rows on: `[positions, block]`. Scratch may hold anything.
    ///
    /// # Panics
    /// If [`takes`] says no, or an operand, a piece or the scratch is shorter than the axes say.
    pub fn run(&self, rows: Range<usize>, y: &mut [&mut [f32]], scratch: &mut [f32]) {
        let Conv { block, axes, activation, .. } = self.conv;
        assert!(takes(block, &axes) && self.conv.form == Form::Blocks, "{axes:?} of {block}");
        let (isa, across) = (suited(self.conv.isa, block), Strip::tiles_across(&axes));
        let image = axes[0].input * axes[1].input * block;
        let inputs = self.conv.x.len().checked_div(image).unwrap_or(0);
        if rows.is_empty() {
            return;
        }
        let tiles = rows.start * across..rows.end * across;
        let most = strip_len([inputs, variant(isa, block).filters], block);
        let n_strips = tiles.len().div_ceil(most);
        let first = rows.start * TILE * axes[1].output;
        for i in 0..n_strips {
            let at = |i| tiles.start + i * tiles.len() / n_strips;
            let tiles = at(i)..at(i + 1);
            let part = Strip { conv: &self.conv, packed: self.packed, inputs, tiles, first };
            strip(isa, &part, scratch, y);
        }
        if activation.as_clamp().is_none() {
            let end = axes[0].output.min(rows.end * TILE) * axes[1].output;
            y.iter_mut().for_each(|y| activation.apply(isa, &mut y[..(end - first) * block]));
        }
    }
}
