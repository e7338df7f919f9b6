//! A few rows of floats times weights of a few bits.

use super::{Floats, MAX_NR, Panel, Variant};

ladder! {
    // `c[r][j] = Σ_k a[r][k]·weight[k][j]` for the rows of `c`, 1 to `mr` of them.
    fn tile_of(panel: &Panel<'_>, a: &Floats<'_>, c: &mut [[f32; MAX_NR]]);
    Avx512 => avx512_4x32, Avx2 => avx2_2x16; generic
}

/// Computes the best tile.
pub(super) fn tile(isa: crate::Isa, panel: &Panel<'_>, a: &Floats<'_>, c: &mut [[f32; MAX_NR]]) {
    tile_of(isa, panel, a, c);
}

/// Describes the tile for rows of floats that serves `isa`.
#[must_use]
pub fn variant(isa: crate::Isa) -> Variant {
    best(isa)
}

per_isa! {
    /// The sum of each block of a row, in 16 chains that are then joined; the last block may be shorter.
    pub fn block_sums<FMA>(a: &[f32], block: usize, sums: &mut [f32]) {
        for (a, sum) in a.chunks(block).zip(sums) {
            let mut lanes = [0.0_f32; 16];
            let (whole, rest) = a.as_chunks::<16>();
            whole.iter().for_each(|a| (0..16).for_each(|i| lanes[i] += a[i]));
            lanes.iter_mut().zip(rest).for_each(|(lane, a)| *lane += a);
            *sum = lanes.iter().sum();
        }
    }
}

#[cfg(test)]
use super::tests::floats as tests;
