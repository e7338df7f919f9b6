//! GemmConstantFusion: operations on the columns of a Gemm are folded into its constants.
//!
//! ```text
//! y = Gemm(a, b, c) = α·a·b + β·c        b with its columns in the order of those of y
//!
//! y + d = α·a·b + (β·c + d)
//! y · s = α·a·(b·s) + β·(c·s)            s: one number per column, or one in all
//! BatchNormalization(y) = α·a·(b·f) + ((β·c − mean)·f + bias),   f = scale / √(variance + epsilon)
//! ```
//! Our own pass: ONNX Runtime has no equivalent.

use ort_graph::{Attr, Attrs};
use ort_ops::ops::gemm::Gemm;
use ort_tensor::{DType, Tensor};

use super::channels::{
    expect_broadcast, expect_channels, expect_inference, ints, normalizing_factor,
    normalizing_parameters, number,
};
use super::matrices::expect_bias;
use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::{Pat, absent, constant, made, op, var};
use crate::rule::{Rule, Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "GemmConstantFusion",
    level: Level::Basic,
    exactness: Exactness::Rounding,
    start: || Rules::start(rules()),
};

fn rules() -> [Rule; 5] {
    let (a, b, c) = (var("a"), constant("b"), constant("c"));
    let gemm = |b: &Pat, c: Pat| op("Gemm", [a.clone(), b.clone(), c]);
    let (with, without) = (gemm(&b, c.clone()), gemm(&b, absent()));
    let whole = |b: Pat, c: Pat| gemm(&b, c).following(with_whole_bias);
    let d = constant("d");
    let sum = rule(gemm(&var("b"), c.clone()) + &d, whole(var("b"), &c * made(beta) + &d));
    let s = constant("s");
    let scaled = columns(&b, &s);
    let (f, [scale, bias, mean, variance]) = (normalizing_factor(), normalizing_parameters());
    let norm = |gemm: &Pat| {
        let [scale, bias, mean, variance] = [&scale, &bias, &mean, &variance].map(Pat::clone);
        op("BatchNormalization", [gemm.clone(), scale, bias, mean, variance])
    };
    let normalized = columns(&b, &f);
    let shifted = (&c * made(beta) - &mean) * &f + &bias;
    let alone = &bias - &mean * &f;
    [
        sum.when(is_bias),
        rule(&with * &s, gemm(&scaled, &c * &s)).when(is_of_columns),
        rule(&without * &s, gemm(&scaled, absent())).when(is_of_columns),
        rule(norm(&with), whole(normalized.clone(), shifted)).when(is_normalized),
        rule(norm(&without), whole(normalized, alone)).when(is_normalized),
    ]
}

/// `b · s`, where `s` has one element per column of the product.
fn columns(b: &Pat, s: &Pat) -> Pat {
    b * op(
        "Reshape",
        [
            s.clone(),
            made(|found| {
                let is_transposed = gemm_of(found)?.is_b_transposed;
                ints(if is_transposed { &[-1, 1] } else { &[1, -1] })
            }),
        ],
    )
}

fn beta(found: &Match<'_>) -> Result<Tensor, Refusal> {
    number(f64::from(gemm_of(found)?.beta), found.fact("c").dtype())
}

fn with_whole_bias(found: &Match<'_>) -> (i32, Attrs) {
    let gemm = found.node("Gemm");
    (gemm.since_version, gemm.attrs.clone().with("beta", Attr::Float(1.0)))
}

/// The product, of floats.
fn gemm_of(found: &Match<'_>) -> Result<Gemm, Refusal> {
    let gemm = found.node("Gemm").operator::<Gemm>().copied();
    let is_float = found.fact("a").dtype().is_some_and(DType::is_float);
    match gemm {
        Some(gemm) if is_float && gemm.beta != 0.0 => Ok(gemm),
        _ => Err(Refusal("it computes with integers, or without its bias")),
    }
}

fn is_bias(found: &Match<'_>) -> Result<(), Refusal> {
    expect_broadcast(found.root())?;
    gemm_of(found)?;
    expect_bias(found.graph, found.node("Gemm"), found.fact("d"))
}

fn is_of_columns(found: &Match<'_>) -> Result<(), Refusal> {
    expect_broadcast(found.root())?;
    let columns = usize::from(!gemm_of(found)?.is_b_transposed);
    let n = found.constant("b").and_then(|b| b.shape().get(columns)).copied();
    let s = found.constant("s").map(Tensor::shape).unwrap_or_default();
    expect_channels(s, 2, n.ok_or(Refusal("the product is not a matrix"))?)
}

fn is_normalized(found: &Match<'_>) -> Result<(), Refusal> {
    gemm_of(found)?;
    expect_inference(found, found.fact("b").dtype())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn what_is_done_to_columns_enters_the_constants() {
        assert_optimized(
            super::PASS,
            "graph(x: float[m,2], v: float[2,3]) -> (y, z, u) {
               b = const float[2,3] [1, -2, 3, 0.5, 1, 1]
               t = const float[3,2] [1, -2, 3, 0.5, 1, 1]
               c = const float[3] [1, 2, 3]
               d = const float[1,3] [2, -1, 0.5]
               half = const float[] 0.5
               g1 = Gemm-13 [beta: 2.0] (x, v, c)
               y = Add-14 (d, g1)
               g2 = Gemm-13 [alpha: 0.5, beta: 2.0] (x, b, c)
               z = Mul-14 (g2, d)
               g3 = Gemm-13 [transB: 1] (x, t)
               u = Mul-14 (half, g3)
             }",
            &expect![[r#"
                graph(x: float[m,2], v: float[2,3]) -> (y, z, u) {
                  b = const float[2,3] [1, -2, 3, 0.5, 1, 1]
                  t = const float[3,2] [1, -2, 3, 0.5, 1, 1]
                  c = const float[3] [1, 2, 3]
                  d = const float[1,3] [2, -1, 0.5]
                  half = const float[] 0.5
                  value = const float[] 2
                  value_4 = const int64[2] [1, -1]
                  value_8 = const int64[2] [-1, 1]
                  value_2 = Mul-13 (c, value)
                  value_3 = Add-14 (value_2, d)
                  y = Gemm-13 [beta: 1.0] (x, v, value_3)
                  value_5 = Reshape-13 (d, value_4)
                  value_6 = Mul-14 (b, value_5)
                  value_7 = Mul-14 (c, d)
                  z = Gemm-13 [alpha: 0.5, beta: 2.0] (x, value_6, value_7)
                  value_9 = Reshape-13 (half, value_8)
                  value_10 = Mul-14 (t, value_9)
                  u = Gemm-13 [transB: 1] (x, value_10)
                }"#]],
        );
    }

    #[test]
    fn a_normalization_of_columns_enters_the_constants() {
        assert_optimized(
            super::PASS,
            "graph(x: float[m,2]) -> (p, q) {
               b = const float[2,3] [1, -2, 3, 0.5, 1, 1]
               t = const float[3,2] [1, -2, 3, 0.5, 1, 1]
               c = const float[3] [1, 2, 3]
               scale = const float[3] [1, 0.5, -2]
               bias = const float[3] [0, 1, -1]
               mean = const float[3] [0.5, 0, 2]
               variance = const float[3] [1, 4, 0.25]
               g1 = Gemm-13 [transB: 1, alpha: 2.0, beta: 0.25] (x, t, c)
               p = BatchNormalization-15 [epsilon: 0.125] (g1, scale, bias, mean, variance)
               g2 = Gemm-13 (x, b)
               q = BatchNormalization-9 (g2, scale, bias, mean, variance)
             }",
            &expect![[r#"
                graph(x: float[m,2]) -> (p, q) {
                  b = const float[2,3] [1, -2, 3, 0.5, 1, 1]
                  t = const float[3,2] [1, -2, 3, 0.5, 1, 1]
                  c = const float[3] [1, 2, 3]
                  scale = const float[3] [1, 0.5, -2]
                  bias = const float[3] [0, 1, -1]
                  mean = const float[3] [0.5, 0, 2]
                  variance = const float[3] [1, 4, 0.25]
                  value = const float[] 0.125
                  value_5 = const int64[2] [-1, 1]
                  value_8 = const float[] 0.25
                  value_13 = const float[] 1e-5
                  value_17 = const int64[2] [1, -1]
                  value_2 = Add-13 (variance, value)
                  value_3 = Sqrt-13 (value_2)
                  value_4 = Div-13 (scale, value_3)
                  value_6 = Reshape-13 (value_4, value_5)
                  value_7 = Mul-13 (t, value_6)
                  value_9 = Mul-13 (c, value_8)
                  value_10 = Sub-13 (value_9, mean)
                  value_11 = Mul-13 (value_10, value_4)
                  value_12 = Add-13 (value_11, bias)
                  p = Gemm-13 [alpha: 2.0, beta: 1.0, transB: 1] (x, value_7, value_12)
                  value_14 = Add-13 (variance, value_13)
                  value_15 = Sqrt-13 (value_14)
                  value_16 = Div-13 (scale, value_15)
                  value_18 = Reshape-13 (value_16, value_17)
                  value_19 = Mul-13 (b, value_18)
                  value_20 = Mul-13 (mean, value_16)
                  value_21 = Sub-13 (bias, value_20)
                  q = Gemm-13 [beta: 1.0] (x, value_19, value_21)
                }"#]],
        );
    }

    #[test]
    fn what_is_not_of_columns_stays() {
        assert_optimized(
            super::PASS,
            "graph(x: float[2,2], i: int32[2,2]) -> (y, z, g3, u, j, p) {
               b = const float[2,1] [1, -2]
               c = const float[1] [1]
               wide = const float[3] [1, 2, 3]
               rows = const float[2,1] [2, -1]
               g1 = Gemm-13 (x, b, c)
               y = Add-14 (wide, g1)
               g2 = Gemm-13 (x, b, c)
               z = Mul-14 (g2, rows)
               g3 = Gemm-13 (x, b)
               u = Mul-14 (c, g3)
               k = const int32[2,2] [1, 2, 3, 4]
               h = Gemm-13 (i, k, k)
               j = Add-14 (h, k)
               g4 = Gemm-13 [beta: 0.0] (x, b, c)
               p = Mul-14 (c, g4)
             }",
            &expect![[r#"
                graph(x: float[2,2], i: int32[2,2]) -> (y, z, g3, u, j, p) {
                  b = const float[2,1] [1, -2]
                  c = const float[1] [1]
                  wide = const float[3] [1, 2, 3]
                  rows = const float[2,1] [2, -1]
                  k = const int32[2,2] [1, 2, 3, 4]
                  g1 = Gemm-13 (x, b, c)
                  y = Add-14 (wide, g1)
                  g2 = Gemm-13 (x, b, c)
                  z = Mul-14 (g2, rows)
                  g3 = Gemm-13 (x, b)
                  u = Mul-14 (c, g3)
                  h = Gemm-13 (i, k, k)
                  j = Add-14 (h, k)
                  g4 = Gemm-13 [beta: 0.0] (x, b, c)
                  p = Mul-14 (c, g4)
                }
                1 refused: the summand may broadcast the product
                1 refused: the constant differs within a channel
                1 refused: a value within it is used elsewhere
                2 refused: it computes with integers, or without its bias"#]],
        );
    }
}
