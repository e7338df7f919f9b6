//! Products in f32, the type with the most kernels.

use super::element::RowTimesPanels;
use super::halves::row::add_row_times_halves;
use super::rows::Target;
use super::{
    Element, Gemm, Half, Matrix, Panels, Region, Rows, Stored, Tile, Variant, best, dots, halves,
    tile, vector,
};
use crate::gemv_f32::{Walk, add_row_times_panels};
use crate::transpose::transpose;
use crate::{Activation, Isa, isa};

impl Element for f32 {
    type Activation = Activation;
    const ONE: Self = 1.0;
    const EVERYTHING: (f32, f32) = (f32::NEG_INFINITY, f32::INFINITY);
    const ROW_TIMES_PANELS: Option<RowTimesPanels<f32>> = Some(|isa, a, b, c| match b {
        Stored::Whole(b) => add_row_times_panels(isa, a, b, c, Walk::Forward),
        Stored::Halves(b, half) => add_row_times_halves(isa, a, (b, half), c),
    });

    #[inline(always)]
    fn times(self, factor: Self) -> Self {
        self * factor
    }

    #[inline(always)]
    fn mul_add<const FMA: bool>(a: Self, b: Self, c: Self) -> Self {
        isa::mul_add::<FMA>(a, b, c)
    }

    fn variant(isa: Isa) -> Variant {
        best(isa)
    }

    fn tile(isa: Isa, of: &Tile<'_>, c: &mut Target<'_>) {
        tile(isa, of, c);
    }

    fn tile_of_halves(isa: Isa, half: Half, of: &Tile<'_, f32, u16>, c: &mut Target<'_>) {
        halves::tile_of_halves(isa, half, of, c);
    }

    fn add_products(isa: Isa, left: (&Matrix<'_>, f32), b: &Matrix<'_>, c: &mut [&mut [f32]]) {
        vector::add_products(isa, left, b, c, !isa.fetches_ahead());
    }

    fn add_dots(isa: Isa, left: (&Matrix<'_>, f32), b: &Matrix<'_>, c: &mut [&mut [f32]]) {
        dots::add_dots(isa, left, b, c);
    }

    fn transpose(isa: Isa, size: [usize; 2], x: (&[f32], usize), y: (&mut [f32], usize)) {
        transpose(isa, size, x, y);
    }

    fn as_clamp(activation: Activation) -> Option<(f32, f32)> {
        activation.as_clamp()
    }

    fn activate(activation: Activation, isa: Isa, row: &mut [f32]) {
        activation.apply(isa, row);
    }

    fn is_tiled<B: Panels>(gemm: &Gemm<'_, B>) -> bool {
        gemm.is_tiled()
    }

    fn tiled_scratch_len<B: Panels>(gemm: &Gemm<'_, B>, rows: usize) -> usize {
        gemm.isa.amx().map_or(0, |_| gemm.tiled_scratch_len(rows))
    }

    fn run_on_tiles<B: Panels>(
        gemm: &Gemm<'_, B>,
        region: &Region,
        c: &mut (impl Rows + ?Sized),
        scratch: &mut [f32],
    ) {
        gemm.run_on_tiles(region, c, scratch);
    }
}
