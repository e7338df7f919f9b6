//! 4 rows by 8 columns: 8 accumulators, two registers of B and one broadcast of A, where the product takes a register, too.

use super::{FOUR, Left, Place, Start, Target, Tile, Variant};
use crate::Simd128;
use crate::isa::simd128::{LANES, fmadd, load, max, min, splat, store, zero};
use crate::isa::{SECOND_LEVEL, prefetch};
use std::hint::black_box;

pub(super) const VARIANT: Variant = Variant { name: "simd128_4x8", mr: MR, nr: NR };
const MR: usize = 4;
const NR: usize = 2 * LANES;

tiles! { Simd128, f32, [1 2 3 4], clamped }
