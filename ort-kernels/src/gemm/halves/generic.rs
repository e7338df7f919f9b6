//! 4 rows by 8 columns, autovectorised.

use super::Half;
use crate::gemm::{Target, Tile, Variant, generic};
use crate::vec::{bf16_to_f32, f16_to_f32};

pub(super) const VARIANT: Variant = generic::VARIANT;

pub(super) fn tile(half: Half, tile: &Tile<'_, f32, u16>, c: &mut Target<'_>) {
    match half {
        Half::F16 => generic::tile_of(tile, c, f16_to_f32),
        Half::Bf16 => generic::tile_of(tile, c, bf16_to_f32),
    }
}
