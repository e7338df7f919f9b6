//! Convolution of f32 images in NCHWc, with blocks of B channels.
//!
//! `y[o,p] = act(start[o,p] + Σ_{c,t} w[o,c,t]·x[c, s·p + d·t − pad])` for one image and one group,
//! where positions `p` and taps `t` have two axes and x is zero outside.
//!
//! **Operands.** A call computes any number F of output blocks.
//!
//! | [`Form`]  | x                | w                            |
//! |-----------|------------------|------------------------------|
//! | Blocks    | `[I/B][H][W][B]` | `[F][I/B][KH][KW][B in][B]`  |
//! | Planes    | `[I][H][W]`      | `[F][I][KH][KW][B]`          |
//! | Depthwise | `[F][H][W][B]`   | `[F][KH][KW][B]`             |
//!
//! y: F pieces `[positions][B]`. It may hold a summand, so that the output of a convolution
//! with a residual can alias it. Filters are read in the layout of the file, without packing.
//!
//! **Order.** Every element is one chain of multiply-adds from its start, in the memory order of its
//! filter. So the bits depend only on the operands, the block size and whether
//! multiply-adds are fused, as they are in each variant but `generic`: not on how callers split
//! positions and filters among calls. Error: at most `γ(k+1)·Σ|w·x|` for `k` terms, γ(j) = j·u/(1 −
//! j·u).
//!
//! **Edges.** Without input channels the result is `act(start)`. NaN and infinities follow IEEE 754. A tap left or right of
//! the image counts as zero; one above or below it is skipped.
//!
//! **Loops.** Chunks of positions that stay in the second-level cache for all filters ▸
//! *sets* of as many output blocks as fit the registers ▸ *slices* of input blocks whose filters
//! stay in the first-level cache ▸ *lines*, the rows of a chunk ▸ tiles of adjacent positions. A pointwise
//! convolution has one long line.

mod layout;
mod line;
mod run;
mod tiled;
#[macro_use]
mod tiles;

use crate::conv_f32::Axis;
use crate::{Activation, Isa};
use line::{Line, MAX_BLOCK};
pub use tiled::{Size, Tiling};

/// The layout of inputs and filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Every output reads every input channel; the input is in NCHWc.
    Blocks,
    /// Every output reads every input channel; the input is in NCHW.
    Planes,
    /// Every output reads the input channel of the same index.
    Depthwise,
}

/// The initial values of sums.
#[derive(Clone, Copy, Debug, Default)]
pub struct Start<'a> {
    /// One element per output channel, added to the summand; absent: zero.
    pub bias: Option<&'a [f32]>,
    /// Whether y holds the summand; otherwise it is zero.
    pub is_sum: bool,
}

/// The convolution of one group of one image with some of its filters.
#[derive(Clone, Copy, Debug)]
pub struct Conv<'a> {
    /// The instruction set.
    pub isa: Isa,
    /// B, see [`is_block`].
    pub block: usize,
    /// The layout of the operands.
    pub form: Form,
    /// Height and width of the image.
    pub axes: [Axis; 2],
    /// The image.
    pub x: &'a [f32],
    /// The filters.
    pub w: &'a [f32],
    /// The initial values of sums.
    pub start: Start<'a>,
    /// Applied to the sums.
    pub activation: Activation,
}

/// A register tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// `<isa>_<positions>x<filters>`, the name of its file.
    pub name: &'static str,
    /// The block size it is made for.
    pub block: usize,
    /// The maximum number of output blocks computed at once.
    pub filters: usize,
}

ladder! {
    // The positions of a line, by as many output blocks as `y` has pieces.
    fn line(line: &Line<'_>, y: &mut [&mut [f32]]);
    Avx512 => avx512_6x4, Avx2 => avx2_6x2, Neon => neon_6x2, Simd128 => simd128_4x1;
    generic
}

/// Whether blocks of `block` channels are supported: powers of two up to 64.
#[must_use]
pub fn is_block(block: usize) -> bool {
    block.is_power_of_two() && block <= MAX_BLOCK
}

/// Describes the tile that serves blocks of `block` channels on `isa`.
#[must_use]
pub fn variant(isa: Isa, block: usize) -> Variant {
    best(suited(isa, block))
}

/// The instruction set whose registers are blocks of `block` channels.
#[must_use]
pub fn suited(isa: Isa, block: usize) -> Isa {
    let (eight, four) = (isa.avx2().map(Isa::from), isa.simd128().map(|_| isa));
    match (block, isa.avx512()) {
        (16, Some(token)) => token.into(),
        (8, _) => eight.or(four).unwrap_or(Isa::Generic),
        _ => Isa::Generic,
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tiled_tests;
