//! MatMul_BatchNormalization_Fusion: a BatchNormalization of the columns of a product becomes part
//! of its right operand.
//!
//! ```text
//! f = scale / √(variance + epsilon)
//! BatchNormalization(a·b, scale, bias, mean, variance) = Gemm(a, b·f, bias − mean·f)
//! ```
//! Also with axes of one element in between: `Reshape` from `[m, n]` to `[m, n, 1, …]`. Where more than rows come before
//! the columns, a Reshape or Flatten makes them rows for the normalization, or a Transpose moves the columns before them:
//!
//! ```text
//! BatchNormalization(Flatten(a·b), …) = Flatten(a·(b·f) + (bias − mean·f))
//! ```
//!
//! Source: ONNX Runtime 1.31, which also looks through a Transpose that moves the columns, where it
//! is wrong.

use ort_graph::{Dim, Fact, Node};
use ort_ops::ops::transpose::Transpose;

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
        let factor = &b * &f;
        let gemm = op("Gemm", [&a, &factor, &shifted]).following(gemm_of_matmul);
        let sum = op("MatMul", [&a, &factor]) + &shifted;
        let product = op("MatMul", [&a, &b]);
        let normalized = |x| op("BatchNormalization", [&x, &scale, &bias, &mean, &variance]);
        let of_matrix = WITH_UNIT_AXES.map(|with_unit_axes| {
            rule(normalized(with_unit_axes(&product)), with_unit_axes(&gemm)).when(is_of_columns)
        });
        let of_more = ARRANGED.map(|arranged| {
            rule(normalized(arranged(&product)), arranged(&sum)).when(is_of_last_columns)
        });
        Rules::start(of_matrix.into_iter().chain(of_more))
    },
};

/// What may be between product and normalization.
const WITH_UNIT_AXES: [fn(&Pat) -> Pat; 4] = [
    Pat::clone,
    |x| op("Reshape", [x.clone(), var("shape")]),
    |x| op("Unsqueeze", [x.clone(), var("axes")]),
    |x| op("Unsqueeze", [x]),
];

/// How the columns of more than a matrix become the second axis.
const ARRANGED: [fn(&Pat) -> Pat; 3] = [
    |x| op("Flatten", [x]),
    |x| op("Reshape", [x.clone(), var("shape")]),
    |x| op("Transpose", [x]),
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

fn is_of_last_columns(found: &Match<'_>) -> Result<(), Refusal> {
    let b = found.fact("b");
    let Some([_, n]) = b.dims() else { return Err(Refusal("an operand is not a matrix")) };
    let normalized = found.root_fact().and_then(Fact::dims).unwrap_or_default();
    let x = found.root().inputs.first().copied().flatten();
    let arrangement = x.and_then(|x| found.graph.producer(x)).map(|(id, _)| found.graph.node(id));
    let is_of_columns = match arrangement.and_then(Node::operator::<Transpose>) {
        Some(transpose) => {
            let axis = transpose.perm.as_ref().and_then(|perm| perm.get(1));
            axis == normalized.len().checked_sub(1).as_ref()
        }
        // If the columns did not move, neither did what comes before them.
        None => matches!(normalized, [_, columns] if columns.equals(n) && *n != Dim::Known(0)),
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
                2 refused: the columns may have moved
                1 refused: an operand is not a matrix"#]],
        );
    }

    #[test]
    fn columns_of_more_than_a_matrix_are_normalized_in_the_product() {
        assert_optimized(
            super::PASS,
            "graph(a: float[m,4,2]) -> (x, y) {
               b = const float[2,3] [1, -2, 3, 0.5, 1, 1]
               scale = const float[3] [1, 0.5, -2]
               bias = const float[3] [0, 1, -1]
               variance = const float[3] [1, 4, 0.25]
               rows = const int64[2] [-1, 3]
               p1 = MatMul-13 (a, b)
               f = Flatten-13 [axis: 2] (p1)
               x = BatchNormalization-15 (f, scale, bias, bias, variance)
               p2 = MatMul-13 (a, b)
               r = Reshape-14 (p2, rows)
               y = BatchNormalization-15 (r, scale, bias, bias, variance)
             }",
            &expect![[r#"
                graph(a: float[m,4,2]) -> (x, y) {
                  b = const float[2,3] [1, -2, 3, 0.5, 1, 1]
                  scale = const float[3] [1, 0.5, -2]
                  bias = const float[3] [0, 1, -1]
                  variance = const float[3] [1, 4, 0.25]
                  rows = const int64[2] [-1, 3]
                  value = const float[] 1e-5
                  value_10 = const float[] 1e-5
                  value_2 = Add-13 (variance, value)
                  value_3 = Sqrt-13 (value_2)
                  value_4 = Div-13 (scale, value_3)
                  value_5 = Mul-13 (b, value_4)
                  value_6 = MatMul-13 (a, value_5)
                  value_7 = Mul-13 (bias, value_4)
                  value_8 = Sub-13 (bias, value_7)
                  value_9 = Add-13 (value_6, value_8)
                  x = Flatten-13 [axis: 2] (value_9)
                  value_11 = Add-13 (variance, value_10)
                  value_12 = Sqrt-13 (value_11)
                  value_13 = Div-13 (scale, value_12)
                  value_14 = Mul-13 (b, value_13)
                  value_15 = MatMul-13 (a, value_14)
                  value_16 = Mul-13 (bias, value_13)
                  value_17 = Sub-13 (bias, value_16)
                  value_18 = Add-13 (value_15, value_17)
                  y = Reshape-14 (value_18, rows)
                }"#]],
        );
    }

    #[test]
    fn columns_may_be_moved_before_the_rows() {
        assert_optimized(
            super::PASS,
            "graph(a: float[m,4,2]) -> (z, w) {
               b = const float[2,3] [1, -2, 3, 0.5, 1, 1]
               scale = const float[3] [1, 0.5, -2]
               variance = const float[3] [1, 4, 0.25]
               p3 = MatMul-13 (a, b)
               t = Transpose-13 [perm: [0, 2, 1]] (p3)
               z = BatchNormalization-15 (t, scale, scale, scale, variance)
               more = const float[4] fill 0.5
               less = const float[4] fill 0.25
               p4 = MatMul-13 (a, b)
               w = BatchNormalization-15 (p4, less, more, less, more)
             }",
            &expect![[r#"
                graph(a: float[m,4,2]) -> (z, w) {
                  b = const float[2,3] [1, -2, 3, 0.5, 1, 1]
                  scale = const float[3] [1, 0.5, -2]
                  variance = const float[3] [1, 4, 0.25]
                  more = const float[4] fill 0.5
                  less = const float[4] fill 0.25
                  value = const float[] 1e-5
                  p4 = MatMul-13 (a, b)
                  w = BatchNormalization-15 (p4, less, more, less, more)
                  value_2 = Add-13 (variance, value)
                  value_3 = Sqrt-13 (value_2)
                  value_4 = Div-13 (scale, value_3)
                  value_5 = Mul-13 (b, value_4)
                  value_6 = MatMul-13 (a, value_5)
                  value_7 = Mul-13 (scale, value_4)
                  value_8 = Sub-13 (scale, value_7)
                  value_9 = Add-13 (value_6, value_8)
                  z = Transpose-13 [perm: [0, 2, 1]] (value_9)
                }
                1 refused: an operand is not a matrix"#]],
        );
    }
}
