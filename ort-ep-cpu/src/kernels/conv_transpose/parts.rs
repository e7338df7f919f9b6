//! A result, partitioned into blocks of channels by ranges of positions, which threads compute.

// collects are bounded: by BLOCK_ROWS

use std::ops::Range;

use smallvec::SmallVec;

use super::phases::{Set, Transposed};

/// One piece for each channel of a block, at most its rows.
type Pieces<'y> = SmallVec<[&'y mut [f32]; 128]>;

/// How a result is partitioned.
#[derive(Clone, Debug)]
pub(super) struct Split {
    /// Channels per block, except the last.
    pub(super) n_channels: usize,
    /// The first axis of more than one output, along which channels are split.
    along: usize,
    axis: Transposed,
    /// Outputs per index of that axis.
    n_inner: usize,
    /// The number of which the positions per part are a multiple, unless there are fewer.
    step: usize,
}

/// Some outputs of some channels.
pub(super) struct Part<'y> {
    /// The product: image times groups plus group.
    pub(super) product: usize,
    /// Counted within the group.
    pub(super) channels: Range<usize>,
    /// The `q` along the axis.
    pub(super) positions: Range<usize>,
    /// Where the pieces start in a plane.
    pub(super) start: usize,
    pub(super) pieces: Pieces<'y>,
}

/// A block of channels, from whose front parts are split off.
struct Block<'y> {
    split: Split,
    per_part: usize,
    rest: Part<'y>,
}

impl Split {
    pub(super) fn new(axes: &[Transposed; 3], (n_channels, step): (usize, usize)) -> Self {
        let along = axes.iter().position(|axis| axis.output > 1).unwrap_or(2);
        let n_inner = axes[along + 1..].iter().map(|axis| axis.output).product();
        Self { n_channels, along, axis: axes[along], n_inner, step }
    }

    /// The number of ranges of positions for about `n_parts` parts, and the positions per range.
    fn ranges(&self, n_blocks: usize, n_parts: usize) -> (usize, usize) {
        let n_positions = self.axis.positions().len().max(1);
        let per_part = n_positions.div_ceil(n_parts.div_ceil(n_blocks.max(1)).max(1));
        let per_part = per_part.next_multiple_of(self.step);
        (n_positions.div_ceil(per_part), per_part)
    }

    /// The number of parts that [`Split::parts`] returns for `n_products` products of `m` channels.
    pub(super) fn n_parts(&self, m: usize, n_products: usize, n_parts: usize) -> usize {
        let n_blocks = n_products * m.div_ceil(self.n_channels);
        n_blocks * self.ranges(n_blocks, n_parts).0
    }

    /// About `n_parts` parts of `y`: products, each of `m` channels.
    pub(super) fn parts<'y>(
        &self,
        y: &'y mut [f32],
        (m, plane): (usize, usize),
        n_parts: usize,
    ) -> impl Iterator<Item = Part<'y>> + Send + use<'y> {
        let n_blocks = y.len() / (m * plane) * m.div_ceil(self.n_channels);
        let (split, per_part) = (self.clone(), self.ranges(n_blocks, n_parts).1);
        let products = y.chunks_exact_mut(m * plane).enumerate();
        products.flat_map(move |(product, y)| {
            let split = split.clone();
            let n_channels = split.n_channels;
            let blocks = y.chunks_mut(n_channels * plane).enumerate();
            blocks.flat_map(move |(block, y)| {
                let first = block * n_channels;
                let channels = first..first + y.len() / plane;
                let (positions, pieces) = (split.axis.positions(), y.chunks_exact_mut(plane));
                let pieces = pieces.collect();
                let rest = Part { product, channels, positions, start: 0, pieces };
                Block { split: split.clone(), per_part, rest }
            })
        })
    }

    /// The columns of a set's product at these positions along the axis. On the axes before it, only
    /// the last position is valid.
    pub(super) fn columns(&self, set: &Set, positions: &Range<usize>) -> Range<usize> {
        let outputs = |axes: &[ort_kernels::conv_f32::Axis]| -> usize {
            axes.iter().map(|axis| axis.output).product()
        };
        let outer = outputs(&set.axes[..self.along]).saturating_sub(1);
        let inner = outputs(&set.axes[self.along + 1..]);
        let (axis, first) = (&set.axes[self.along], set.first[self.along]);
        let column = |q: usize| {
            let q = q.clamp(first, first + axis.output);
            (outer * axis.output + q - first) * inner
        };
        column(positions.start)..column(positions.end)
    }
}

impl<'y> Iterator for Block<'y> {
    type Item = Part<'y>;

    fn next(&mut self) -> Option<Part<'y>> {
        let Range { start, end } = self.rest.positions;
        let positions = start..end.min(start + self.per_part);
        if positions.is_empty() {
            return None;
        }
        self.rest.positions.start = positions.end;
        let outputs = self.split.axis.outputs(&positions);
        let len = outputs.len() * self.split.n_inner;
        let start = outputs.start * self.split.n_inner;
        let cut = |rest: &mut &'y mut [f32]| {
            let (piece, behind) = std::mem::take(rest).split_at_mut(len);
            *rest = behind;
            piece
        };
        let pieces = self.rest.pieces.iter_mut().map(cut).collect();
        let (product, channels) = (self.rest.product, self.rest.channels.clone());
        Some(Part { product, channels, positions, start, pieces })
    }
}
