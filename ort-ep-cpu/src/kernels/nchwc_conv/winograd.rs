//! Convolutions of 3×3, and of 3 or 5 taps along one axis, by Winograd's filtering: which are faster
//! so, and their filters.
//!
//! Filters are transformed when the kernel is compiled, into up to four times their size of private
//! memory, and only if they are constant. That is not done where it could never pay: the shape of x
//! decides where it is known, else an image that is large.

use std::ops::Range;

use ort_ep::{Packed, Recipe};
use ort_kernels::Isa;
use ort_kernels::conv_f32::Axis;
use ort_kernels::winograd::{Filters, Tile, Winograd, variant};
use ort_ops::ops::conv::Conv;

use crate::kernels::Compiler;
use crate::kernels::conv::axes;

/// What transforming the pixels or the sums of one tile of one block costs, and what for each
/// product, in multiply-adds of vectors: fitted to example `winograd`.
const TRANSFORM: [usize; 2] = [60, 12];
/// The tiles for which a transformed filter must serve, or it is read more slowly than multiplied:
/// a core reads some 15 GB/s of what is in no cache of its own, a vector of 16 floats while it could
/// do 32 multiply-adds, one of 8 in half the time.
const TILES: usize = 2;
/// The side of an image, if it is not known.
pub(super) const SIDE: usize = 64;
/// The most transformed filters of an image of unknown size, in elements: 16 MiB.
const MOST_UNKNOWN: usize = 4 << 20;

/// The sizes on which the choice depends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) isa: Isa,
    pub(super) block: usize,
    /// Input channels of a group.
    pub(super) channels: usize,
    /// Output channels of a group.
    pub(super) filters: usize,
    pub(super) axes: [Axis; 2],
}

impl Sizes {
    /// Whether Winograd's filtering takes at most four fifths of the time of a direct convolution,
    /// both estimated in multiply-adds of vectors, and nine tenths of that `on_tiles` of the
    /// processor, in cycles: below that, memory is worth more.
    pub(super) fn is_faster(&self, on_tiles: Option<usize>) -> bool {
        let Self { isa, block, channels, filters, axes } = *self;
        let Some(tile) = Tile::of(block, &axes) else { return false };
        let n_tiles: usize = tile.grid(&axes).iter().product();
        let (n_outputs, n_products) = (axes[0].output * axes[1].output, tile.products());
        let n_strips = tile.n_strips(isa, block, channels, &axes);
        let vectors = channels * filters / block;
        let read = n_strips.max(1) * vectors * n_products;
        let products = (n_tiles * vectors * n_products).max(read * TILES * block);
        let transform = TRANSFORM[0] + n_products * TRANSFORM[1];
        let transforms = n_tiles * (channels + filters) / block * transform;
        let work = products + transforms;
        // A multiply-add takes nine tenths of a cycle.
        5 * work <= 4 * n_outputs * vectors * tile.n_taps()
            && on_tiles.is_none_or(|cycles| work <= cycles)
    }
}

/// The filters of each group, transformed, one group after the other; `None` where that could not
/// pay, also beside the cycles that it takes `on_tiles`.
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
    if weights.is_empty() || c < block || (sides.contains(&None) && len > MOST_UNKNOWN) {
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
    let packed = compiler.pack(1, &recipe, |data: &[f32], packed| {
        let groups = data.chunks_exact(data.len() / op.group);
        for (w, packed) in groups.zip(packed.chunks_exact_mut(len / op.group)) {
            Filters { isa, block, set, inputs: c, tile, w }.pack(packed);
        }
    });
    Some((tile, packed?))
}

/// Outputs of a tile along an axis by taps.
pub(super) fn name(tile: Tile) -> &'static str {
    if tile.taps().contains(&5) { "winograd_4x5" } else { "winograd_4x3" }
}

/// Computes some positions: whole rows of tiles, or what is left of the last.
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
