//! 6 positions by 2 output blocks of 8: 24 accumulators of four lanes, 4 registers of filters, one broadcast.

use super::{Form, Line, Variant};
use crate::Neon;
use crate::epilogue::Epilogue;
use crate::isa::simd128::pair::{LANES, add, fmadd, load, max, min, mul, splat, store, zero};

pub(super) const VARIANT: Variant = Variant { name: "neon_6x2", block: LANES, filters: 2 };

tiles! { Neon, [1 2 3 4 5 6] x [1 2], [1 2 3 4 5 6 7 8] }
