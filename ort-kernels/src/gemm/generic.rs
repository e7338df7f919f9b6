//! 4 rows by 8 columns of any element, autovectorised: for f32, eight accumulators of four lanes.

use super::element::Left;
use super::{Element, Start, Target, Tile, Variant};
use crate::isa::GENERIC_FMA;

pub(in crate::gemm) const VARIANT: Variant = Variant { name: "generic", mr: 4, nr: NR };
const NR: usize = 8;

pub(in crate::gemm) fn tile<T: Element>(tile: &Tile<'_, T>, c: &mut Target<'_, T>) {
    tile_of(tile, c, |b| b);
}

/// The same for elements of B that `widen` turns into those of the product.
pub(in crate::gemm) fn tile_of<T: Element, B: Copy>(
    tile: &Tile<'_, T, B>,
    c: &mut Target<'_, T>,
    widen: impl Fn(B) -> T,
) {
    match c.count {
        1 => rows::<T, B, 1>(tile, c, widen),
        2 => rows::<T, B, 2>(tile, c, widen),
        3 => rows::<T, B, 3>(tile, c, widen),
        _ => rows::<T, B, 4>(tile, c, widen),
    }
}

/// `R` rows of at most 8 columns.
fn rows<T: Element, B: Copy, const R: usize>(
    tile: &Tile<'_, T, B>,
    c: &mut Target<'_, T>,
    widen: impl Fn(B) -> T,
) {
    let width = c.width;
    let mut sums = [[T::zeroed(); NR]; R];
    for (r, sums) in sums.iter_mut().enumerate() {
        match tile.start {
            Start::Zero => {}
            Start::C => sums[..width].copy_from_slice(c.row(r)),
            Start::ByColumn(bias) => sums[..width].copy_from_slice(&bias[..width]),
            Start::ByRow(bias) => sums.fill(bias[r]),
        }
    }
    for (k, b) in tile.b.as_chunks::<NR>().0.iter().enumerate() {
        let b = b.map(&widen);
        for r in 0..R {
            let a = match tile.a {
                Left::Packed(a) => a[k * R + r],
                Left::Rows(a, stride) => a[r * stride + k],
            };
            for j in 0..NR {
                sums[r][j] = T::mul_add::<GENERIC_FMA>(a, b[j], sums[r][j]);
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        let row = c.row(r);
        row.copy_from_slice(&sums[..width]);
        if let Some((low, high)) = tile.clamp {
            for c in row {
                // Neither bound replaces NaN.
                let raised = if *c < low { low } else { *c };
                *c = if raised > high { high } else { raised };
            }
        }
    }
}
