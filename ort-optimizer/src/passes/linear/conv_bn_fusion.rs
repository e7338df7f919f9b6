//! ConvBNFusion: a BatchNormalization becomes part of the weights before it.
//!
//! ```text
//! f = scale / √(variance + epsilon)
//! BatchNormalization(Conv(x, w, b), scale, bias, mean, variance) = Conv(x, w·f, (b − mean)·f + bias)
//! ```
//! Also for ConvTranspose of one group. Source: ONNX Runtime 1.31, ConvBNFusion, which supports only Conv and f32.

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
            "graph(x: float[n,2,h,w]) -> (y) {
               w = const float[3,2,1,1] [1, -2, 3, 0.5, 1, 1]
               b = const float[3] [1, 2, 3]
               scale = const float[3] [1, 0.5, -2]
               bias = const float[3] [0, 1, -1]
               mean = const float[3] [0.5, 0, 2]
               variance = const float[3] [1, 4, 0.25]
               a = Conv-11 [kernel_shape: [1, 1]] (x, w, b)
               y = BatchNormalization-15 [epsilon: 0.125] (a, scale, bias, mean, variance)
             }",
            &expect![[r#"
                graph(x: float[n,2,h,w]) -> (y) {
                  w = const float[3,2,1,1] [1, -2, 3, 0.5, 1, 1]
                  b = const float[3] [1, 2, 3]
                  scale = const float[3] [1, 0.5, -2]
                  bias = const float[3] [0, 1, -1]
                  mean = const float[3] [0.5, 0, 2]
                  variance = const float[3] [1, 4, 0.25]
                  value = const float[] 0.125
                  value_5 = const int64[4] [-1, 1, 1, 1]
                  value_2 = Add-13 (variance, value)
                  value_3 = Sqrt-13 (value_2)
                  value_4 = Div-13 (scale, value_3)
                  value_6 = Reshape-13 (value_4, value_5)
                  value_7 = Mul-13 (w, value_6)
                  value_8 = Sub-13 (b, mean)
                  value_9 = Mul-13 (value_8, value_4)
                  value_10 = Add-13 (value_9, bias)
                  y = Conv-11 [kernel_shape: [1, 1]] (x, value_7, value_10)
                }"#]],
        );
    }

    #[test]
    fn a_normalization_enters_the_weights_of_a_transposed_convolution() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,3,l]) -> (y) {
               w = const float[3,2,3] [1, 2, 3, 4, 5, 6, -1, 1, 0, 0, 2, 1, 1, 1, 1, 0, 1, 0]
               scale = const float[2] [2, -1]
               bias = const float[2] [1, 0.5]
               mean = const float[2] [-1, 1]
               variance = const float[2] [4, 1]
               a = ConvTranspose-11 (x, w)
               y = BatchNormalization-9 (a, scale, bias, mean, variance)
             }",
            &expect![[r#"
                graph(x: float[n,3,l]) -> (y) {
                  w = const float[3,2,3] #f2f0d960960ef795
                  scale = const float[2] [2, -1]
                  bias = const float[2] [1, 0.5]
                  mean = const float[2] [-1, 1]
                  variance = const float[2] [4, 1]
                  value = const float[] 1e-5
                  value_5 = const int64[3] [1, -1, 1]
                  value_2 = Add-13 (variance, value)
                  value_3 = Sqrt-13 (value_2)
                  value_4 = Div-13 (scale, value_3)
                  value_6 = Reshape-13 (value_4, value_5)
                  value_7 = Mul-13 (w, value_6)
                  value_8 = Mul-13 (mean, value_4)
                  value_9 = Sub-13 (bias, value_8)
                  y = ConvTranspose-11 (x, value_7, value_9)
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
