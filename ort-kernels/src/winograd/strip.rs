//! A strip of tiles: the location of each in the image, its transformed pixels and its sums.

use super::Tile;
use crate::Activation;
use crate::conv_f32::Axis;
use crate::conv_nchwc::Conv;
use crate::epilogue::Epilogue;
use std::ops::Range;

/// Consecutive tiles, row by row over the grid.
#[derive(Clone, Debug)]
pub(super) struct Strip<'a> {
    pub(super) conv: &'a Conv<'a>,
    pub(super) tile: Tile,
    /// The transformed filters of all output blocks.
    pub(super) packed: &'a [f32],
    /// Input blocks.
    pub(super) inputs: usize,
    /// At least one.
    pub(super) tiles: Range<usize>,
    /// The first output in the pieces of y.
    pub(super) first: usize,
}

/// The location of a tile among the outputs, and its rows and columns inside the result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) row: usize,
    pub(super) column: usize,
    pub(super) rows: usize,
    pub(super) columns: usize,
}

/// The operands of a register tile: one of the products of one set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Product<'a> {
    /// `[inputs][tiles][B]`.
    pub(super) v: &'a [f32],
    /// `[inputs][B][F][B]`.
    pub(super) u: &'a [f32],
    pub(super) tiles: usize,
}

/// The destination of a tile after the inverse transform, and what is added.
#[derive(Debug)]
pub(super) struct Outputs<'a> {
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Starting at the first output.
    pub(super) y: &'a mut [f32],
    /// The row stride of outputs.
    pub(super) width: usize,
    /// The bias of the output block.
    pub(super) bias: Option<&'a [f32]>,
    pub(super) is_sum: bool,
    pub(super) epilogue: Epilogue,
}

impl<'a> Strip<'a> {
    /// The stride of transformed pixels, in vectors. One more than needed: a power of two would
    /// map them to the same set of the first-level cache.
    pub(super) fn pixel_stride(&self) -> usize {
        pixel_stride(self.inputs, self.tiles.len())
    }

    /// The stride of sums for a set of `filters` output blocks, in vectors.
    pub(super) fn sum_stride(&self, filters: usize) -> usize {
        pixel_stride(filters, self.tiles.len())
    }

    /// Splits scratch into vectors of the transformed pixels and of the sums.
    pub(super) fn split<'s, const B: usize>(
        &self,
        scratch: &'s mut [f32],
    ) -> (&'s mut [[f32; B]], &'s mut [[f32; B]]) {
        let vectors = scratch.as_chunks_mut::<B>().0;
        vectors.split_at_mut(self.pixel_stride() * self.tile.products())
    }

    /// The transformed filters of the set of `filters` output blocks that starts with `first`, for
    /// one of the products.
    pub(super) fn filters(&self, (first, filters): (usize, usize), product: usize) -> &'a [f32] {
        let filter_len = self.inputs * self.conv.block * self.conv.block;
        let from = (first * self.tile.products() + filters * product) * filter_len;
        &self.packed[from..][..filters * filter_len]
    }

    /// The places of the tiles, in order.
    pub(super) fn places(&self) -> impl Iterator<Item = Place> + use<> {
        let [height, width] = [self.conv.axes[0].output, self.conv.axes[1].output];
        let [down, right] = self.tile.outputs();
        let [_, across] = self.tile.grid(&self.conv.axes);
        let first = self.tiles.start;
        let (mut row, mut column) = (first / across * down, first % across * right);
        self.tiles.clone().map(move |_| {
            let (rows, columns) = (down.min(height - row), right.min(width - column));
            let place = Place { row, column, rows, columns };
            column += right;
            if column >= width {
                (row, column) = (row + down, 0);
            }
            place
        })
    }

    /// The inputs of a tile in an input block, `H` rows of `W` pixels: a slice starting with its first pixel, and
    /// the row stride. Copied to `padded` if some are padding.
    #[inline(always)]
    pub(super) fn pixels<'p, const H: usize, const W: usize, const B: usize>(
        &'p self,
        input: usize,
        place: Place,
        padded: &'p mut [[[f32; B]; W]; H],
    ) -> (&'p [[f32; B]], usize) {
        let [height, width] = &self.conv.axes;
        let image = height.input * width.input;
        let x = &self.conv.x.as_chunks::<B>().0[input * image..][..image];
        // Above and left of the image, indices wrap to values out of bounds.
        let row = place.row.wrapping_sub(height.pad[0]);
        let column = place.column.wrapping_sub(width.pad[0]);
        let is_inside = |first: usize, window, axis: &Axis| {
            first.checked_add(window).is_some_and(|end| end <= axis.input)
        };
        if is_inside(row, H, height) && is_inside(column, W, width) {
            return (&x[row * width.input + column..], width.input);
        }
        for (r, line) in padded.iter_mut().enumerate() {
            for (c, pixel) in line.iter_mut().enumerate() {
                let (row, column) = (row.wrapping_add(r), column.wrapping_add(c));
                let is_in_image = row < height.input && column < width.input;
                *pixel = if is_in_image { x[row * width.input + column] } else { [0.0; B] };
            }
        }
        (padded.as_flattened(), W)
    }

    /// The outputs at `place` of output block `f`, whose piece is `y`.
    #[inline(always)]
    pub(super) fn outputs<'y>(&'y self, f: usize, place: Place, y: &'y mut [f32]) -> Outputs<'y> {
        let Conv { block, axes, start, activation, .. } = self.conv;
        let from = place.row * axes[1].output + place.column - self.first;
        Outputs {
            rows: place.rows,
            columns: place.columns,
            y: &mut y[from * block..],
            width: axes[1].output,
            bias: start.bias.map(|bias| &bias[f * block..][..*block]),
            is_sum: start.is_sum,
            epilogue: activation.as_epilogue().unwrap_or(Epilogue::NONE),
        }
    }

    /// Computes a tile of output block `f`, whose piece is `y`, directly, except an activation that
    /// is not an epilogue, which is applied at the end.
    #[cold]
    pub(super) fn directly(&self, f: usize, place: Place, y: &mut [f32]) {
        let mut one = *self.conv;
        let filter_len = self.inputs * one.block * self.tile.n_taps() * one.block;
        one.w = &one.w[f * filter_len..][..filter_len];
        one.start.bias = one.start.bias.map(|bias| &bias[f * one.block..][..one.block]);
        if one.activation.as_epilogue().is_none() {
            one.activation = Activation::None;
        }
        for row in place.row..place.row + place.rows {
            let from = row * one.axes[1].output + place.column;
            let y = &mut y[(from - self.first) * one.block..][..place.columns * one.block];
            one.run(from..from + place.columns, &mut [y]);
        }
    }
}

/// See [`Strip::pixel_stride`].
pub(super) fn pixel_stride(blocks: usize, tiles: usize) -> usize {
    blocks * tiles + 1
}
