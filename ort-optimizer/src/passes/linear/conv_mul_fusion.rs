//! ConvMulFusion: `Conv(x, w, b) · s = Conv(x, w·s, b·s)`, where `s` is one number per channel.
//!
//! Also for ConvTranspose of one group. Source: ONNX Runtime 1.31, ConvMulFusion, which supports only Conv.

use super::channels::{
    as_list, convolution, convolutions, expect_broadcast, expect_channels, for_weights, n_channels,
};
use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::constant;
use crate::rule::{Rule, Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "ConvMulFusion",
    level: Level::Basic,
    exactness: Exactness::Rounding,
    start: || Rules::start(rules()),
};

fn rules() -> impl Iterator<Item = Rule> {
    convolutions().map(|(conv, b)| {
        let (w, s) = (constant("w"), constant("s"));
        let after = convolution(&conv, &w * for_weights(&s), b.map(|b| &b * as_list(&s)));
        rule(&conv * &s, after).when(is_linear)
    })
}

fn is_linear(found: &Match<'_>) -> Result<(), Refusal> {
    expect_broadcast(found.root())?;
    let (s, w) = (found.constant("s"), found.fact("w"));
    let shape = s.map(ort_tensor::Tensor::shape).unwrap_or_default();
    expect_channels(shape, w.rank().unwrap_or(0), n_channels(found)?)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn a_factor_of_channels_enters_the_weights() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,2,h]) -> (y) {
               w = const float[3,2,1] [1, -2, 3, 0.5, 1, 1]
               b = const float[3] [1, 2, 3]
               s = const float[3,1] [2, -1, 0.5]
               a = Conv-11 (x, w, b)
               m = Mul-14 (s, a)
               v = const float[3,2,1] [1, -1, 2, 1, 0.5, 1]
               t = ConvTranspose-11 (m, v)
               r = const float[1,2,1] [3, 4]
               u = Mul-14 (t, r)
               one = const float[1] [0.25]
               e = Conv-11 (u, w)
               y = Mul-7 (e, one)
             }",
            &expect![[r#"
                graph(x: float[n,2,h]) -> (y) {
                  w = const float[3,2,1] [1, -2, 3, 0.5, 1, 1]
                  b = const float[3] [1, 2, 3]
                  s = const float[3,1] [2, -1, 0.5]
                  v = const float[3,2,1] [1, -1, 2, 1, 0.5, 1]
                  r = const float[1,2,1] [3, 4]
                  one = const float[1] [0.25]
                  value = const int64[3] [-1, 1, 1]
                  value_4 = const int64[1] [-1]
                  value_7 = const int64[3] [1, -1, 1]
                  value_10 = const int64[3] [-1, 1, 1]
                  value_2 = Reshape-13 (s, value)
                  value_3 = Mul-14 (w, value_2)
                  value_5 = Reshape-13 (s, value_4)
                  value_6 = Mul-14 (b, value_5)
                  m = Conv-11 (x, value_3, value_6)
                  value_8 = Reshape-13 (r, value_7)
                  value_9 = Mul-14 (v, value_8)
                  u = ConvTranspose-11 (m, value_9)
                  value_11 = Reshape-13 (one, value_10)
                  value_12 = Mul-7 (w, value_11)
                  y = Conv-11 (u, value_12)
                }"#]],
        );
    }

    #[test]
    fn other_factors_stay() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,2,2], f: float[1]) -> (y, z, u, v, p) {
               w = const float[2,2,1] [1, -2, 3, 0.5]
               a1 = Conv-11 (x, w)
               a2 = Conv-1 (x, w)
               a3 = Conv-22 (x, w)
               a4 = Conv-11 (x, w)
               a5 = Conv-11 (x, w)
               row = const float[2] [1, 2]
               y = Mul-14 (a1, row)
               deep = const float[1,1,1,1] [3]
               z = Mul-14 (a2, deep)
               u = Mul-14 (a3, f)
               c = const float[2,1] [1, 2]
               v = Mul-14 (a4, c)
               p = Add-14 (a4, a5)
             }",
            &expect![[r#"
                graph(x: float[n,2,2], f: float[1]) -> (y, z, u, v, p) {
                  w = const float[2,2,1] [1, -2, 3, 0.5]
                  row = const float[2] [1, 2]
                  deep = const float[1,1,1,1] [3]
                  c = const float[2,1] [1, 2]
                  a1 = Conv-11 (x, w)
                  a2 = Conv-1 (x, w)
                  a3 = Conv-22 (x, w)
                  a4 = Conv-11 (x, w)
                  a5 = Conv-11 (x, w)
                  y = Mul-14 (a1, row)
                  z = Mul-14 (a2, deep)
                  u = Mul-14 (a3, f)
                  v = Mul-14 (a4, c)
                  p = Add-14 (a4, a5)
                }
                1 refused: the constant differs within a channel
                1 refused: the constant adds dimensions
                1 refused: a value within it is used elsewhere"#]],
        );
    }
}
