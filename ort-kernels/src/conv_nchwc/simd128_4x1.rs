//! 4 positions by 1 output block of 8: 8 accumulators of four lanes, 2 registers of filters, one broadcast.

use super::{Form, Line, Variant};
use crate::Simd128;
use crate::epilogue::Epilogue;
use crate::isa::simd128::pair::{LANES, add, fmadd, load, max, min, mul, splat, store, zero};

pub(super) const VARIANT: Variant = Variant { name: "simd128_4x1", block: LANES, filters: 1 };

tiles! { Simd128, [1 2 3 4] x [1], [1 2 3 4] }
