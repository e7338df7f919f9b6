//! 6 rows by 16 columns: 12 accumulators, two registers of the image and one broadcast.

use super::{Merge, Taps, Variant};
use crate::Avx2;
use crate::isa::x86::{load8 as load, store8 as store};
use std::arch::x86_64::{
    _mm256_fmadd_ps as fmadd, _mm256_max_ps as max, _mm256_min_ps as min, _mm256_set1_ps as splat,
    _mm256_setzero_ps as zero,
};

pub(super) const VARIANT: Variant = Variant { name: "avx2_6x16", mr: 6, nr: 2 * LANES };
const LANES: usize = 8;

tiles! { Avx2, [1 2 3 4 5 6] }
