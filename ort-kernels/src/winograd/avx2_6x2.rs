//! 6 tiles by 2 output blocks of 8: 12 accumulators, 2 registers of filters, one broadcast.

use super::strip::{Outputs, Product};
use super::{AHEAD, Strip, TILE, Variant, eight, five, six};
use crate::Avx2;
use crate::epilogue::Epilogue;
use crate::isa::x86::{load8 as load, store8 as store};
use crate::isa::{FIRST_LEVEL, prefetch};
use std::arch::x86_64::{
    __m256 as Vector, _CMP_EQ_OQ, _mm256_add_ps as add, _mm256_cmp_ps, _mm256_fmadd_ps as fmadd,
    _mm256_fnmadd_ps as fnmadd, _mm256_max_ps as max, _mm256_min_ps as min, _mm256_movemask_ps,
    _mm256_mul_ps as mul, _mm256_set1_ps as splat, _mm256_setzero_ps as zero, _mm256_sub_ps as sub,
};

pub(super) const VARIANT: Variant = Variant { name: "avx2_6x2", block: LANES, filters: 2 };
const LANES: usize = 8;

features! { Avx2 enabled
    /// Whether every lane is zero.
    #[inline]
    fn is_zero(x: Vector) -> bool {
        _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_EQ_OQ>(x, zero())) == 0xff
    }
}

winograd! { Avx2, [1 2 3 4 5 6] x [1 2] }
