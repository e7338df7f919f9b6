//! 6 positions by 2 output blocks of 8: 12 accumulators, 2 registers of filters, one broadcast.

use super::{Form, Line, Variant};
use crate::Avx2;
use crate::epilogue::Epilogue;
use crate::isa::x86::{load8 as load, store8 as store};
use std::arch::x86_64::{
    _mm256_add_ps as add, _mm256_fmadd_ps as fmadd, _mm256_max_ps as max, _mm256_min_ps as min,
    _mm256_mul_ps as mul, _mm256_set1_ps as splat, _mm256_setzero_ps as zero,
};

pub(super) const VARIANT: Variant = Variant { name: "avx2_6x2", block: LANES, filters: 2 };
const LANES: usize = 8;

tiles! { Avx2, [1 2 3 4 5 6] x [1 2], [1 2 3 4 5 6 7 8] }
