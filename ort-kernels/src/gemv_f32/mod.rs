//! `y[j] = y[j] + Σ_k x[k]·B[k,j]` in f32: one row times a packed matrix.
//!
//! **Operands.** x: `[k]`. B: whole panels of `[k][nr]`, packed by [`pack_b`](crate::gemm::pack_b)
//! for the same instruction set. y: as many columns as the panels have, or up to `nr − 1`
//! fewer.
//!
//! **Order.** Every element is one chain of multiply-adds starting from the contents of `y`, in ascending `k`: the
//! bits equal those of [`Gemm`](crate::gemm::Gemm), and do not depend on how callers split
//! columns, nor on the direction of the [`Walk`]. Error: at most `γ(k+1)·Σ|x·b|`.
//!
//! **Edges.** `k = 0` leaves `y` unchanged. NaN and infinities follow IEEE 754; nothing is skipped.
//!
//! Bound by memory: B is read once, two panels at a time, and nothing is copied.

#[macro_use]
pub(crate) mod four_panels;

/// The order in which panels are read.
///
/// If a matrix that does not fit a cache is multiplied repeatedly, alternating the direction
/// finds part of it in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// From the first panel to the last.
    Forward,
    /// From the last panel to the first.
    Backward,
}

/// A kernel: its name and the columns that it computes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// `<isa>_<panels>x<columns>`, the name of its file.
    pub name: &'static str,
    /// Panels read at a time.
    pub panels: usize,
    /// Columns per panel.
    pub nr: usize,
}

ladder! {
    // `y[j] += Σ_k x[k]·b[k, j]` for 1 to `panels · nr` columns; `b: [⌈columns / nr⌉][k][nr]`.
    fn tile(x: &[f32], b: &[f32], y: &mut [f32]);
    Avx512 => avx512_2x32, Avx2 => avx2_4x16, Simd128 => simd128_4x8; generic
}

/// Describes the kernel that serves `isa`.
#[must_use]
pub fn variant(isa: crate::Isa) -> Variant {
    best(isa)
}

/// Adds `x·B` to `y`.
///
/// # Panics
/// If `b` is not exactly the panels of `y`'s columns.
pub fn add_row_times_panels(isa: crate::Isa, x: &[f32], b: &[f32], y: &mut [f32], walk: Walk) {
    let Variant { panels, nr, .. } = best(isa);
    let k = x.len();
    assert_eq!(b.len(), y.len().next_multiple_of(nr) * k, "length of packed B");
    if k == 0 {
        return;
    }
    let tiles = b.chunks(panels * nr * k).zip(y.chunks_mut(panels * nr));
    let each = |(b, y): (&[f32], &mut [f32])| tile(isa, x, b, y);
    match walk {
        Walk::Forward => tiles.for_each(each),
        Walk::Backward => tiles.rev().for_each(each),
    }
}

#[cfg(test)]
mod tests;
