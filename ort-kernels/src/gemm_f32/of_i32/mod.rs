//! Products in i32: the tile of f32, of fewer rows: multiplication takes longer, and hides more.

use super::rows::Target;
use super::{Element, Matrix, Tile, Variant, vector};
use crate::Isa;

ladder! {
    // As that of f32.
    fn tile(tile: &Tile<'_, i32>, c: &mut Target<'_, i32>);
    Avx512 => avx512_8x32, Avx2 => avx2_4x16; generic
}

impl Element for i32 {
    type Activation = ();
    const ONE: Self = 1;
    const EVERYTHING: (i32, i32) = (i32::MIN, i32::MAX);

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

    fn tile(isa: Isa, of: &Tile<'_, i32>, c: &mut Target<'_, i32>) {
        tile(isa, of, c);
    }

    fn add_products(
        isa: Isa,
        left: (&Matrix<'_, i32>, i32),
        b: &Matrix<'_, i32>,
        c: &mut [&mut [i32]],
    ) {
        vector::add_products_i32(isa, left, b, c);
    }

    fn add_dots(
        isa: Isa,
        left: (&Matrix<'_, i32>, i32),
        b: &Matrix<'_, i32>,
        c: &mut [&mut [i32]],
    ) {
        vector::add_dots_i32(isa, left, b, c);
    }

    fn transpose(isa: Isa, size: [usize; 2], x: (&[i32], usize), y: (&mut [i32], usize)) {
        // Bits that are moved are not looked at.
        let (from, to) = (bytemuck::cast_slice(x.0), bytemuck::cast_slice_mut(y.0));
        crate::transpose::transpose(isa, size, (from, x.1), (to, y.1));
    }

    fn as_clamp((): ()) -> Option<(i32, i32)> {
        Some(Self::EVERYTHING)
    }

    fn activate((): (), _: Isa, _: &mut [i32]) {}
}

#[cfg(test)]
mod tests {
    use crate::Isa;
    use crate::gemm_f32::tests::agrees_with_chain;

    pub(super) fn agrees_with_generic(isa: Isa) {
        agrees_with_chain::<i32>(isa, 37_i32.wrapping_pow(9));
    }

    #[test]
    fn generic_is_the_chain() {
        agrees_with_generic(Isa::Generic);
    }
}
