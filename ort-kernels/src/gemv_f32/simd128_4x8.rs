//! Four panels of 8 columns: eight accumulators, enough to hide the latency of two multiply-adds per cycle.

use super::Variant;
use crate::Simd128;
use crate::isa::simd128::{LANES, fmadd, load, splat, store, zero};

pub(super) const VARIANT: Variant = Variant { name: "simd128_4x8", panels: 4, nr: NR };

four_panels! { Simd128 }
