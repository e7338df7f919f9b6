//! 2 rows by 16 columns: the generic body, autovectorised for registers of eight lanes.

use super::{Floats, MAX_NR, Panel, Variant, generic};
use crate::Avx2;
use crate::gemm_nbits::by_rows;

pub(super) const VARIANT: Variant = Variant { name: "avx2_2x16", mr: 2, nr: NR };
const NR: usize = 16;

pub(super) fn tile_of(token: Avx2, panel: &Panel<'_>, a: &Floats<'_>, c: &mut [[f32; MAX_NR]]) {
    by_rows!(panel, c, [1 2] => sums(token, panel, a, c));
}

kernel! {
    /// `R` rows.
    Avx2 => fn sums<const R: usize, const BITS: usize, const STEP: usize>(
        panel: &Panel<'_>,
        a: &Floats<'_>,
        c: &mut [[f32; MAX_NR]],
    ) {
        generic::body::<R, BITS, STEP, NR, true>(panel, a, c);
    }
}
