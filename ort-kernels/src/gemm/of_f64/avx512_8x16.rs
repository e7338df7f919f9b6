//! 8 rows by 16 columns: 16 accumulators, enough to hide a multiply-add, and two registers of B.

use crate::Avx512;
use crate::gemm::element::Left;
use crate::gemm::rows::Place;
use crate::gemm::{FOUR, Start, Target, Tile, Variant};
use crate::isa::x86::{load16, store16};
use crate::isa::{SECOND_LEVEL, prefetch};
use std::arch::x86_64::{
    __m512d, _mm512_castpd_ps, _mm512_castps_pd, _mm512_fmadd_pd as fmadd, _mm512_set1_pd as splat,
    _mm512_setzero_pd as zero,
};
use std::hint::black_box;

pub(super) const VARIANT: Variant = Variant { name: "avx512_8x16", mr: MR, nr: NR };
const MR: usize = 8;
const NR: usize = 2 * LANES;
const LANES: usize = 8;

features! { Avx512 enabled
    #[inline]
    fn load(x: &[f64]) -> __m512d {
        _mm512_castps_pd(load16(bytemuck::cast_slice(x)))
    }
}

features! { Avx512 enabled
    #[inline]
    fn store(x: &mut [f64], lanes: __m512d) {
        store16(bytemuck::cast_slice_mut(x), _mm512_castpd_ps(lanes));
    }
}

tiles! { Avx512, f64, [1 2 3 4 5 6 7 8], unclamped }
