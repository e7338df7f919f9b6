//! Four panels of 16 columns: eight accumulators, enough to hide the latency of two
//! multiply-adds per cycle.

use super::Variant;
use crate::Avx2;
use crate::isa::x86::{load8, store8};
use std::arch::x86_64::{_mm256_fmadd_ps, _mm256_set1_ps, _mm256_setzero_ps};

pub(super) const VARIANT: Variant = Variant { name: "avx2_4x16", panels: 4, nr: NR };
const NR: usize = 16;
const LANES: usize = 8;

pub(super) fn tile(token: Avx2, x: &[f32], b: &[f32], y: &mut [f32]) {
    match y.len().div_ceil(NR) {
        4 => panels::<4>(token, x, b, y),
        3 => panels::<3>(token, x, b, y),
        2 => panels::<2>(token, x, b, y),
        _ => panels::<1>(token, x, b, y),
    }
}

kernel! {
    /// At most `16·P` columns and more than `16·(P − 1)`; `b: [P][k][16]`.
    Avx2 => fn panels<const P: usize>(x: &[f32], b: &[f32], y: &mut [f32]) {
        let k = x.len();
        let mut rows = [b.as_chunks::<NR>().0; P];
        let mut sums = [[_mm256_setzero_ps(); 2]; P];
        for p in 0..P {
            rows[p] = &rows[p][p * k..][..k];
            for (w, sum) in sums[p].iter_mut().enumerate() {
                *sum = load8(y.get(p * NR + w * LANES..).unwrap_or_default());
            }
        }
        for k in 0..k {
            let x = _mm256_set1_ps(x[k]);
            for p in 0..P {
                let b = rows[p][k].as_chunks::<LANES>().0;
                for w in 0..2 {
                    sums[p][w] = _mm256_fmadd_ps(x, load8(&b[w]), sums[p][w]);
                }
            }
        }
        for (i, sum) in sums.as_flattened().iter().enumerate() {
            store8(y.get_mut(i * LANES..).unwrap_or_default(), *sum);
        }
    }
}
