//! `C[m,n] = act(Start[m,n] + Σ_k α·A[m,k]·B[k,n])` in f32, f64, i32 and i64, see [`Element`];
//! f32 is the default, and integers wrap.
//!
//! **Operands.** A: [`Lhs`], strided or packed. B: any implementation of [`Panels`]: a strided
//! [`Matrix`], a [`PackedB`], [`PackedHalves`](halves::PackedHalves), or columns generated on the fly. C: [`Rows`] to write. No operand aliases
//! C. No alignment is required; 64-byte alignment of scratch and packed operands is slightly
//! faster.
//!
//! **Order.** Every element is one chain of multiply-adds from its start in ascending `k`. So the
//! bits depend only on the operands: not on blocking, tile size or prepacking, nor on how
//! callers split rows and columns among threads, and [`Avx512`](crate::Avx512) and
//! [`Avx2`](crate::Avx2) agree. `Generic` rounds the product too if the target has no fused
//! multiply-add. α is multiplied into A first. Error: at most `γ(k+1)·Σ|α·a·b|`, γ(j) =
//! j·u/(1 − j·u).
//! If the columns of B are contiguous, a few rows of A are multiplied as dot products of 16 chains
//! each, which are joined before the start is added: with an error of at most `γ(k/16+32)·Σ|α·a·b|`.
//! [`Amx`](crate::Amx) computes large products on [`tiles`](crate::tiles), in another order and with
//! a different error bound.
//!
//! **Edges.** `k = 0` gives `act(Start)`. NaN and infinities follow IEEE 754; nothing is skipped.
//!
//! **Loops.** Blocks of rows and of `k` for which A fits the second-level cache ▸ panels of B, `nr`
//! columns wide ▸ slices of `k` ▸ panels of A, at most `mr` rows ▸ the register tile. While a packed
//! panel of B is used, the next is prefetched. Operands that are read only a few times are not packed: A if B is narrow or
//! written to scratch, or tiles have few rows; B if A has a few rows and rows or columns of B are contiguous. A single
//! row times packed panels is computed as in [`gemv_f32`](crate::gemv_f32).
//!
//! ```
//! use ort_kernels::gemm::{Gemm, Lhs, Matrix, Start, Strided};
//! use ort_kernels::{Activation, Isa};
//!
//! let (m, n, k) = (2, 2, 3);
//! let a = Matrix::row_major(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0], m, k);
//! let b = Matrix::row_major(&[1.0, 0.0, 0.0, 1.0, 1.0, 1.0], k, n);
//! let gemm = Gemm {
//!     isa: Isa::best(),
//!     m,
//!     n,
//!     k,
//!     a: Lhs::Strided { a, alpha: 1.0 },
//!     b,
//!     start: Start::ByColumn(&[0.0, -6.0]),
//!     activation: Activation::Relu,
//! };
//! let mut c = [0.0; 4];
//! let mut scratch = vec![0.0; gemm.scratch_len(m)];
//! gemm.run(&gemm.whole(), &mut Strided { data: &mut c, stride: n }, &mut scratch);
//! assert_eq!(c, [4.0, 0.0, 10.0, 5.0]);
//! ```

mod block;
mod dots;
mod element;
mod merge_rows;
mod next;
mod of_f32;
mod pack;
mod rows;
mod step;
mod tiled;
#[macro_use]
mod tiles;
mod vector;

pub mod halves;
pub mod of_f64;
pub mod of_i32;
pub mod of_i64;

pub use block::{Gemm, Region};
pub use element::{Element, RowTimesPanels};
use element::{Left, Tile};
use halves::Half;
pub use pack::{
    Lhs, Matrix, PackedB, Panels, Slice, Stored, pack_a, pack_b, pack_b_while, packed_b_len,
    packed_b_len_of, row_panels,
};
pub(crate) use pack::{by_width, each_panel};
use rows::{Place, Target};
pub use rows::{Rows, Strided};

/// The initial value of an element of C.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a, T = f32> {
    /// Zero.
    Zero,
    /// The contents of C.
    C,
    /// `bias[j]`, one element per column of the whole C.
    ByColumn(&'a [T]),
    /// `bias[i]`, one element per row of the whole C.
    ByRow(&'a [T]),
}

/// f32 per cache line.
const LINE: usize = 16;
/// The unrolling of tiles in `k`.
const FOUR: usize = 4;

/// A register tile: its name, rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// `<isa>_<rows>x<columns>`, the name of its file.
    pub name: &'static str,
    /// The maximum number of rows per tile.
    pub mr: usize,
    /// Columns per panel of B.
    pub nr: usize,
}

ladder! {
    // `c[r][j] = clamp(start + Σ_k a[k][r]·b[k][j])` for the rows of `c`, 1 to `mr` of them, 1 to
    // `nr` wide.
    fn tile(tile: &Tile<'_>, c: &mut Target<'_>);
    Avx512 => avx512_14x32, Avx2 => avx2_6x16, Neon => neon_12x8, Simd128 => simd128_4x8;
    generic
}

/// Describes the tile that serves `isa`.
#[must_use]
pub fn variant(isa: crate::Isa) -> Variant {
    best(isa)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tiled_tests;
