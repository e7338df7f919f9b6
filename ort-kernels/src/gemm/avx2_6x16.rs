//! 6 rows by 16 columns: 12 accumulators, two registers of B and one broadcast of A.

use super::{FOUR, Left, Place, Start, Target, Tile, Variant};
use crate::Avx2;
use crate::isa::x86::{load8 as load, store8 as store};
use crate::isa::{SECOND_LEVEL, prefetch};
use std::arch::x86_64::{
    _mm256_fmadd_ps as fmadd, _mm256_max_ps as max, _mm256_min_ps as min, _mm256_set1_ps as splat,
    _mm256_setzero_ps as zero,
};
use std::hint::black_box;

pub(super) const VARIANT: Variant = Variant { name: "avx2_6x16", mr: MR, nr: NR };
const MR: usize = 6;
const NR: usize = 2 * LANES;
const LANES: usize = 8;

tiles! { Avx2, f32, [1 2 3 4 5 6], clamped }
