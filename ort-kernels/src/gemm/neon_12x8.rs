//! 12 rows by 8 columns: 24 accumulators, two registers of B and one broadcast of A.

use super::{FOUR, Left, Place, Start, Target, Tile, Variant};
use crate::Neon;
use crate::isa::simd128::{LANES, fmadd, load, max, min, splat, store, zero};
use crate::isa::{SECOND_LEVEL, prefetch};
use std::hint::black_box;

pub(super) const VARIANT: Variant = Variant { name: "neon_12x8", mr: MR, nr: NR };
const MR: usize = 12;
const NR: usize = 2 * LANES;

tiles! { Neon, f32, [1 2 3 4 5 6 7 8 9 10 11 12], clamped }
