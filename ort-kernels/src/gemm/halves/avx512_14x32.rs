//! 14 rows by 32 columns: 28 accumulators, a broadcast of A and two registers of B, the latter widened from 16 bits.

use super::Half;
use crate::Avx512;
use crate::gemm::element::Left;
use crate::gemm::rows::Place;
use crate::gemm::{FOUR, Start, Target, Tile, Variant};
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

pub(super) fn tile(token: Avx512, half: Half, tile: &Tile<'_, f32, u16>, c: &mut Target<'_>) {
    match half {
        Half::F16 => f16::tile(token, tile, c),
        Half::Bf16 => bf16::tile(token, tile, c),
    }
}

mod f16 {
    use super::super::registers::f16x16;
    #[allow(clippy::wildcard_imports, reason = "as much as the file imports")]
    use super::*;

    tiles! { Avx512, f32 of u16 by f16x16, [1 2 3 4 5 6 7 8 9 10 11 12 13 14], clamped }
}

mod bf16 {
    use super::super::registers::bf16x16;
    #[allow(clippy::wildcard_imports, reason = "as much as the file imports")]
    use super::*;

    tiles! { Avx512, f32 of u16 by bf16x16, [1 2 3 4 5 6 7 8 9 10 11 12 13 14], clamped }
}
