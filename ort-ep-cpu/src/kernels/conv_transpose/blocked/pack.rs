//! The weights of a transposed convolution in blocks of channels.

// collects are bounded: by the sets and remainders of a kernel

use ort_ep::{Packed, Recipe};
use ort_kernels::Isa;
use ort_kernels::winograd::{self, Tile, variant};

use super::super::phases::{Set, Transposed};
use crate::kernels::Compiler;
use crate::kernels::nchwc_conv::filters::{self, Dims};

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

/// The filters of a set: `[rows/B][C/B][taps][B in][B]`, with a row for each channel and remainder, and the
/// transformed ones.
#[derive(Clone, Copy)]
pub(super) struct Filters<'a> {
    pub(super) plain: &'a [f32],
    pub(super) transformed: &'a [f32],
}

/// Elements of the filters of a set, and of the transformed ones, for `c` input and `m` output channels.
pub(super) fn lens(
    block: usize,
    [c, m]: [usize; 2],
    (set, tile): (&Set, Option<Tile>),
) -> [usize; 2] {
    let rows = (m * set.n_phases()).next_multiple_of(block);
    let n = rows * c.next_multiple_of(block);
    [n * set.n_taps(), tile.map_or(0, |tile| n * tile.products())]
}

impl Packing<'_> {
    /// Elements of the filters of a set, and of the transformed ones.
    fn lens(&self, set: usize) -> [usize; 2] {
        let [c, m, _] = self.shape;
        lens(self.block, [c, m], (&self.sets[set], self.tiles[set]))
    }

    /// Elements per group.
    fn group_len(&self) -> usize {
        (0..self.sets.len()).flat_map(|set| self.lens(set)).sum()
    }

    /// Elements of the transformed filters of a group.
    pub(super) fn n_transformed(&self) -> usize {
        (0..self.sets.len()).map(|set| self.lens(set)[1]).sum()
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
        let Self { isa, block, shape: [c, ..], .. } = *self;
        let (set, inputs) = (variant(isa, block).filters, c.next_multiple_of(block));
        for i in 0..self.sets.len() {
            let [plain, transformed] = self.lens(i);
            let (own, rest) = std::mem::take(&mut packed).split_at_mut(plain + transformed);
            packed = rest;
            let (filters, transformed) = own.split_at_mut(plain);
            self.filters(w, i, filters);
            if let Some(tile) = self.tiles[i] {
                winograd::Filters { isa, block, set, inputs, tile, w: filters }.pack(transformed);
            }
        }
    }

    /// The filters of a set, of `w[c, m, taps]`.
    fn filters(&self, w: &[f32], set: usize, packed: &mut [f32]) {
        let ([c, m, n_taps], block) = (self.shape, self.block);
        let (n_phases, per_phase) = (self.sets[set].n_phases(), self.sets[set].n_taps());
        let dims = Dims { outputs: m * n_phases, parts: 1, inputs: c, taps: per_phase };
        let index = |row, _, input, tap| {
            let (channel, phase) = (row / n_phases, row % n_phases);
            (input * m + channel) * n_taps + self.taps[set][phase * per_phase + tap]
        };
        filters::pack([block, block], dims, (w, index), packed);
    }
}
