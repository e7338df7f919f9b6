//! 8 rows by 16 columns: enough accumulators to hide a multiplication.

use crate::Avx512;
use crate::gemm::element::Left;
use crate::gemm::rows::Place;
use crate::gemm::{FOUR, Start, Target, Tile, Variant};
use crate::isa::x86::{load16, store16};
use crate::isa::{SECOND_LEVEL, prefetch};
use std::arch::x86_64::{
    __m512i, _mm512_add_epi64, _mm512_castps_si512, _mm512_castsi512_ps, _mm512_mullo_epi64,
    _mm512_set1_epi64 as splat, _mm512_setzero_si512 as zero,
};
use std::hint::black_box;

pub(super) const VARIANT: Variant = Variant { name: "avx512_8x16", mr: MR, nr: NR };
const MR: usize = 8;
const NR: usize = 2 * LANES;
const LANES: usize = 8;

features! { Avx512 enabled
    #[inline]
    fn load(x: &[i64]) -> __m512i {
        _mm512_castps_si512(load16(bytemuck::cast_slice(x)))
    }
}

features! { Avx512 enabled
    #[inline]
    fn store(x: &mut [i64], lanes: __m512i) {
        store16(bytemuck::cast_slice_mut(x), _mm512_castsi512_ps(lanes));
    }
}

features! { Avx512 enabled
    #[inline]
    fn fmadd(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        _mm512_add_epi64(_mm512_mullo_epi64(a, b), c)
    }
}

tiles! { Avx512, i64, [1 2 3 4 5 6 7 8], unclamped }
