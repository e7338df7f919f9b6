//! 4 rows by 8 columns: 8 accumulators, two registers of the image and one broadcast.

use super::{Merge, Taps, Variant};
use crate::Simd128;
use crate::isa::simd128::{LANES, fmadd, load, max, min, splat, store, zero};

pub(super) const VARIANT: Variant = Variant { name: "simd128_4x8", mr: 4, nr: 2 * LANES };

tiles! { Simd128, [1 2 3 4] }
