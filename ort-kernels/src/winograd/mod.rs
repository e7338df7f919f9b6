//! Convolution of f32 images in blocks of B channels with filters of 3×3, stride and dilation 1, by
//! Winograd's minimal filtering F(4×4, 3×3): 36 products for 16 outputs instead of 144.
//!
//! `y[o] = act(start[o] + Aᵀ·[Σ_c (G·w[o,c]·Gᵀ) ⊙ (Bᵀ·x[c]·B)]·A)` for each *tile* of 4×4 outputs,
//! which reads 6×6 pixels; what lies beside the image is zero. Tiles lie on a grid that begins at
//! the first output.
//!
//! **Operands** are those of [`conv_nchwc`](crate::conv_nchwc), form `Blocks`, and the transformed
//! filters: `[sets][36][I][F·B]`, where a set is F output blocks ([`Variant::filters`]), the last
//! of a group maybe fewer. Every set of the group must be whole or the last.
//!
//! **Matrices** are Toom and Cook's for the points 0, ±a, ±b, ∞ with a = 11/16 and b = 3/2:
//! ```text
//!      ⎡1 1  1  1  1  0⎤        ⎡1/a²b²  0   0⎤        ⎡a²b²  0   −a²−b²  0     1 0⎤
//! Aᵀ = ⎢0 a −a  b −b  0⎥        ⎢p      pa pa²⎥        ⎢0   −ab²  −b²     a     1 0⎥
//!      ⎢0 a² a² b² b² 0⎥    G = ⎢p     −pa pa²⎥   Bᵀ = ⎢0    ab²  −b²    −a     1 0⎥
//!      ⎣0 a³−a³ b³−b³ 1⎦        ⎢q      qb qb²⎥        ⎢0   −a²b  −a²     b     1 0⎥
//!                               ⎢q     −qb qb²⎥        ⎢0    a²b  −a²    −b     1 0⎥
//!      p = 1/2a²(a²−b²)         ⎣0      0    1⎦        ⎣0    a²b²  0   −a²−b²   0 1⎦
//!      q = 1/2b²(b²−a²)
//! ```
//! Every entry of Aᵀ and Bᵀ is a float. Among the points that are sixteenths these have the least
//! errors on random images, half those of the usual 0, ±1, ±2, ∞. F(2×2) needs 64 products for 16
//! outputs, F(6×6) 28 with errors four times as large and filters nearly twice as long.
//!
//! **Order.** Filters are transformed in f64 and rounded once. Each of the 36 sums is one chain of
//! multiply-adds over the input channels. So the bits depend on nothing but the operands and whether
//! multiply-adds are fused, as they are in each variant but `generic`: not on how callers split
//! tiles and filters among calls, nor on B.
//!
//! **Error.** At most `γ(I + 19)·|Aᵀ|·[Σ_c (|G|·|w|·|Gᵀ|) ⊙ (|Bᵀ|·|x|·|B|)]·|A|` beside the error of
//! the activation, γ(j) = j·u/(1 − j·u): I roundings of each chain, 8 of each transformation (6 and 4
//! if fused), 1 of the filter, 2 of bias and summand. As no row of |Aᵀ|, |G| and |Bᵀ| sums to more
//! than 8.4, 1.3 and 5.5, this is at most `3610·γ(I + 19)·Σ_c max|w|·max|x|`. On random images the
//! root of the mean square is twice that of the direct convolution.
//!
//! **Edges.** A tile of an output block with a sum that is not finite, be it for NaN or infinity in
//! what it reads or for an overflow on the way, is computed directly, as `conv_nchwc` does it. No
//! input channels give `act(start)`.
//!
//! **Loops.** *Strips* of tiles whose transformed pixels stay in the second-level cache ▸ sets of
//! output blocks ▸ the 36 products of transformed pixels and filters, in register tiles ▸ back.

mod filters;
mod run;
mod strip;
#[cfg(target_arch = "x86_64")]
#[macro_use]
mod tiles;

use crate::Isa;
use crate::conv_f32::Axis;
use crate::conv_nchwc::{Conv, suited};
use strip::Strip;

pub use filters::{pack, packed_len};
pub use run::{n_strips, scratch_len};

/// Outputs of a tile along an axis.
pub const TILE: usize = 4;
/// Pixels that a tile reads along an axis.
const WINDOW: usize = TILE + 2;
/// Products of a tile.
const PRODUCTS: usize = WINDOW * WINDOW;

/// The points a and b.
const POINTS: [f32; 2] = [11.0 / 16.0, 3.0 / 2.0];
/// Their squares, cubes, and the sum and the product of the squares: all exact.
const SQUARES: [f32; 2] = [121.0 / 256.0, 9.0 / 4.0];
const CUBES: [f32; 2] = [1331.0 / 4096.0, 27.0 / 8.0];
const SUM: f32 = 697.0 / 256.0;
const PRODUCT: f32 = 1089.0 / 1024.0;

/// How far ahead filters are asked for, in elements: 4 KiB. Where they come from no cache of the core
/// its own prefetchers, which stop at each page, leave it waiting for half of the time.
#[cfg(target_arch = "x86_64")]
const AHEAD: usize = 1024;

/// The convolution of one group of one image with some of its filters.
#[derive(Clone, Copy, Debug)]
pub struct Winograd<'a> {
    /// The convolution, which [`takes`] allows; its filters serve tiles that are not finite.
    pub conv: Conv<'a>,
    /// The same filters, transformed by [`pack`].
    pub packed: &'a [f32],
}

/// A register tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// `<isa>_<tiles>x<filters>`, the name of its file.
    pub name: &'static str,
    /// The block it is made for.
    pub block: usize,
    /// The most output blocks it computes at once.
    pub filters: usize,
}

ladder! {
    // The tiles of a strip of as many output blocks as `y` has pieces.
    fn strip(strip: &Strip<'_>, scratch: &mut [f32], y: &mut [&mut [f32]]);
    Avx512 => avx512_28x1, Avx2 => avx2_6x2; generic
}

/// Whether blocks of so many channels and windows on such axes can be computed this way.
#[must_use]
pub fn takes(block: usize, axes: &[Axis; 2]) -> bool {
    let is_three = |axis: &Axis| [axis.kernel, axis.stride, axis.dilation] == [3, 1, 1];
    matches!(block, 8 | 16) && axes.iter().all(is_three)
}

/// Describes the register tile that serves blocks of `block` channels on `isa`.
#[must_use]
pub fn variant(isa: Isa, block: usize) -> Variant {
    best(suited(isa, block))
}

#[cfg(test)]
mod tests;
