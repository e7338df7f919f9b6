//! LookupProjection: looked-up rows that are multiplied by a matrix are looked up in the product instead.
//!
//! ```text
//! MatMul(Gather(table, i), W) = Gather(MatMul(table, W), i)
//! ```
//! ConstantFolding makes a constant of the product. Otherwise, a decoder that looks up the embedding of its last
//! token and projects it reads all of W at each step. The product takes memory, so it may not be much larger than
//! what it replaces. Our own pass: ONNX Runtime has no equivalent.

use ort_ops::ops::gather::Gather;

use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::{constant, op, var};
use crate::rule::{Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "LookupProjection",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || {
        let (table, matrix, i) = (constant("table"), constant("matrix"), var("i"));
        let rows = op("Gather", [table.clone(), i.clone()]);
        let find = op("MatMul", [rows, matrix.clone()]);
        let product = op("MatMul", [table, matrix]);
        Rules::start([rule(find, op("Gather", [product, i])).when(is_small)])
    },
};

/// The largest product that is computed, in bytes.
const PRODUCT_BYTES: usize = 4 << 20;

fn is_small(found: &Match<'_>) -> Result<(), Refusal> {
    let [table, matrix] = ["table", "matrix"].map(|name| found.constant(name));
    let (Some(table), Some(matrix)) = (table, matrix) else { return Err(NO_MATRIX) };
    let (&[n_rows, _], &[_, width]) = (table.shape(), matrix.shape()) else {
        return Err(NO_MATRIX);
    };
    if !found.node("Gather").operator::<Gather>().is_some_and(|op| matches!(op.axis, 0 | -2)) {
        return Err(Refusal("it looks up columns"));
    }
    let product = n_rows.checked_mul(width).and_then(|n| table.dtype().n_bytes(n));
    let most = PRODUCT_BYTES.min(2 * (table.n_bytes() + matrix.n_bytes()));
    match product {
        Some(n_bytes) if n_bytes <= most => Ok(()),
        _ => Err(Refusal("the product of the whole table is large")),
    }
}

const NO_MATRIX: Refusal = Refusal("the table or its factor is not a matrix");

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::{assert_optimized, assert_rewritten};

    #[test]
    fn the_product_is_looked_up() {
        assert_rewritten(
            super::PASS,
            "graph(i: int64[n,2]) -> (y) {
               table = const float[3,2] [1, -2, 3, 0.5, -0.25, 7]
               w = const float[2,1] [0.5, 4]
               rows = Gather-13 (table, i)
               y = MatMul-13 (rows, w)
             }",
            &expect![[r#"
                graph(i: int64[n,2]) -> (y) {
                  table = const float[3,2] [1, -2, 3, 0.5, -0.25, 7]
                  w = const float[2,1] [0.5, 4]
                  value = MatMul-13 (table, w)
                  y = Gather-13 (value, i)
                }"#]],
        );
    }

    #[test]
    fn lookups_of_columns_and_large_products_stay() {
        assert_optimized(
            super::PASS,
            "graph(i: int64[2]) -> (y, z) {
               table = const float[3,3] [1, -2, 3, 0.5, -0.25, 7, 2, 4, 6]
               w = const float[2,1] [0.5, 4]
               columns = Gather-13 [axis: 1] (table, i)
               y = MatMul-13 (columns, w)
               long = const float[9,1] [1, 2, 3, 4, 5, 6, 7, 8, 9]
               wide = const float[1,9] [1, 2, 3, 4, 5, 6, 7, 8, 9]
               rows = Gather-13 [axis: 0] (long, i)
               z = MatMul-13 (rows, wide)
             }",
            &expect![[r#"
                graph(i: int64[2]) -> (y, z) {
                  table = const float[3,3] [1, -2, 3, 0.5, -0.25, 7, 2, 4, 6]
                  w = const float[2,1] [0.5, 4]
                  long = const float[9,1] [1, 2, 3, 4, 5, 6, 7, 8, 9]
                  wide = const float[1,9] [1, 2, 3, 4, 5, 6, 7, 8, 9]
                  columns = Gather-13 [axis: 1] (table, i)
                  y = MatMul-13 (columns, w)
                  rows = Gather-13 [axis: 0] (long, i)
                  z = MatMul-13 (rows, wide)
                }
                1 refused: it looks up columns
                1 refused: the product of the whole table is large"#]],
        );
    }
}
