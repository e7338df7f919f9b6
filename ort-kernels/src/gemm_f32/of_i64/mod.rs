//! Products in i64: the tile of f64, of fewer rows: multiplication takes longer, and hides more.

use super::rows::Target;
use super::{Element, Matrix, Tile, Variant, vector};
use crate::Isa;

ladder! {
    // As that of f32.
    fn tile(tile: &Tile<'_, i64>, c: &mut Target<'_, i64>);
    Avx512 => avx512_8x16, Avx2 => avx2_4x8; generic
}

impl Element for i64 {
    type Activation = ();
    const ONE: Self = 1;
    const EVERYTHING: (i64, i64) = (i64::MIN, i64::MAX);

    #[inline(always)]
    fn times(self, factor: Self) -> Self {
        self.wrapping_mul(factor)
    }

    #[inline(always)]
    fn mul_add<const FMA: bool>(a: Self, b: Self, c: Self) -> Self {
        a.wrapping_mul(b).wrapping_add(c)
    }

    fn variant(isa: Isa) -> Variant {
        best(isa)
    }

    fn tile(isa: Isa, of: &Tile<'_, i64>, c: &mut Target<'_, i64>) {
        tile(isa, of, c);
    }

    fn add_products(
        isa: Isa,
        left: (&Matrix<'_, i64>, i64),
        b: &Matrix<'_, i64>,
        c: &mut [&mut [i64]],
    ) {
        vector::add_products_i64(isa, left, b, c);
    }

    fn add_dots(
        isa: Isa,
        left: (&Matrix<'_, i64>, i64),
        b: &Matrix<'_, i64>,
        c: &mut [&mut [i64]],
    ) {
        vector::add_dots_i64(isa, left, b, c);
    }

    fn as_clamp((): ()) -> Option<(i64, i64)> {
        Some(Self::EVERYTHING)
    }

    fn activate((): (), _: Isa, _: &mut [i64]) {}
}

#[cfg(test)]
mod tests {
    use crate::Isa;
    use crate::gemm_f32::tests::agrees_with_chain;

    pub(super) fn agrees_with_generic(isa: Isa) {
        agrees_with_chain::<i64>(isa, 37_i64.wrapping_pow(9));
    }

    #[test]
    fn generic_is_the_chain() {
        agrees_with_generic(Isa::Generic);
    }
}
