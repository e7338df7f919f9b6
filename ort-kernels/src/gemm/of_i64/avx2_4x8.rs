//! 4 rows by 8 columns: enough accumulators to hide a multiplication.

use crate::Avx2;
use crate::gemm::element::Left;
use crate::gemm::rows::Place;
use crate::gemm::{FOUR, Start, Target, Tile, Variant};
use crate::isa::x86::{load8, store8};
use crate::isa::{SECOND_LEVEL, prefetch};
use std::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_add_epi64, _mm256_castps_si256, _mm256_castsi256_ps,
    _mm256_mul_epu32, _mm256_mullo_epi32, _mm256_set1_epi64x as splat,
    _mm256_setzero_si256 as zero, _mm256_shuffle_epi32, _mm256_slli_epi64,
};
use std::hint::black_box;

pub(super) const VARIANT: Variant = Variant { name: "avx2_4x8", mr: MR, nr: NR };
const MR: usize = 4;
const NR: usize = 2 * LANES;
const LANES: usize = 4;

features! { Avx2 enabled
    #[inline]
    fn load(x: &[i64]) -> __m256i {
        _mm256_castps_si256(load8(bytemuck::cast_slice(x)))
    }
}

features! { Avx2 enabled
    #[inline]
    fn store(x: &mut [i64], lanes: __m256i) {
        store8(bytemuck::cast_slice_mut(x), _mm256_castsi256_ps(lanes));
    }
}

features! { Avx2 enabled
    #[inline]
    fn fmadd(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        // 2³² times the products of a low and a high half, and the product of the low halves.
        let crossed = _mm256_mullo_epi32(a, _mm256_shuffle_epi32::<0b_10_11_00_01>(b));
        let crossed = _mm256_add_epi32(crossed, _mm256_shuffle_epi32::<0b_10_11_00_01>(crossed));
        let product = _mm256_add_epi64(_mm256_mul_epu32(a, b), _mm256_slli_epi64::<32>(crossed));
        _mm256_add_epi64(product, c)
    }
}

tiles! { Avx2, i64, [1 2 3 4], unclamped }
