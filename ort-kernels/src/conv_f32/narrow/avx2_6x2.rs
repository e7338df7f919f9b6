//! Two panels of 6 filters, 4 positions each: 8 accumulators.

use super::{MAX_POSITIONS, Panel, Sums, Variant};
use crate::Avx2;
use crate::isa::x86::{load8 as load, store8 as store};
use std::arch::x86_64::{
    _mm256_fmadd_ps as fmadd, _mm256_set1_ps as splat, _mm256_setzero_ps as zero,
};

pub(super) const VARIANT: Variant = Variant { name: "avx2_6x2", mr: 6 };

narrow_tiles! { Avx2, [1 2 3 4 5 6 7 8] }
