//! Two panels of 14 filters, 8 positions each: 16 accumulators.

use super::{MAX_POSITIONS, Panel, Sums, Variant};
use crate::Avx512;
use crate::isa::x86::{load16 as load, store16 as store};
use std::arch::x86_64::{
    _mm512_fmadd_ps as fmadd, _mm512_set1_ps as splat, _mm512_setzero_ps as zero,
};

pub(super) const VARIANT: Variant = Variant { name: "avx512_14x2", mr: 14 };

narrow_tiles! { Avx512, [1 2 3 4 5 6 7 8] }
