//! Products of f32 on bfloat16 matrix tiles: every number is the sum of three bfloat16.
//!
//! `sums[n][f][p] = Σ_s Σ_k a[s][32·n + p][k]·b[s][f][k]` for 32 positions `p` of any number `n` of
//! products, 32 filters `f` and steps `s` of 32 terms `k`, with `a = a₀ + a₁ + a₂` and
//! `b = b₀ + b₁ + b₂` computed by `split`; of the nine products of parts, the six with `i + j ≤ 2`
//! are computed.
//!
//! **Operands.** A *line* is 16 pairs of bfloat16, the lower half first. A: three equal parts, consecutive;
//! in each of them, the lines starting at `steps[s]` are the positions of step `s`. B:
//! 96 lines per step: for each part 32 filters in two tiles of 16; a tile has one line for each pair of
//! terms, filter by filter. Sums: two tiles of 16 filters, each 32 lines, one per position.
//!
//! **Error.** A number is exactly the sum of its parts, and each part is at most 2⁻⁸ of the one
//! before it. The three omitted products add up to at most 2⁻²³·Σ|a·b|; products are exact
//! in f32, and six times as many sums as terms are rounded: at most `γ(6k + 2)·1.01·Σ|a·b|` for
//! `k` terms, γ(j) = j·u/(1 − j·u). On random operands the root mean square error is less than half
//! of that of a chain of fused multiply-adds at 128 terms and a sixth at 4608, as tiles round less
//! often than allowed. Parts and results below the least normal number, 2⁻¹²⁶, count as zero.
//!
//! **Edges.** NaN, infinities and numbers that round to infinity as bfloat16 become NaN, as do
//! all products with them: a caller that finds a non-finite result must recompute
//! it without tiles.

use crate::Isa;

pub(crate) mod merge;
mod split;

pub(crate) use split::{all_finite, split, split_panel, split_row, split_run};

/// 16 pairs of bfloat16.
pub(crate) type Line = [u32; 16];

/// A: three parts, each `part` lines after the one before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lhs<'a> {
    pub(crate) lines: &'a [Line],
    pub(crate) part: usize,
}

/// B, and the data that will be read soon after it, which variants may prefetch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rhs<'a> {
    pub(crate) lines: &'a [Line],
    pub(crate) later: &'a [f32],
}

/// The sums of a product: 32 positions of 16 filters, twice.
pub(crate) type Sums = [[f32; 16]; 64];

/// The positions of a product, and its filters.
pub(crate) const SIDE: usize = 32;

/// The lines of B in a step.
pub(crate) const B_STEP: usize = 3 * SIDE;

/// The name of a product kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// `<isa>_<positions>x<filters>`, the name of its file.
    pub name: &'static str,
}

ladder! {
    // Computes as many products as there are `sums`.
    fn multiply(a: Lhs<'_>, steps: &[u32], b: Rhs<'_>, sums: &mut [Sums]);
    Amx => amx_32x32; generic
}

/// Describes the product that serves `isa`, if it has tiles.
#[must_use]
pub fn variant(isa: Isa) -> Option<Variant> {
    isa.amx().map(|_| best(isa))
}

/// The sums of as many products as there are `sums`.
pub(crate) fn products(isa: Isa, a: Lhs<'_>, steps: &[u32], b: Rhs<'_>, sums: &mut [Sums]) {
    multiply(isa, a, steps, b, sums);
}

#[cfg(test)]
mod tests;
