//! 4 rows by 16 columns: enough accumulators to hide a multiplication.

use crate::Avx2;
use crate::gemm::element::Left;
use crate::gemm::rows::Place;
use crate::gemm::{FOUR, Start, Target, Tile, Variant};
use crate::isa::x86::{load8, store8};
use crate::isa::{SECOND_LEVEL, prefetch};
use std::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_castps_si256, _mm256_castsi256_ps, _mm256_mullo_epi32,
    _mm256_set1_epi32 as splat, _mm256_setzero_si256 as zero,
};
use std::hint::black_box;

pub(super) const VARIANT: Variant = Variant { name: "avx2_4x16", mr: MR, nr: NR };
const MR: usize = 4;
const NR: usize = 2 * LANES;
const LANES: usize = 8;

features! { Avx2 enabled
    #[inline]
    fn load(x: &[i32]) -> __m256i {
        _mm256_castps_si256(load8(bytemuck::cast_slice(x)))
    }
}

features! { Avx2 enabled
    #[inline]
    fn store(x: &mut [i32], lanes: __m256i) {
        store8(bytemuck::cast_slice_mut(x), _mm256_castsi256_ps(lanes));
    }
}

features! { Avx2 enabled
    #[inline]
    fn fmadd(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        _mm256_add_epi32(_mm256_mullo_epi32(a, b), c)
    }
}

tiles! { Avx2, i32, [1 2 3 4], unclamped }
