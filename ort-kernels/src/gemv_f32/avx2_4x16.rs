//! Four panels of 16 columns: eight accumulators, enough to hide the latency of two
//! multiply-adds per cycle.

use super::Variant;
use crate::Avx2;
use crate::isa::x86::{load8 as load, store8 as store};
use std::arch::x86_64::{
    _mm256_fmadd_ps as fmadd, _mm256_set1_ps as splat, _mm256_setzero_ps as zero,
};

pub(super) const VARIANT: Variant = Variant { name: "avx2_4x16", panels: 4, nr: NR };
const LANES: usize = 8;

four_panels! { Avx2 }
