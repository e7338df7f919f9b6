//! 14 rows by 32 columns: 28 accumulators, two registers of B and one broadcast of A.

use super::{Merge, Start, Variant};
use crate::Avx512;
use crate::isa::x86::{load16, store16};
use std::arch::x86_64::{
    __m512, _mm512_fmadd_ps, _mm512_max_ps, _mm512_min_ps, _mm512_set1_ps, _mm512_setzero_ps,
};

pub(super) const VARIANT: Variant = Variant { name: "avx512_14x32", mr: 14, nr: NR };
const NR: usize = 32;
const LANES: usize = 16;

pub(super) fn tile(token: Avx512, a: &[f32], b: &[f32], c: &mut [&mut [f32]], merge: &Merge<'_>) {
    super::by_rows!((c, LANES): [1 2 3 4 5 6 7 8 9 10 11 12 13 14] => rows(token, a, b, c, merge));
}

kernel! {
    /// `R` rows of at most `16·W` columns; `a: [k][R]`, `b: [k][32]`.
    Avx512 => fn rows<const R: usize, const W: usize>(
        a: &[f32],
        b: &[f32],
        c: &mut [&mut [f32]],
        merge: &Merge<'_>,
    ) {
        let mut sums = start::<R, W>(c, &merge.start);
        for (a, b) in a.as_chunks::<R>().0.iter().zip(b.as_chunks::<NR>().0) {
            let b = b.as_chunks::<LANES>().0;
            let mut lanes = [_mm512_setzero_ps(); W];
            for w in 0..W {
                lanes[w] = load16(&b[w]);
            }
            for r in 0..R {
                let a = _mm512_set1_ps(a[r]);
                for w in 0..W {
                    sums[r][w] = _mm512_fmadd_ps(a, lanes[w], sums[r][w]);
                }
            }
        }
        let (min, max) = (_mm512_set1_ps(merge.min), _mm512_set1_ps(merge.max));
        for r in 0..R {
            for w in 0..W {
                // Both return their second operand when either is NaN, so NaN passes through.
                let clamped = _mm512_min_ps(max, _mm512_max_ps(min, sums[r][w]));
                store16(&mut c[r][w * LANES..], clamped);
            }
        }
    }
}

features! { Avx512 enabled
    #[inline]
    fn start<const R: usize, const W: usize>(
        c: &[&mut [f32]],
        start: &Start<'_>,
    ) -> [[__m512; W]; R] {
        let mut sums = [[_mm512_setzero_ps(); W]; R];
        for r in 0..R {
            for w in 0..W {
                sums[r][w] = match start {
                    Start::Zero => _mm512_setzero_ps(),
                    Start::C => load16(&c[r][w * LANES..]),
                    Start::ByColumn(bias) => load16(&bias[w * LANES..]),
                    Start::ByRow(bias) => _mm512_set1_ps(bias[r]),
                };
            }
        }
        sums
    }
}
