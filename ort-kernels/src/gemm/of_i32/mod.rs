//! Products in i32: like the f32 tile, with fewer rows, because multiplication has a longer latency.

use super::element::plain_element;
use super::rows::Target;
use super::{Element, Matrix, Tile, Variant, vector};
use crate::Isa;

ladder! {
    // Same contract as in f32.
    fn tile(tile: &Tile<'_, i32>, c: &mut Target<'_, i32>);
    Avx512 => avx512_8x32, Avx2 => avx2_4x16; generic
}

plain_element! {
    i32: 1, (i32::MIN, i32::MAX),
    times: |x, factor| x.wrapping_mul(factor),
    mul_add::<_FMA>: |a, b, c| a.wrapping_mul(b).wrapping_add(c),
    rows: add_products_i32, columns: add_dots_i32,
    fn transpose(isa: Isa, size: [usize; 2], x: (&[i32], usize), y: (&mut [i32], usize)) {
        // Copies bits, whatever the type.
        let (from, to) = (bytemuck::cast_slice(x.0), bytemuck::cast_slice_mut(y.0));
        crate::transpose::transpose(isa, size, (from, x.1), (to, y.1));
    }
}

#[cfg(test)]
mod tests {
    use crate::Isa;
    use crate::gemm::tests::agrees_with_chain;

    pub(super) fn agrees_with_generic(isa: Isa) {
        agrees_with_chain::<i32>(isa, 37_i32.wrapping_pow(9));
    }

    #[test]
    fn generic_is_the_chain() {
        agrees_with_generic(Isa::Generic);
    }
}
