//! Convolutions of 2 or 3 taps along one or both axes, and of 5 along one, by Winograd's algorithm: when it is
//! faster, and its filters.
//!
//! Filters are transformed when the kernel is compiled, into up to six times their size of private
//! memory, and only if they are constant. This is skipped if it can never pay off: judged by the shape of x
//! if it is known, otherwise by a large image.

use std::ops::Range;

use ort_ep::{Packed, Recipe};
use ort_kernels::Isa;
use ort_kernels::conv_f32::Axis;
use ort_kernels::winograd::{Filters, Tile, Winograd, variant};
use ort_ops::ops::conv::Conv;

use crate::kernels::Compiler;
use crate::kernels::conv::axes;

/// The cost of transforming the pixels or the sums of one tile of one block, fixed and per
/// product, in vector multiply-adds: fitted to example `winograd`.
const TRANSFORM: [usize; 2] = [60, 12];
/// The tiles that must share a transformed filter, or reading it takes longer than multiplying:
/// a core reads about 15 GB/s from outside its private caches, a vector of 16 floats in the time of
/// 32 multiply-adds, one of 8 in half the time.
const TILES: usize = 2;
/// The assumed side of an image of unknown size.
pub(in crate::kernels) const SIDE: usize = 64;
/// The maximum size of transformed filters for an image of unknown size, in elements: 16 MiB.
pub(in crate::kernels) const MAX_UNKNOWN: usize = 4 << 20;

/// The time of a product whose right operand is gathered from the image, numerator and denominator, in times of a direct
/// convolution in blocks; both read filters as far away.
pub(in crate::kernels) const PRODUCTS: [usize; 2] = [7, 4];

/// Elements of a chunk of results in blocks, as far as a row of tiles has no more: half of a second-level cache of
/// 512 KiB.
const CHUNK: usize = 64 * 1024;

/// Rows of tiles of `down` rows each per chunk of `n_channels` channels, for equal chunks.
pub(in crate::kernels) fn rows_of_chunk(
    n_channels: usize,
    (down, axes): (usize, &[Axis; 2]),
) -> usize {
    let row = axes[1].output.saturating_mul(n_channels * down);
    let all = axes[0].output.div_ceil(down).max(1);
    let most = (CHUNK / row.max(1)).clamp(1, all);
    all.div_ceil(all.div_ceil(most))
}

/// The sizes that determine the choice.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernels) struct Sizes {
    pub(in crate::kernels) isa: Isa,
    pub(in crate::kernels) block: usize,
    /// Input channels per group.
    pub(in crate::kernels) channels: usize,
    /// Output channels per group.
    pub(in crate::kernels) filters: usize,
    pub(in crate::kernels) axes: [Axis; 2],
}

impl Sizes {
    /// Whether Winograd's algorithm takes at most four fifths of the time of a direct convolution,
    /// both estimated in vector multiply-adds, and nine tenths of that on matrix tiles, `on_tiles`,
    /// in cycles: for less, the memory is not justified.
    pub(in crate::kernels) fn is_faster(&self, on_tiles: Option<usize>) -> bool {
        // A multiply-add takes nine tenths of a cycle.
        let is_good = |tiles| on_tiles.is_none_or(|cycles| tiles <= cycles);
        self.takes([4, 5]) && self.by_tiles().is_some_and(is_good)
    }

    /// Whether it takes at most this fraction, numerator and denominator, of the time of a direct convolution.
    pub(in crate::kernels) fn takes(&self, [most, of]: [usize; 2]) -> bool {
        let most = self.direct().saturating_mul(most);
        self.by_tiles().is_some_and(|tiles| tiles.saturating_mul(of) <= most)
    }

    /// An estimate for Winograd's algorithm, if there is a tile.
    pub(in crate::kernels) fn by_tiles(&self) -> Option<usize> {
        let Self { isa, block, channels, filters, axes } = *self;
        let tile = Tile::of(block, &axes)?;
        let (n_tiles, n_products) = (tile.n_tiles(&axes), tile.products());
        let n_strips = tile.n_strips(isa, block, channels, &axes);
        let per_tile = (channels * filters / block).saturating_mul(n_products);
        let read = n_strips.max(1).saturating_mul(per_tile);
        let products = n_tiles.saturating_mul(per_tile).max(read.saturating_mul(TILES * block));
        let transform = TRANSFORM[0] + n_products * TRANSFORM[1];
        let transforms = n_tiles.saturating_mul((channels + filters) / block * transform);
        Some(products.saturating_add(transforms))
    }

    /// An estimate for a direct convolution.
    pub(in crate::kernels) fn direct(&self) -> usize {
        let Self { block, channels, filters, axes, .. } = *self;
        let products = channels * filters / block;
        let along = |axis: &Axis| axis.output.saturating_mul(axis.kernel);
        axes.iter().fold(products, |n, axis| n.saturating_mul(along(axis)))
    }
}

/// The transformed filters of each group, one group after the other; `None` if they could never pay
/// off, also compared with the cycles `on_tiles`.
pub(super) fn pack(
    compiler: &Compiler<'_>,
    op: &Conv,
    block: usize,
    on_tiles: Option<usize>,
) -> Option<(Tile, Packed)> {
    let isa = compiler.cpu.isa;
    let weights = compiler.constant(1).filter(|_| compiler.cpu.winograd)?;
    let &[o, c, kh, kw] = weights.shape() else { return None };
    let tile = Tile::of_taps([kh, kw])?;
    let dims = compiler.fact(0)?.dims()?;
    let sides = [2, 3].map(|i| dims.get(i).and_then(|dim| dim.known()));
    let len = tile.packed_len(o, c);
    if weights.is_empty() || c < block || (sides.contains(&None) && len > MAX_UNKNOWN) {
        return None;
    }
    let window = op.window.window(&sides.map(|side| side.unwrap_or(SIDE)), &[kh, kw]).ok()?;
    let [_, height, width] = axes(&window)?;
    let sizes = Sizes { isa, block, channels: c, filters: o / op.group, axes: [height, width] };
    if !sizes.is_faster(on_tiles) {
        return None;
    }
    let set = variant(isa, block).filters;
    let recipe = Recipe {
        name: name(tile),
        parameters: [block, set, op.group].map(|n| n as u64).to_vec(),
        n_bytes: len * size_of::<f32>(),
    };
    let packed = compiler.pack_for_runs(1, &recipe, |data: &[f32], packed| {
        let groups = data.chunks_exact(data.len() / op.group);
        for (w, packed) in groups.zip(packed.chunks_exact_mut(len / op.group)) {
            Filters { isa, block, set, inputs: c, tile, w }.pack(packed);
        }
    });
    Some((tile, packed?))
}

/// Named by outputs per tile along an axis, and taps.
pub(super) fn name(tile: Tile) -> &'static str {
    match tile.taps().into_iter().max() {
        Some(2) => "winograd_4x2",
        Some(3) => "winograd_4x3",
        _ => "winograd_4x5",
    }
}

/// Computes some positions: whole rows of tiles, the last possibly clipped.
pub(super) fn run(
    winograd: &Winograd<'_>,
    tile: Tile,
    positions: Range<usize>,
    pieces: &mut [&mut [f32]],
    scratch: &mut [f32],
) {
    let row = winograd.conv.axes[1].output * tile.outputs()[0];
    winograd.run(positions.start / row..positions.end.div_ceil(row), pieces, scratch);
}
