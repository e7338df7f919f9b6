//! Two panels of 32 columns: four accumulators, matching one load per cycle.

use super::Variant;
use crate::Avx512;
use crate::isa::x86::{load16, store16};
use std::arch::x86_64::{_mm512_fmadd_ps, _mm512_set1_ps};

pub(super) const VARIANT: Variant = Variant { name: "avx512_2x32", panels: 2, nr: NR };
const NR: usize = 32;
const LANES: usize = 16;

pub(super) fn tile(token: Avx512, x: &[f32], b: &[f32], y: &mut [f32]) {
    match y.len().div_ceil(LANES) {
        1 => panel::<1>(token, x, b, y),
        2 => panel::<2>(token, x, b, y),
        _ => two_panels(token, x, b, y),
    }
}

kernel! {
    /// At most `16·W` columns; `b: [k][32]`.
    Avx512 => fn panel<const W: usize>(x: &[f32], b: &[f32], y: &mut [f32]) {
        let mut sums = [_mm512_set1_ps(0.0); W];
        for w in 0..W {
            sums[w] = load16(&y[w * LANES..]);
        }
        for (x, b) in x.iter().zip(b.as_chunks::<NR>().0) {
            let (x, b) = (_mm512_set1_ps(*x), b.as_chunks::<LANES>().0);
            for w in 0..W {
                sums[w] = _mm512_fmadd_ps(x, load16(&b[w]), sums[w]);
            }
        }
        for w in 0..W {
            store16(&mut y[w * LANES..], sums[w]);
        }
    }
}

kernel! {
    /// 33 to 64 columns; `b: [2][k][32]`.
    Avx512 => fn two_panels(x: &[f32], b: &[f32], y: &mut [f32]) {
        let (left, right) = y.split_at_mut(NR);
        let mut left_sums = [load16(left), load16(&left[LANES..])];
        let mut right_sums = [load16(right), load16(right.get(LANES..).unwrap_or_default())];
        let (b, c) = b.split_at(x.len() * NR);
        for ((x, b), c) in x.iter().zip(b.as_chunks::<NR>().0).zip(c.as_chunks::<NR>().0) {
            let x = _mm512_set1_ps(*x);
            let (b, c) = (b.as_chunks::<LANES>().0, c.as_chunks::<LANES>().0);
            for w in 0..2 {
                left_sums[w] = _mm512_fmadd_ps(x, load16(&b[w]), left_sums[w]);
                right_sums[w] = _mm512_fmadd_ps(x, load16(&c[w]), right_sums[w]);
            }
        }
        store16(left, left_sums[0]);
        store16(&mut left[LANES..], left_sums[1]);
        store16(right, right_sums[0]);
        store16(right.get_mut(LANES..).unwrap_or_default(), right_sums[1]);
    }
}
