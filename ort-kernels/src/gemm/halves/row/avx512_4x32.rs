//! Four panels of 32 columns: eight accumulators.

use super::{Half, Variant};
use crate::Avx512;
use crate::gemm::halves::registers::{bf16x16, f16x16};
use crate::gemv_f32::four_panels::four_panels;
use crate::isa::x86::{load16 as load, store16 as store};
use std::arch::x86_64::{
    _mm512_fmadd_ps as fmadd, _mm512_set1_ps as splat, _mm512_setzero_ps as zero,
};

pub(super) const VARIANT: Variant = Variant { name: "avx512_4x32", panels: 4, nr: 2 * LANES };
const LANES: usize = 16;

pub(super) fn tile(token: Avx512, half: Half, x: &[f32], b: &[u16], y: &mut [f32]) {
    match half {
        Half::F16 => f16::tile(token, x, b, y),
        Half::Bf16 => bf16::tile(token, x, b, y),
    }
}

mod f16 {
    #[allow(clippy::wildcard_imports, reason = "as much as the file imports")]
    use super::*;

    four_panels! { Avx512 of u16 by f16x16 }
}

mod bf16 {
    #[allow(clippy::wildcard_imports, reason = "as much as the file imports")]
    use super::*;

    four_panels! { Avx512 of u16 by bf16x16 }
}
