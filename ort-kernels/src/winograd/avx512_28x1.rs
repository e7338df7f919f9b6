//! 28 tiles by one output block of 16: 28 accumulators, one register of filters, and broadcasts as memory operands
//! of multiply-adds. So filters, which come from far caches, are read for as many tiles as
//! possible.

use super::strip::{Outputs, Product};
use super::{AHEAD, Strip, TILE, Variant, eight, five, six};
use crate::Avx512;
use crate::epilogue::Epilogue;
use crate::isa::x86::{load16 as load, store16 as store};
use crate::isa::{FIRST_LEVEL, prefetch};
use std::arch::x86_64::{
    __m512 as Vector, _CMP_EQ_OQ, _mm512_add_ps as add, _mm512_cmp_ps_mask,
    _mm512_fmadd_ps as fmadd, _mm512_fnmadd_ps as fnmadd, _mm512_max_ps as max,
    _mm512_min_ps as min, _mm512_mul_ps as mul, _mm512_set1_ps as splat, _mm512_setzero_ps as zero,
    _mm512_sub_ps as sub,
};

pub(super) const VARIANT: Variant = Variant { name: "avx512_28x1", block: LANES, filters: 1 };
const LANES: usize = 16;

features! { Avx512 enabled
    /// Whether every lane is zero.
    #[inline]
    fn is_zero(x: Vector) -> bool {
        _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(x, zero()) == u16::MAX
    }
}

winograd! {
    Avx512,
    [1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28] x [1]
}
