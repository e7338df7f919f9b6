//! Products in f64: the tile of f32, of half as many columns.

use super::rows::Target;
use super::{Element, Matrix, Tile, Variant, vector};
use crate::Isa;

ladder! {
    // As that of f32.
    fn tile(tile: &Tile<'_, f64>, c: &mut Target<'_, f64>);
    Avx512 => avx512_8x16, Avx2 => avx2_6x8; generic
}

impl Element for f64 {
    type Activation = ();
    const ONE: Self = 1.0;
    const EVERYTHING: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);

    #[inline(always)]
    fn times(self, factor: Self) -> Self {
        self * factor
    }

    #[inline(always)]
    fn mul_add<const FMA: bool>(a: Self, b: Self, c: Self) -> Self {
        if FMA { a.mul_add(b, c) } else { a * b + c }
    }

    fn variant(isa: Isa) -> Variant {
        best(isa)
    }

    fn tile(isa: Isa, of: &Tile<'_, f64>, c: &mut Target<'_, f64>) {
        tile(isa, of, c);
    }

    fn add_products(
        isa: Isa,
        left: (&Matrix<'_, f64>, f64),
        b: &Matrix<'_, f64>,
        c: &mut [&mut [f64]],
    ) {
        vector::add_products_f64(isa, left, b, c);
    }

    fn add_dots(
        isa: Isa,
        left: (&Matrix<'_, f64>, f64),
        b: &Matrix<'_, f64>,
        c: &mut [&mut [f64]],
    ) {
        vector::add_dots_f64(isa, left, b, c);
    }

    fn as_clamp((): ()) -> Option<(f64, f64)> {
        Some(Self::EVERYTHING)
    }

    fn activate((): (), _: Isa, _: &mut [f64]) {}
}

#[cfg(test)]
mod tests {
    use crate::Isa;
    use crate::gemm_f32::tests::agrees_with_chain;

    pub(super) fn agrees_with_generic(isa: Isa) {
        agrees_with_chain::<f64>(isa, 1.0);
    }

    #[test]
    fn generic_is_the_chain() {
        agrees_with_generic(Isa::Generic);
    }
}
