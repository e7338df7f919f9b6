//! `y[j] = y[j] + Σ_k x[k]·B[k,j]` with a B in 16-bit floats, like [`gemv_f32`](crate::gemv_f32): the tile of one row has
//! too few accumulators to hide the latency of a multiply-add.

use super::Half;
use crate::Isa;
use crate::gemv_f32::Variant;

ladder! {
    // `y[j] += Σ_k x[k]·b[k, j]` for 1 to `panels · nr` columns; `b: [⌈columns / nr⌉][k][nr]`.
    fn tile(half: Half, x: &[f32], b: &[u16], y: &mut [f32]);
    Avx512 => avx512_4x32, Avx2 => avx2_4x16; generic
}

/// Adds `x·B` to `y`.
///
/// # Panics
/// If `b` is not exactly the panels of `y`'s columns.
pub fn add_row_times_halves(isa: Isa, x: &[f32], (b, half): (&[u16], Half), y: &mut [f32]) {
    let Variant { panels, nr, .. } = best(isa);
    let k = x.len();
    assert_eq!(b.len(), y.len().next_multiple_of(nr) * k, "length of packed B");
    if k > 0 {
        let tiles = b.chunks(panels * nr * k).zip(y.chunks_mut(panels * nr));
        tiles.for_each(|(b, y)| tile(isa, half, x, b, y));
    }
}

#[cfg(test)]
use super::tests;
