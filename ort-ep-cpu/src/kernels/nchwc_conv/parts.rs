//! A result in NCHWc, partitioned into sets of blocks by ranges of positions, which threads compute.

use std::ops::Range;

/// The maximum number of blocks per set: enough to justify reading an image.
pub(in crate::kernels) const MAX_SET: usize = 64;

/// How a result is partitioned.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernels) struct Cut {
    /// Channels per block.
    pub(in crate::kernels) block: usize,
    /// Positions per plane.
    pub(in crate::kernels) plane: usize,
    /// Blocks per group.
    pub(in crate::kernels) blocks: usize,
    /// Blocks per set, except the last of a group.
    pub(in crate::kernels) per_set: usize,
    /// Positions per part, except the last of a set.
    pub(in crate::kernels) positions: usize,
    /// How many parts there are.
    pub(in crate::kernels) n_parts: usize,
}

/// Some positions of some blocks.
pub(in crate::kernels) struct Part<'y> {
    /// The first block, counted through all images.
    pub(in crate::kernels) block: usize,
    pub(in crate::kernels) n_blocks: usize,
    pub(in crate::kernels) positions: Range<usize>,
    /// The elements of each block.
    pub(in crate::kernels) pieces: [&'y mut [f32]; MAX_SET],
}

/// A set of blocks, from whose front parts are split off.
struct Set<'y> {
    cut: Cut,
    rest: Part<'y>,
}

/// The parts of `y`.
pub(in crate::kernels) fn parts<'y>(
    cut: &Cut,
    y: &'y mut [f32],
) -> impl Iterator<Item = Part<'y>> + Send + use<'y> {
    let cut = *cut;
    let block_len = cut.plane * cut.block;
    let groups = y.chunks_exact_mut(cut.blocks * block_len).enumerate();
    let sets = groups.flat_map(move |(group, y)| {
        let sets = y.chunks_mut(cut.per_set * block_len).enumerate();
        sets.map(move |(set, y)| (group * cut.blocks + set * cut.per_set, y))
    });
    sets.flat_map(move |(block, y)| {
        let n_blocks = y.len() / block_len;
        let mut pieces: [&mut [f32]; MAX_SET] = std::array::from_fn(|_| &mut [][..]);
        pieces.iter_mut().zip(y.chunks_exact_mut(block_len)).for_each(|(to, y)| *to = y);
        Set { cut, rest: Part { block, n_blocks, positions: 0..cut.plane, pieces } }
    })
}

impl<'y> Iterator for Set<'y> {
    type Item = Part<'y>;

    fn next(&mut self) -> Option<Part<'y>> {
        let Part { block, n_blocks, .. } = self.rest;
        let Range { start, end } = self.rest.positions;
        let positions = start..end.min(start + self.cut.positions);
        if positions.is_empty() {
            return None;
        }
        self.rest.positions.start = positions.end;
        let mut pieces: [&mut [f32]; MAX_SET] = std::array::from_fn(|_| &mut [][..]);
        for (piece, rest) in pieces.iter_mut().zip(&mut self.rest.pieces).take(n_blocks) {
            let len = positions.len() * self.cut.block;
            (*piece, *rest) = std::mem::take(rest).split_at_mut(len);
        }
        Some(Part { block, n_blocks, positions, pieces })
    }
}
