//! Rows of bytes, with a scale per block, times weights of a few bits.

use super::{Bytes, MAX_NR, Panel, Variant};
use crate::quantize::low_byte;

ladder! {
    // `c[r][j] = Σ_b scale[r][b]·scale[b][j]·Σ_k a[r][k]·(q[k][j] − zero[b][j])` for the rows of
    // `c`, 1 to `mr` of them.
    fn tile_of(panel: &Panel<'_>, a: &Bytes<'_>, c: &mut [[f32; MAX_NR]]);
    Avx512Vnni => avx512vnni_6x32, Avx2 => avx2_2x16; generic
}

/// Computes the best tile.
pub(super) fn tile(isa: crate::Isa, panel: &Panel<'_>, a: &Bytes<'_>, c: &mut [[f32; MAX_NR]]) {
    tile_of(isa, panel, a, c);
}

/// Describes the tile for rows of bytes that serves `isa`.
#[must_use]
pub fn variant(isa: crate::Isa) -> Variant {
    best(isa)
}

/// The minimum magnitude whose reciprocal is finite, with a margin of a factor of 100.
const MIN_MAGNITUDE: f32 = 1e-36;
/// Elements whose magnitudes are compared together.
const LANES: usize = 16;

/// The maximum magnitude, NaN if an element is NaN or infinite.
#[inline(always)]
fn magnitude(a: &[f32]) -> f32 {
    let (mut most, mut poison) = ([0.0_f32; LANES], [0.0_f32; LANES]);
    let (whole, rest) = a.as_chunks::<LANES>();
    for a in whole {
        for i in 0..LANES {
            most[i] = if a[i].abs() > most[i] { a[i].abs() } else { most[i] };
            poison[i] += a[i] * 0.0;
        }
    }
    let rest = rest.iter().fold(0.0, |most: f32, a| most.max(a.abs()) + a * 0.0);
    most.into_iter().fold(rest, |most, x| if x > most { x } else { most })
        + poison.into_iter().sum::<f32>()
}

/// The destination of a quantized row.
#[derive(Debug)]
pub struct Quantized<'a> {
    /// At least as long as the row; the rest becomes zero.
    pub q: &'a mut [i8],
    /// One per block.
    pub scales: &'a mut [f32],
    /// One per block: the sums of the bytes.
    pub sums: &'a mut [f32],
}

per_isa! {
    /// Quantizes a row block by block: `scale = max|a| / 127`, `q = round(a / scale)`, half to even;
    /// and sums the bytes.
    ///
    /// A block with a non-finite element has the scale NaN; one with all magnitudes below 1e−36
    /// counts as zeros.
    ///
    /// # Panics
    /// If a destination is too short.
    pub fn quantize_blocks<FMA>(a: &[f32], block: usize, to: Quantized<'_>) {
        let Quantized { q, scales, sums } = to;
        q[a.len()..].fill(0);
        let blocks = a.chunks(block).zip(q.chunks_mut(block));
        for (b, (a, q)) in blocks.enumerate() {
            let most = magnitude(a);
            let factor = if most > MIN_MAGNITUDE { 127.0 / most } else { 0.0 };
            let mut sum = 0_i32;
            for (q, a) in q.iter_mut().zip(a) {
                let whole = low_byte(a * factor).cast_signed();
                *q = whole;
                sum += i32::from(whole);
            }
            (scales[b], sums[b]) = (most / 127.0, sum as f32);
        }
    }
}

#[cfg(test)]
use super::tests::bytes as tests;
