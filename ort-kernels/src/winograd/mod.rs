//! Convolution of f32 images in NCHWc with blocks of B channels and filters of 2 or 3 taps along one or both
//! axes or 5 along one, stride and dilation 1, by Winograd's minimal filtering: F(4×4, 3×3) has 36 products for 16
//! outputs instead of 144, F(4×4, 2×2) 25 instead of 64, F(4, 3) along one axis 6 for 4 instead of 12, F(4, 5) 8
//! instead of 20.
//!
//! `y[o] = act(start[o] + Aᵀ·[Σ_c (G·w[o,c]·Gᵀ) ⊙ (Bᵀ·x[c]·B)]·A)` for each *tile* of outputs, four
//! along an axis with several taps; for an axis with one tap the matrices are the identity. Padding
//! is zero. Tiles form a grid that starts at the first output.
//!
//! **Operands** are those of [`conv_nchwc`](crate::conv_nchwc), form `Blocks`, and the transformed
//! filters: `[sets][products][I][F·B]`, where a set is F output blocks ([`Variant::filters`]), possibly
//! fewer in the last of a group. Every set of the group must be whole or the last.
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
//! and for 5 taps in the same way for 0, ±½, ±1, ±2, ∞:
//! ```text
//!      ⎡1  1  1   1  1  1  1  0⎤       ⎡−1                                  ⎤
//! Aᵀ = ⎢0  ½ −½   1 −1  2 −2  0⎥   G = ⎢ 32/45·(1  ±½   ¼   ±⅛  1/16)       ⎥
//!      ⎢0  ¼  ¼   1  1  4  4  0⎥       ⎢ −2/9 ·(1  ±1   1   ±1  1)          ⎥
//!      ⎣0  ⅛ −⅛   1 −1  8 −8  1⎦       ⎢ 1/90 ·(1  ±2   4   ±8  16)         ⎥
//!                                      ⎣                              1     ⎦
//!      ⎡−1  0   21/4  0    −21/4  0    1  0⎤
//! Bᵀ = ⎢ 0 ±s·t   s  ∓r·t   −r   ±t    1  0⎥  for the points ±t, where r and s are sum and product
//!      ⎣ 0 −1     0   21/4   0  −21/4  0  1⎦  of the squares of the other two
//! ```
//! For 2 taps the points are 0, ±a, b, ∞ with a = 3/4 and b = 7/4:
//! ```text
//!      ⎡1 1  1  1  0⎤       ⎡1/a²b    0         ⎤        ⎡a²b  −a²  −b    1  0⎤
//! Aᵀ = ⎢0 a −a  b  0⎥       ⎢(1   a)/2a²(a−b)   ⎥        ⎢0    −ab  a−b   1  0⎥
//!      ⎢0 a² a² b² 0⎥   G = ⎢(1  −a)/−2a²(a+b)  ⎥   Bᵀ = ⎢0     ab −a−b   1  0⎥
//!      ⎣0 a³−a³ b³ 1⎦       ⎢(1   b)/b(b²−a²)   ⎥        ⎢0    −a²   0    1  0⎥
//!                           ⎣0        1         ⎦        ⎣0    a²b −a²  −b   1⎦
//! ```
//! Every entry of Aᵀ and Bᵀ is exact. Among the points that are sixteenths these have the smallest
//! errors on random images: for 3 taps half those of the usual 0, ±1, ±2, ∞. F(2×2) needs 64 products
//! for 16 outputs, F(6×6) 28 with errors four times as large and filters nearly twice as long.
//!
//! **Order.** Filters are transformed in f64 and rounded once. Each of the sums is one chain of
//! multiply-adds over the input channels. So the bits depend only on the operands and whether
//! multiply-adds are fused, as they are in each variant but `generic`: not on how callers split
//! tiles and filters among calls, nor on B.
//!
//! **Error.** At most `γ(I + 19)·|Aᵀ|·[Σ_c (|G|·|w|·|Gᵀ|) ⊙ (|Bᵀ|·|x|·|B|)]·|A|` in addition to the error of
//! the activation, γ(j) = j·u/(1 − j·u): I roundings of each chain, 4 of each transformation along each
//! axis, 1 of the filter, 2 of bias and summand; so `γ(I + 11)` if one axis is the identity. As no
//! row of |Aᵀ|, |G| and |Bᵀ| sums to more than 8.4, 1.3 and 5.5 for 3 taps, 7.3, 1.6 and 4.9 for 2, and 19.3, 1.4 and
//! 15 for 5, this is at most `3610·γ(I + 19)·Σ_c max|w|·max|x|`, along one axis `60.1·γ(I + 11)·…` for 2 and 3 taps and
//! `398·γ(I + 11)·…` for 5. On random images the root mean square error is twice that of the direct
//! convolution for 3 taps, two and a half times for 2 and 5.
//!
//! **Edges.** A tile of an output block with a non-finite sum, caused by NaN or infinity in
//! its inputs or by overflow, is recomputed directly, like in `conv_nchwc`. Without
//! input channels the result is `act(start)`.
//!
//! **Loops.** *Strips* of tiles whose transformed pixels stay in the second-level cache ▸ sets of
//! output blocks ▸ the products of transformed pixels and filters, in register tiles ▸ inverse transform.

#[macro_use]
mod tile;
mod filters;
mod points;
mod run;
mod strip;
#[macro_use]
mod tiles;

use crate::Isa;
use crate::conv_nchwc::{Conv, suited};
use points::{eight, five, six};
use strip::Strip;

pub use filters::Filters;
pub use tile::Tile;

/// Outputs of a tile along an axis with several taps.
const TILE: usize = 4;

/// The prefetch distance of filters, in elements: 4 KiB. If they are in no private cache of the core,
/// the hardware prefetchers, which stop at each page, leave it waiting for half of the time.
const AHEAD: usize = 1024;

/// The convolution of one group of one image with some of its filters.
#[derive(Clone, Copy, Debug)]
pub struct Winograd<'a> {
    /// The convolution, which must have a [`Tile`]; its filters are used for non-finite tiles.
    pub conv: Conv<'a>,
    /// The same filters, transformed by [`Filters::pack`].
    pub packed: &'a [f32],
}

/// A register tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// `<isa>_<tiles>x<filters>`, the name of its file.
    pub name: &'static str,
    /// The block size it is made for.
    pub block: usize,
    /// The maximum number of output blocks computed at once.
    pub filters: usize,
}

ladder! {
    // Computes the tiles of a strip for as many output blocks as `y` has pieces.
    fn strip(strip: &Strip<'_>, scratch: &mut [f32], y: &mut [&mut [f32]]);
    Avx512 => avx512_28x1, Avx2 => avx2_6x2, Neon => neon_6x2, Simd128 => simd128_4x1;
    generic
}

/// Describes the register tile that serves blocks of `block` channels on `isa`.
#[must_use]
pub fn variant(isa: Isa, block: usize) -> Variant {
    best(suited(isa, block))
}

#[cfg(test)]
mod tests;
