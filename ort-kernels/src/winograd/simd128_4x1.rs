//! 4 tiles by 1 output block of 8: 8 accumulators of four lanes, 2 registers of filters, one broadcast.

use super::strip::{Outputs, Product};
use super::{AHEAD, Strip, TILE, Variant, eight, five, six};
use crate::Simd128;
use crate::epilogue::Epilogue;
use crate::isa::simd128::pair::{
    LANES, Vector, add, fmadd, fnmadd, is_zero, load, max, min, mul, splat, store, sub, zero,
};
use crate::isa::{FIRST_LEVEL, prefetch};

pub(super) const VARIANT: Variant = Variant { name: "simd128_4x1", block: LANES, filters: 1 };

winograd! { Simd128, [1 2 3 4] x [1] }
