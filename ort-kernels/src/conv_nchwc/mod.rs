//! Convolution of f32 images whose channels lie in blocks of B (NCHWc).
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
//! y: F pieces `[positions][B]`. It may hold a summand, which is how the output of a convolution
//! with a residual aliases it. Filters are read as files store them: nothing is packed.
//!
//! **Order.** Every element is one chain of multiply-adds from its start, in the order in which its
//! filter lies in memory. So the bits depend on nothing but the operands, the block and whether
//! multiply-adds are fused, as they are in each variant but `generic`: not on how callers split
//! positions and filters among calls. Error: at most `γ(k+1)·Σ|w·x|` for `k` terms, γ(j) = j·u/(1 −
//! j·u).
//!
//! **Edges.** No input channels give `act(start)`. NaN and infinities follow IEEE 754. A tap beside
//! the image counts as zero; one above or below it is skipped.
//!
//! **Loops.** Chunks of positions that stay in the second-level cache while all filters pass by ▸
//! *sets* of as many output blocks as fit the registers ▸ *slices* of input blocks whose filters
//! stay in the first ▸ *lines*, the rows of a chunk ▸ tiles of adjacent positions. A convolution of
//! 1×1 without padding and strides has one long line.

mod layout;
mod line;
mod run;
mod tiled;
#[cfg(target_arch = "x86_64")]
#[macro_use]
mod tiles;

use crate::conv_f32::Axis;
use crate::{Activation, Isa};
use line::{Line, MAX_BLOCK};
pub use tiled::{Size, Tiling};

/// How inputs and filters lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Every output sees every input channel, which are in blocks, too.
    Blocks,
    /// Every output sees every input channel, which is in NCHW.
    Planes,
    /// Every output sees the input channel of its own number.
    Depthwise,
}

/// What a convolution starts from, before the products are added.
#[derive(Clone, Copy, Debug, Default)]
pub struct Start<'a> {
    /// One element an output channel, added to the summand; absent: zero.
    pub bias: Option<&'a [f32]>,
    /// Whether the summand is what y holds; else it is zero.
    pub is_sum: bool,
}

/// The convolution of one group of one image with some of its filters.
#[derive(Clone, Copy, Debug)]
pub struct Conv<'a> {
    /// Which instructions to use.
    pub isa: Isa,
    /// B, see [`is_block`].
    pub block: usize,
    /// How the operands lie in memory.
    pub form: Form,
    /// Height and width.
    pub axes: [Axis; 2],
    /// The image.
    pub x: &'a [f32],
    /// The filters.
    pub w: &'a [f32],
    /// What the sums start from.
    pub start: Start<'a>,
    /// What is applied to the sums.
    pub activation: Activation,
}

/// A register tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// `<isa>_<positions>x<filters>`, the name of its file.
    pub name: &'static str,
    /// The block it is made for.
    pub block: usize,
    /// The most output blocks it computes at once.
    pub filters: usize,
}

ladder! {
    // The positions of a line, by as many output blocks as `y` has pieces.
    fn line(line: &Line<'_>, y: &mut [&mut [f32]]);
    Avx512 => avx512_6x4, Avx2 => avx2_6x2; generic
}

/// Whether there is a kernel for blocks of `block` channels: powers of two up to 64.
#[must_use]
pub fn is_block(block: usize) -> bool {
    block.is_power_of_two() && block <= MAX_BLOCK
}

/// Describes the tile that serves blocks of `block` channels on `isa`.
#[must_use]
pub fn variant(isa: Isa, block: usize) -> Variant {
    best(suited(isa, block))
}

/// The instructions whose registers are blocks of `block` channels: those that serve them.
#[must_use]
pub fn suited(isa: Isa, block: usize) -> Isa {
    match (block, isa.avx512(), isa.avx2()) {
        (16, Some(token), _) => token.into(),
        (8, _, Some(token)) => token.into(),
        _ => Isa::Generic,
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tiled_tests;
