//! 6 rows by 16 columns: 12 accumulators, two registers of B and one broadcast of A.

use super::{Merge, Start, Variant};
use crate::Avx2;
use crate::isa::x86::{load8, store8};
use std::arch::x86_64::{
    __m256, _mm256_fmadd_ps, _mm256_max_ps, _mm256_min_ps, _mm256_set1_ps, _mm256_setzero_ps,
};

pub(super) const VARIANT: Variant = Variant { name: "avx2_6x16", mr: 6, nr: NR };
const NR: usize = 16;
const LANES: usize = 8;

pub(super) fn tile(token: Avx2, a: &[f32], b: &[f32], c: &mut [&mut [f32]], merge: &Merge<'_>) {
    super::by_rows!((c, LANES): [1 2 3 4 5 6] => rows(token, a, b, c, merge));
}

kernel! {
    /// `R` rows of at most `8·W` columns; `a: [k][R]`, `b: [k][16]`.
    Avx2 => fn rows<const R: usize, const W: usize>(
        a: &[f32],
        b: &[f32],
        c: &mut [&mut [f32]],
        merge: &Merge<'_>,
    ) {
        let mut sums = start::<R, W>(c, &merge.start);
        for (a, b) in a.as_chunks::<R>().0.iter().zip(b.as_chunks::<NR>().0) {
            let b = b.as_chunks::<LANES>().0;
            let mut lanes = [_mm256_setzero_ps(); W];
            for w in 0..W {
                lanes[w] = load8(&b[w]);
            }
            for r in 0..R {
                let a = _mm256_set1_ps(a[r]);
                for w in 0..W {
                    sums[r][w] = _mm256_fmadd_ps(a, lanes[w], sums[r][w]);
                }
            }
        }
        let (min, max) = (_mm256_set1_ps(merge.min), _mm256_set1_ps(merge.max));
        for r in 0..R {
            for w in 0..W {
                // Both return their second operand when either is NaN, so NaN passes through.
                let clamped = _mm256_min_ps(max, _mm256_max_ps(min, sums[r][w]));
                store8(&mut c[r][w * LANES..], clamped);
            }
        }
    }
}

features! { Avx2 enabled
    #[inline]
    fn start<const R: usize, const W: usize>(
        c: &[&mut [f32]],
        start: &Start<'_>,
    ) -> [[__m256; W]; R] {
        let mut sums = [[_mm256_setzero_ps(); W]; R];
        for r in 0..R {
            for w in 0..W {
                sums[r][w] = match start {
                    Start::Zero => _mm256_setzero_ps(),
                    Start::C => load8(&c[r][w * LANES..]),
                    Start::ByColumn(bias) => load8(&bias[w * LANES..]),
                    Start::ByRow(bias) => _mm256_set1_ps(bias[r]),
                };
            }
        }
        sums
    }
}
