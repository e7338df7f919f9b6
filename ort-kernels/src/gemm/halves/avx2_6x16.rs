//! 6 rows by 16 columns: 12 accumulators, a broadcast of A and two registers of B, the latter widened from 16 bits.

use super::Half;
use crate::Avx2;
use crate::gemm::element::Left;
use crate::gemm::rows::Place;
use crate::gemm::{FOUR, Start, Target, Tile, Variant};
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

pub(super) fn tile(token: Avx2, half: Half, tile: &Tile<'_, f32, u16>, c: &mut Target<'_>) {
    match half {
        Half::F16 => f16::tile(token, tile, c),
        Half::Bf16 => bf16::tile(token, tile, c),
    }
}

mod f16 {
    use super::super::registers::f16x8;
    #[allow(clippy::wildcard_imports, reason = "as much as the file imports")]
    use super::*;

    tiles! { Avx2, f32 of u16 by f16x8, [1 2 3 4 5 6], clamped }
}

mod bf16 {
    use super::super::registers::bf16x8;
    #[allow(clippy::wildcard_imports, reason = "as much as the file imports")]
    use super::*;

    tiles! { Avx2, f32 of u16 by bf16x8, [1 2 3 4 5 6], clamped }
}
