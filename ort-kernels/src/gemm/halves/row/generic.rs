//! A panel of 8 columns, autovectorised.

use super::{Half, Variant};
use crate::isa::{GENERIC_FMA, mul_add};
use crate::vec::{bf16_to_f32, f16_to_f32};

pub(super) const VARIANT: Variant = Variant { name: "generic", panels: 1, nr: NR };
const NR: usize = 8;

pub(super) fn tile(half: Half, x: &[f32], b: &[u16], y: &mut [f32]) {
    match half {
        Half::F16 => panel(x, b, y, f16_to_f32),
        Half::Bf16 => panel(x, b, y, bf16_to_f32),
    }
}

fn panel(x: &[f32], b: &[u16], y: &mut [f32], widen: impl Fn(u16) -> f32) {
    let mut sums = [0.0; NR];
    sums[..y.len()].copy_from_slice(y);
    for (x, b) in x.iter().zip(b.as_chunks::<NR>().0) {
        for j in 0..NR {
            sums[j] = mul_add::<GENERIC_FMA>(*x, widen(b[j]), sums[j]);
        }
    }
    y.copy_from_slice(&sums[..y.len()]);
}
