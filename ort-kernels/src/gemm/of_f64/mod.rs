//! Products in f64: like the f32 tile, with half as many columns.

mod row;

use super::element::plain_element;
use super::rows::Target;
use super::{Element, Matrix, Tile, Variant, vector};
use crate::Isa;

pub use row::add_row_times_panels;

ladder! {
    // Same contract as in f32.
    fn tile(tile: &Tile<'_, f64>, c: &mut Target<'_, f64>);
    Avx512 => avx512_8x16, Avx2 => avx2_6x8; generic
}

plain_element! {
    f64: 1.0, (f64::NEG_INFINITY, f64::INFINITY),
    times: |x, factor| x * factor,
    mul_add::<FMA>: |a, b, c| if FMA { a.mul_add(b, c) } else { a * b + c },
    rows: add_products_f64, columns: add_dots_f64
}

#[cfg(test)]
mod tests {
    use crate::Isa;
    use crate::gemm::tests::agrees_with_chain;

    pub(super) fn agrees_with_generic(isa: Isa) {
        agrees_with_chain::<f64>(isa, 1.0);
    }

    #[test]
    fn generic_is_the_chain() {
        agrees_with_generic(Isa::Generic);
    }
}
