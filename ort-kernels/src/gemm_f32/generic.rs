//! 4 rows by 8 columns, left to the vectoriser: eight accumulators of four lanes.

use super::{Merge, Start, Variant};
use crate::isa::{GENERIC_FMA, mul_add};

pub(super) const VARIANT: Variant = Variant { name: "generic", mr: 4, nr: NR };
const NR: usize = 8;

pub(super) fn tile(a: &[f32], b: &[f32], c: &mut [&mut [f32]], merge: &Merge<'_>) {
    match c.len() {
        1 => rows::<1>(a, b, c, merge),
        2 => rows::<2>(a, b, c, merge),
        3 => rows::<3>(a, b, c, merge),
        _ => rows::<4>(a, b, c, merge),
    }
}

/// `R` rows of at most 8 columns; `a: [k][R]`, `b: [k][8]`.
fn rows<const R: usize>(a: &[f32], b: &[f32], c: &mut [&mut [f32]], merge: &Merge<'_>) {
    let width = c[0].len();
    let mut sums = [[0.0; NR]; R];
    for (r, sums) in sums.iter_mut().enumerate() {
        match merge.start {
            Start::Zero => {}
            Start::C => sums[..width].copy_from_slice(c[r]),
            Start::ByColumn(bias) => sums[..width].copy_from_slice(&bias[..width]),
            Start::ByRow(bias) => sums.fill(bias[r]),
        }
    }
    for (a, b) in a.as_chunks::<R>().0.iter().zip(b.as_chunks::<NR>().0) {
        for r in 0..R {
            for j in 0..NR {
                sums[r][j] = mul_add::<GENERIC_FMA>(a[r], b[j], sums[r][j]);
            }
        }
    }
    for (c, sums) in c.iter_mut().zip(&sums) {
        for (c, &sum) in c.iter_mut().zip(sums) {
            let low = if sum < merge.min { merge.min } else { sum };
            *c = if low > merge.max { merge.max } else { low };
        }
    }
}
