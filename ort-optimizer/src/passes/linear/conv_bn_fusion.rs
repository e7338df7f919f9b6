//! ConvBNFusion: a BatchNormalization becomes part of the weights before it.
//!
//! ```text
//! f = scale / √(variance + epsilon)
//! BatchNormalization(Conv(x, w, b), scale, bias, mean, variance) = Conv(x, w·f, (b − mean)·f + bias)
//! ```
//! Also for ConvTranspose of one group. Source: ONNX Runtime 1.31, ConvBNFusion, which knows Conv
//! and f32 only.

use super::channels::{
    convolution, convolutions, expect_inference, for_weights, n_channels, normalizing_factor,
    normalizing_parameters,
};
use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::{constant, op};
use crate::rule::{Rule, Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "ConvBNFusion",
    level: Level::Basic,
    exactness: Exactness::Rounding,
    start: || Rules::start(rules()),
};

fn rules() -> impl Iterator<Item = Rule> {
    let (factor, parameters) = (normalizing_factor(), normalizing_parameters());
    convolutions().map(move |(conv, b)| {
        let [scale, bias, mean, variance] = parameters.clone();
        let weights = &constant("w") * for_weights(&factor);
        let shifted = match b {
            Some(b) => (&b - &mean) * &factor + &bias,
            None => &bias - &mean * &factor,
        };
        let after = convolution(&conv, weights, Some(shifted));
        let before = op("BatchNormalization", [conv, scale, bias, mean, variance]);
        rule(before, after).when(is_linear)
    })
}

fn is_linear(found: &Match<'_>) -> Result<(), Refusal> {
    n_channels(found)?;
    expect_inference(found, found.fact("w").dtype())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn a_normalization_enters_the_weights() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,2,h,w]) -> (y, z) {
               w = const float[3,2,1,1] [1, -2, 3, 0.5, 1, 1]
               v = const float[3,2,2] [1, -2, 3, 0.5, 1, 1, -1, 2, 0, 0.25, -1, 3]
               b = const float[3] [1, 2, 3]
               c = const float[2] [1, 2]
               scale = const float[3] [1, 0.5, -2]
               bias = const float[3] [0, 1, -1]
               mean = const float[3] [0.5, 0, 2]
               variance = const float[3] [1, 4, 0.25]
               a = Conv-11 [kernel_shape: [1, 1]] (x, w, b)
               y = BatchNormalization-15 [epsilon: 0.125] (a, scale, bias, mean, variance)
               shape = const int64[3] [0, 3, -1]
               r = Reshape-14 (y, shape)
               k = const float[3,2,3] [1, 2, 3, 4, 5, 6, -1, 1, 0, 0, 2, 1, 1, 1, 1, 0, 1, 0]
               t = ConvTranspose-11 (r, k)
               s2 = const float[2] [2, -1]
               b2 = const float[2] [1, 0.5]
               m2 = const float[2] [-1, 1]
               v2 = const float[2] [4, 1]
               z = BatchNormalization-9 (t, s2, b2, m2, v2)
             }",
            &expect![[r#"
                graph(x: float[n,2,h,w]) -> (y, z) {
                  w = const float[3,2,1,1] [1, -2, 3, 0.5, 1, 1]
                  b = const float[3] [1, 2, 3]
                  scale = const float[3] [1, 0.5, -2]
                  bias = const float[3] [0, 1, -1]
                  mean = const float[3] [0.5, 0, 2]
                  variance = const float[3] [1, 4, 0.25]
                  shape = const int64[3] [0, 3, -1]
                  k = const float[3,2,3] #f2f0d960960ef795
                  s2 = const float[2] [2, -1]
                  b2 = const float[2] [1, 0.5]
                  m2 = const float[2] [-1, 1]
                  v2 = const float[2] [4, 1]
                  value = const float[] 0.125
                  value_5 = const int64[4] [-1, 1, 1, 1]
                  value_9 = const float[] 0.125
                  value_15 = const float[] 1e-5
                  value_19 = const int64[3] [1, -1, 1]
                  value_22 = const float[] 1e-5
                  value_2 = Add-13 (variance, value)
                  value_3 = Sqrt-13 (value_2)
                  value_4 = Div-13 (scale, value_3)
                  value_6 = Reshape-13 (value_4, value_5)
                  value_7 = Mul-13 (w, value_6)
                  value_8 = Sub-13 (b, mean)
                  value_10 = Add-13 (variance, value_9)
                  value_11 = Sqrt-13 (value_10)
                  value_12 = Div-13 (scale, value_11)
                  value_13 = Mul-13 (value_8, value_12)
                  value_14 = Add-13 (value_13, bias)
                  y = Conv-11 [kernel_shape: [1, 1]] (x, value_7, value_14)
                  r = Reshape-14 (y, shape)
                  value_16 = Add-13 (v2, value_15)
                  value_17 = Sqrt-13 (value_16)
                  value_18 = Div-13 (s2, value_17)
                  value_20 = Reshape-13 (value_18, value_19)
                  value_21 = Mul-13 (k, value_20)
                  value_23 = Add-13 (v2, value_22)
                  value_24 = Sqrt-13 (value_23)
                  value_25 = Div-13 (s2, value_24)
                  value_26 = Mul-13 (m2, value_25)
                  value_27 = Sub-13 (b2, value_26)
                  z = ConvTranspose-11 (r, value_21, value_27)
                }"#]],
        );
    }

    #[test]
    fn a_normalization_stays_in_training_or_if_it_is_not_constant() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,2,2], u: float[2], o = float[2] [1, 1]) -> (y, z, s, t, d) {
               w = const float[2,1,1] [1, -2]
               k = const float[2] [1, 2]
               l = const double[2] [1, 2]
               a1 = Conv-11 [group: 2] (x, w)
               a2 = Conv-11 [group: 2] (x, w)
               a3 = Conv-11 [group: 2] (x, w)
               a4 = ConvTranspose-11 [group: 2] (x, w)
               y = BatchNormalization-15 (a1, k, u, k, k)
               z = BatchNormalization-15 (a2, k, k, o, k)
               s = BatchNormalization-15 (a3, k, k, k, l)
               t = BatchNormalization-15 (a4, k, k, k, k)
               a5 = Conv-11 [group: 2] (x, w)
               e = BatchNormalization-15 (a5, k, k, k, k)
               d = Add-14 (e, a5)
             }",
            &expect![[r#"
                graph(x: float[n,2,2], u: float[2], o = float[2] fill 1) -> (y, z, s, t, d) {
                  w = const float[2,1,1] [1, -2]
                  k = const float[2] [1, 2]
                  l = const double[2] [1, 2]
                  a1 = Conv-11 [group: 2] (x, w)
                  a2 = Conv-11 [group: 2] (x, w)
                  a3 = Conv-11 [group: 2] (x, w)
                  a4 = ConvTranspose-11 [group: 2] (x, w)
                  y = BatchNormalization-15 (a1, k, u, k, k)
                  z = BatchNormalization-15 (a2, k, k, o, k)
                  s = BatchNormalization-15 (a3, k, k, k, l)
                  t = BatchNormalization-15 (a4, k, k, k, k)
                  a5 = Conv-11 [group: 2] (x, w)
                  e = BatchNormalization-15 (a5, k, k, k, k)
                  d = Add-14 (e, a5)
                }
                1 refused: its parameters have another type
                1 refused: a transposed convolution of groups mixes the channels of its weights
                1 refused: a value within it is used elsewhere"#]],
        );
    }
}
