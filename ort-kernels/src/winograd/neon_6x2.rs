//! 6 tiles by 2 output blocks of 8: 24 accumulators of four lanes, 4 registers of filters, one broadcast.

use super::strip::{Outputs, Product};
use super::{AHEAD, Strip, TILE, Variant, eight, five, six};
use crate::Neon;
use crate::epilogue::Epilogue;
use crate::isa::simd128::pair::{
    LANES, Vector, add, fmadd, fnmadd, is_zero, load, max, min, mul, splat, store, sub, zero,
};
use crate::isa::{FIRST_LEVEL, prefetch};

pub(super) const VARIANT: Variant = Variant { name: "neon_6x2", block: LANES, filters: 2 };

winograd! { Neon, [1 2 3 4 5 6] x [1 2] }
