//! 6 rows by 8 columns: 12 accumulators, two registers of B and one broadcast of A.

use crate::Avx2;
use crate::gemm::element::Left;
use crate::gemm::rows::Place;
use crate::gemm::{FOUR, Start, Target, Tile, Variant};
use crate::isa::x86::{load8, store8};
use crate::isa::{SECOND_LEVEL, prefetch};
use std::arch::x86_64::{
    __m256d, _mm256_castpd_ps, _mm256_castps_pd, _mm256_fmadd_pd as fmadd, _mm256_set1_pd as splat,
    _mm256_setzero_pd as zero,
};
use std::hint::black_box;

pub(super) const VARIANT: Variant = Variant { name: "avx2_6x8", mr: MR, nr: NR };
const MR: usize = 6;
const NR: usize = 2 * LANES;
const LANES: usize = 4;

features! { Avx2 enabled
    #[inline]
    fn load(x: &[f64]) -> __m256d {
        _mm256_castps_pd(load8(bytemuck::cast_slice(x)))
    }
}

features! { Avx2 enabled
    #[inline]
    fn store(x: &mut [f64], lanes: __m256d) {
        store8(bytemuck::cast_slice_mut(x), _mm256_castpd_ps(lanes));
    }
}

tiles! { Avx2, f64, [1 2 3 4 5 6], unclamped }
