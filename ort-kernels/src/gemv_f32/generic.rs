//! Two panels of 8 columns, autovectorised: four accumulators of four lanes.

use super::Variant;
use crate::isa::{GENERIC_FMA, mul_add};

pub(super) const VARIANT: Variant = Variant { name: "generic", panels: 2, nr: NR };
const NR: usize = 8;

pub(super) fn tile(x: &[f32], b: &[f32], y: &mut [f32]) {
    match y.len() {
        0..=NR => panels::<1>(x, b, y),
        _ => panels::<2>(x, b, y),
    }
}

/// At most `8·P` columns; `b: [P][k][8]`.
fn panels<const P: usize>(x: &[f32], b: &[f32], y: &mut [f32]) {
    let b = b.as_chunks::<NR>().0;
    let mut sums = [[0.0; NR]; P];
    sums.as_flattened_mut()[..y.len()].copy_from_slice(y);
    for (k, &factor) in x.iter().enumerate() {
        for p in 0..P {
            for j in 0..NR {
                sums[p][j] = mul_add::<GENERIC_FMA>(factor, b[p * x.len() + k][j], sums[p][j]);
            }
        }
    }
    y.copy_from_slice(&sums.as_flattened()[..y.len()]);
}
