//! 14 rows by 32 columns: 28 accumulators, two registers of B and one broadcast of A.

use super::{FOUR, Left, Place, Start, Target, Tile, Variant};
use crate::Avx512;
use crate::isa::x86::{load16 as load, store16 as store};
use crate::isa::{SECOND_LEVEL, prefetch};
use std::arch::x86_64::{
    _mm512_fmadd_ps as fmadd, _mm512_max_ps as max, _mm512_min_ps as min, _mm512_set1_ps as splat,
    _mm512_setzero_ps as zero,
};
use std::hint::black_box;

pub(super) const VARIANT: Variant = Variant { name: "avx512_14x32", mr: MR, nr: NR };
const MR: usize = 14;
const NR: usize = 2 * LANES;
const LANES: usize = 16;

tiles! { Avx512, f32, [1 2 3 4 5 6 7 8 9 10 11 12 13 14], clamped }
