//! Products in i64: like the f64 tile, with fewer rows, because multiplication has a longer latency.

use super::element::plain_element;
use super::rows::Target;
use super::{Element, Matrix, Tile, Variant, vector};
use crate::Isa;

ladder! {
    // Same contract as in f32.
    fn tile(tile: &Tile<'_, i64>, c: &mut Target<'_, i64>);
    Avx512 => avx512_8x16, Avx2 => avx2_4x8; generic
}

plain_element! {
    i64: 1, (i64::MIN, i64::MAX),
    times: |x, factor| x.wrapping_mul(factor),
    mul_add::<_FMA>: |a, b, c| a.wrapping_mul(b).wrapping_add(c),
    rows: add_products_i64, columns: add_dots_i64
}

#[cfg(test)]
mod tests {
    use crate::Isa;
    use crate::gemm::tests::agrees_with_chain;

    pub(super) fn agrees_with_generic(isa: Isa) {
        agrees_with_chain::<i64>(isa, 37_i64.wrapping_pow(9));
    }

    #[test]
    fn generic_is_the_chain() {
        agrees_with_generic(Isa::Generic);
    }
}
