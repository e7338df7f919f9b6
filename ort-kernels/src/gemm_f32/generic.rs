//! 4 rows by 8 columns, left to the vectoriser: eight accumulators of four lanes.

use super::{Left, Start, Target, Tile, Variant};
use crate::isa::{GENERIC_FMA, mul_add};

pub(super) const VARIANT: Variant = Variant { name: "generic", mr: 4, nr: NR };
const NR: usize = 8;

pub(super) fn tile(tile: &Tile<'_>, c: &mut Target<'_>) {
    match c.count {
        1 => rows::<1>(tile, c),
        2 => rows::<2>(tile, c),
        3 => rows::<3>(tile, c),
        _ => rows::<4>(tile, c),
    }
}

/// `R` rows of at most 8 columns.
fn rows<const R: usize>(tile: &Tile<'_>, c: &mut Target<'_>) {
    let width = c.width;
    let mut sums = [[0.0; NR]; R];
    for (r, sums) in sums.iter_mut().enumerate() {
        match tile.start {
            Start::Zero => {}
            Start::C => sums[..width].copy_from_slice(c.row(r)),
            Start::ByColumn(bias) => sums[..width].copy_from_slice(&bias[..width]),
            Start::ByRow(bias) => sums.fill(bias[r]),
        }
    }
    for (k, b) in tile.b.as_chunks::<NR>().0.iter().enumerate() {
        for r in 0..R {
            let a = match tile.a {
                Left::Packed(a) => a[k * R + r],
                Left::Rows(a, stride) => a[r * stride + k],
            };
            for j in 0..NR {
                sums[r][j] = mul_add::<GENERIC_FMA>(a, b[j], sums[r][j]);
            }
        }
    }
    let (low, high) = tile.clamp.unwrap_or((f32::NEG_INFINITY, f32::INFINITY));
    for (r, sums) in sums.iter().enumerate() {
        for (c, &sum) in c.row(r).iter_mut().zip(sums) {
            let sum = if sum < low { low } else { sum };
            *c = if sum > high { high } else { sum };
        }
    }
}
