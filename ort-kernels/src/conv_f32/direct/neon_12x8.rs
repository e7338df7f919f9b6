//! 12 rows by 8 columns: 24 accumulators, two registers of the image and one broadcast.

use super::{Merge, Taps, Variant};
use crate::Neon;
use crate::isa::simd128::{LANES, fmadd, load, max, min, splat, store, zero};

pub(super) const VARIANT: Variant = Variant { name: "neon_12x8", mr: 12, nr: 2 * LANES };

tiles! { Neon, [1 2 3 4 5 6 7 8 9 10 11 12] }
