//! MatMul_BatchNormalization_Fusion: a BatchNormalization of the columns of a product becomes part
//! of its right operand.
//!
//! ```text
//! f = scale / √(variance + epsilon)
//! BatchNormalization(a·b, scale, bias, mean, variance) = Gemm(a, b·f, bias − mean·f)
//! ```
//! Also with axes of one element in between: `Reshape` from `[m, n]` to `[m, n, 1, …]`.
//!
//! Source: ONNX Runtime 1.31, which also looks through a Transpose that moves the columns, where it
//! is wrong.

use ort_graph::{Dim, Fact};

use super::channels::{expect_inference, normalizing_factor, normalizing_parameters};
use super::matrices::gemm_of_matmul;
use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::{Pat, constant, op, var};
use crate::rule::{Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "MatMul_BatchNormalization_Fusion",
    level: Level::Basic,
    exactness: Exactness::Rounding,
    start: || {
        let (a, b, f) = (var("a"), constant("b"), normalizing_factor());
        let [scale, bias, mean, variance] = normalizing_parameters();
        let shifted = &bias - &mean * &f;
        let gemm = op("Gemm", [a.clone(), &b * f, shifted]).following(gemm_of_matmul);
        let product = op("MatMul", [a, b]);
        let rules = WITH_UNIT_AXES.map(move |with_unit_axes| {
            let x = with_unit_axes(&product);
            let find = op("BatchNormalization", [&x, &scale, &bias, &mean, &variance]);
            rule(find, with_unit_axes(&gemm)).when(is_of_columns)
        });
        Rules::start(rules)
    },
};

/// What may be between product and normalization.
const WITH_UNIT_AXES: [fn(&Pat) -> Pat; 4] = [
    Pat::clone,
    |x| op("Reshape", [x.clone(), var("shape")]),
    |x| op("Unsqueeze", [x.clone(), var("axes")]),
    |x| op("Unsqueeze", [x]),
];

fn is_of_columns(found: &Match<'_>) -> Result<(), Refusal> {
    let (a, b) = (found.fact("a"), found.fact("b"));
    let (Some(2), Some([_, n])) = (a.rank(), b.dims()) else {
        return Err(Refusal("an operand is not a matrix"));
    };
    let normalized = found.root_fact().and_then(Fact::dims).unwrap_or_default();
    let is_of_columns = match normalized {
        // If the columns did not move, and nothing follows them, neither did the rows.
        [_, columns, rest @ ..] => {
            columns.equals(n) && *n != Dim::Known(0) && rest.iter().all(|d| *d == Dim::Known(1))
        }
        _ => false,
    };
    if !is_of_columns {
        return Err(Refusal("the columns may have moved"));
    }
    expect_inference(found, b.dtype())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn a_normalization_of_columns_enters_the_product() {
        assert_optimized(
            super::PASS,
            "graph(a: float[m,2]) -> (x, y) {
               b = const float[2,3] [1, -2, 3, 0.5, 1, 1]
               scale = const float[3] [1, 0.5, -2]
               bias = const float[3] [0, 1, -1]
               mean = const float[3] [0.5, 0, 2]
               variance = const float[3] [1, 4, 0.25]
               p1 = MatMul-13 (a, b)
               x = BatchNormalization-15 [epsilon: 0.125] (p1, scale, bias, mean, variance)
               shape = const int64[4] [-1, 3, 1, 1]
               p2 = MatMul-13 (a, b)
               r = Reshape-14 (p2, shape)
               y = BatchNormalization-15 (r, scale, bias, mean, variance)
             }",
            &expect![[r#"
                graph(a: float[m,2]) -> (x, y) {
                  b = const float[2,3] [1, -2, 3, 0.5, 1, 1]
                  scale = const float[3] [1, 0.5, -2]
                  bias = const float[3] [0, 1, -1]
                  mean = const float[3] [0.5, 0, 2]
                  variance = const float[3] [1, 4, 0.25]
                  shape = const int64[4] [-1, 3, 1, 1]
                  value = const float[] 0.125
                  value_8 = const float[] 1e-5
                  value_2 = Add-13 (variance, value)
                  value_3 = Sqrt-13 (value_2)
                  value_4 = Div-13 (scale, value_3)
                  value_5 = Mul-13 (b, value_4)
                  value_6 = Mul-13 (mean, value_4)
                  value_7 = Sub-13 (bias, value_6)
                  x = Gemm-13 (a, value_5, value_7)
                  value_9 = Add-13 (variance, value_8)
                  value_10 = Sqrt-13 (value_9)
                  value_11 = Div-13 (scale, value_10)
                  value_12 = Mul-13 (b, value_11)
                  value_13 = Mul-13 (mean, value_11)
                  value_14 = Sub-13 (bias, value_13)
                  value_15 = Gemm-13 (a, value_12, value_14)
                  y = Reshape-14 (value_15, shape)
                }"#]],
        );
    }

    #[test]
    fn an_axis_after_the_columns_does_not_matter() {
        assert_optimized(
            super::PASS,
            "graph(a: float[m,2]) -> (z, w) {
               b = const float[2,3] [1, -2, 3, 0.5, 1, 1]
               k = const float[3] [1, 0.5, 2]
               axes = const int64[1] [2]
               p1 = MatMul-13 (a, b)
               u = Unsqueeze-13 (p1, axes)
               z = BatchNormalization-15 (u, k, k, k, k)
               p2 = MatMul-9 (a, b)
               v = Unsqueeze-11 [axes: [-1]] (p2)
               w = BatchNormalization-9 (v, k, k, k, k)
             }",
            &expect![[r#"
                graph(a: float[m,2]) -> (z, w) {
                  b = const float[2,3] [1, -2, 3, 0.5, 1, 1]
                  k = const float[3] [1, 0.5, 2]
                  axes = const int64[1] [2]
                  value = const float[] 1e-5
                  value_9 = const float[] 1e-5
                  value_2 = Add-13 (k, value)
                  value_3 = Sqrt-13 (value_2)
                  value_4 = Div-13 (k, value_3)
                  value_5 = Mul-13 (b, value_4)
                  value_6 = Mul-13 (k, value_4)
                  value_7 = Sub-13 (k, value_6)
                  value_8 = Gemm-13 (a, value_5, value_7)
                  z = Unsqueeze-13 (value_8, axes)
                  value_10 = Add-13 (k, value_9)
                  value_11 = Sqrt-13 (value_10)
                  value_12 = Div-13 (k, value_11)
                  value_13 = Mul-13 (b, value_12)
                  value_14 = Mul-13 (k, value_12)
                  value_15 = Sub-13 (k, value_14)
                  value_16 = Gemm-9 (a, value_13, value_15)
                  w = Unsqueeze-11 [axes: [-1]] (value_16)
                }"#]],
        );
    }

    #[test]
    fn columns_that_may_have_moved_stay() {
        assert_optimized(
            super::PASS,
            "graph(a: float[3,2], c: float[1,3,2]) -> (x, y, z) {
               b = const float[2,3] [1, -2, 3, 0.5, 1, 1]
               k = const float[3] [1, 0.5, 2]
               p1 = MatMul-13 (a, b)
               t = Transpose-13 (p1)
               x = BatchNormalization-15 (t, k, k, k, k)
               shape = const int64[3] [1, 3, 3]
               p2 = MatMul-13 (a, b)
               r = Reshape-14 (p2, shape)
               y = BatchNormalization-15 (r, k, k, k, k)
               p3 = MatMul-13 (c, b)
               z = BatchNormalization-15 (p3, k, k, k, k)
             }",
            &expect![[r#"
                graph(a: float[3,2], c: float[1,3,2]) -> (x, y, z) {
                  b = const float[2,3] [1, -2, 3, 0.5, 1, 1]
                  k = const float[3] [1, 0.5, 2]
                  shape = const int64[3] [1, 3, 3]
                  p1 = MatMul-13 (a, b)
                  t = Transpose-13 (p1)
                  x = BatchNormalization-15 (t, k, k, k, k)
                  p2 = MatMul-13 (a, b)
                  r = Reshape-14 (p2, shape)
                  y = BatchNormalization-15 (r, k, k, k, k)
                  p3 = MatMul-13 (c, b)
                  z = BatchNormalization-15 (p3, k, k, k, k)
                }
                1 refused: the columns may have moved
                1 refused: an operand is not a matrix"#]],
        );
    }
}
