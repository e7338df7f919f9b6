//! 6 positions by 4 output blocks of 16: 24 accumulators, 4 registers of filters, one broadcast.

use super::{Form, Line, Variant};
use crate::Avx512;
use crate::epilogue::Epilogue;
use crate::isa::x86::{load16 as load, store16 as store};
use std::arch::x86_64::{
    _mm512_add_ps as add, _mm512_fmadd_ps as fmadd, _mm512_max_ps as max, _mm512_min_ps as min,
    _mm512_mul_ps as mul, _mm512_set1_ps as splat, _mm512_setzero_ps as zero,
};

pub(super) const VARIANT: Variant = Variant { name: "avx512_6x4", block: LANES, filters: 4 };
const LANES: usize = 16;

tiles! { Avx512, [1 2 3 4 5 6] x [1 2 3 4], [1 2 3 4 5 6 7 8] }
