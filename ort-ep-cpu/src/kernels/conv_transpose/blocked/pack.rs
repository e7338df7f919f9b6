//! The weights of a transposed convolution in blocks of channels.

// collects are bounded: by the sets and remainders of a kernel

use ort_ep::{Packed, Recipe};
use ort_kernels::Isa;
use ort_kernels::winograd::{Filters, Tile, variant};

use super::super::phases::{Set, Transposed};
use crate::kernels::Compiler;

/// How weights are packed.
pub(super) struct Packing<'a> {
    pub(super) isa: Isa,
    pub(super) block: usize,
    /// Input channels of a group, its output channels, and taps of the kernel.
    pub(super) shape: [usize; 3],
    pub(super) sets: &'a [Set],
    pub(super) taps: &'a [Vec<usize>],
    pub(super) tiles: &'a [Option<Tile>],
}

impl Packing<'_> {
    /// Elements per group.
    fn group_len(&self) -> usize {
        let [c, m, _] = self.shape;
        let of_set = |(set, tile): (&Set, &Option<Tile>)| {
            let transformed = tile.map_or(0, |tile| tile.products());
            c * m * (set.n_taps() + transformed) * set.n_phases()
        };
        self.sets.iter().zip(self.tiles).map(of_set).sum()
    }

    /// The weights of all groups.
    pub(super) fn pack(
        &self,
        compiler: &Compiler<'_>,
        (group, axes, late): (usize, &[Transposed; 3], [usize; 3]),
    ) -> Option<Packed> {
        let steps = axes.iter().flat_map(|axis| [axis.stride, axis.dilation]);
        let has_tile = self.tiles.iter().map(|tile| usize::from(tile.is_some()));
        let set = variant(self.isa, self.block).filters;
        let recipe = Recipe {
            name: "conv_transpose_f32/blocks",
            parameters: [self.block, set, group]
                .into_iter()
                .chain(steps)
                .chain(late)
                .chain(has_tile)
                .map(|n| n as u64)
                .collect(),
            n_bytes: self.group_len() * group * size_of::<f32>(),
        };
        let [c, m, n_taps] = self.shape;
        compiler.pack_for_runs(1, &recipe, |w: &[f32], packed| {
            let groups = packed.chunks_exact_mut(self.group_len());
            for (w, packed) in w.chunks_exact(c * m * n_taps).zip(groups) {
                self.pack_group(w, packed);
            }
        })
    }

    fn pack_group(&self, w: &[f32], mut packed: &mut [f32]) {
        let [c, m, _] = self.shape;
        let Self { isa, block, .. } = *self;
        let mut next = |len| {
            let (next, rest) = std::mem::take(&mut packed).split_at_mut(len);
            packed = rest;
            next
        };
        let set = variant(isa, block).filters;
        for ((taps, tile), n_taps) in
            self.taps.iter().zip(self.tiles).zip(self.sets.iter().map(Set::n_taps))
        {
            for taps in taps.chunks_exact(n_taps) {
                let filters = next(c * m * n_taps);
                self.filters(w, taps, filters);
                if let Some(tile) = *tile {
                    let transformed = next(c * m * tile.products());
                    Filters { isa, block, set, inputs: c, tile, w: filters }.pack(transformed);
                }
            }
        }
    }

    /// `[M/B][C/B][taps][B in][B]` of `w[c, m, taps]`.
    fn filters(&self, w: &[f32], taps: &[usize], filters: &mut [f32]) {
        let ([c, m, n_taps], block) = (self.shape, self.block);
        let mut lines = filters.chunks_exact_mut(block);
        for first in (0..m).step_by(block) {
            for inputs in (0..c).step_by(block) {
                for tap in taps {
                    for (input, line) in (inputs..inputs + block).zip(&mut lines) {
                        for (i, to) in line.iter_mut().enumerate() {
                            *to = w[(input * m + first + i) * n_taps + tap];
                        }
                    }
                }
            }
        }
    }
}
