//! Four panels of 16 columns: eight accumulators.

use super::{Half, Variant};
use crate::Avx2;
use crate::gemm::halves::registers::{bf16x8, f16x8};
use crate::gemv_f32::four_panels::four_panels;
use crate::isa::x86::{load8 as load, store8 as store};
use std::arch::x86_64::{
    _mm256_fmadd_ps as fmadd, _mm256_set1_ps as splat, _mm256_setzero_ps as zero,
};

pub(super) const VARIANT: Variant = Variant { name: "avx2_4x16", panels: 4, nr: 2 * LANES };
const LANES: usize = 8;

pub(super) fn tile(token: Avx2, half: Half, x: &[f32], b: &[u16], y: &mut [f32]) {
    match half {
        Half::F16 => f16::tile(token, x, b, y),
        Half::Bf16 => bf16::tile(token, x, b, y),
    }
}

mod f16 {
    #[allow(clippy::wildcard_imports, reason = "as much as the file imports")]
    use super::*;

    four_panels! { Avx2 of u16 by f16x8 }
}

mod bf16 {
    #[allow(clippy::wildcard_imports, reason = "as much as the file imports")]
    use super::*;

    four_panels! { Avx2 of u16 by bf16x8 }
}
