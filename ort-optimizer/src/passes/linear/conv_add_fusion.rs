//! ConvAddFusion: `Conv(x, w, b) + c = Conv(x, w, b + c)`, where `c` is one number per channel.
//!
//! Also for ConvTranspose. Source: ONNX Runtime 1.31, ConvAddFusion, which supports only Conv.

use super::channels::{
    as_list, convolution, convolutions, expect_broadcast, expect_channels, ints, n_channels,
};
use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::{constant, made, op};
use crate::rule::{Rule, Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "ConvAddFusion",
    level: Level::Basic,
    exactness: Exactness::Rounding,
    start: || Rules::start(rules()),
};

fn rules() -> impl Iterator<Item = Rule> {
    convolutions().map(|(conv, b)| {
        let c = constant("c");
        let bias = match b {
            Some(b) => &b + as_list(&c),
            None => op("Expand", [as_list(&c), made(channels)]),
        };
        let after = convolution(&conv, constant("w"), Some(bias));
        rule(conv + &c, after).when(is_bias)
    })
}

fn channels(found: &Match<'_>) -> Result<ort_tensor::Tensor, Refusal> {
    ints(&[i64::try_from(n_channels(found)?).unwrap_or(-1)])
}

fn is_bias(found: &Match<'_>) -> Result<(), Refusal> {
    expect_broadcast(found.root())?;
    let (c, w) = (found.constant("c"), found.fact("w"));
    let shape = c.map(ort_tensor::Tensor::shape).unwrap_or_default();
    expect_channels(shape, w.rank().unwrap_or(0), n_channels(found)?)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn a_summand_of_channels_enters_the_bias() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,2,h]) -> (y) {
               w = const float[3,2,1] [1, -2, 3, 0.5, 1, 1]
               b = const float[3] [1, 2, 3]
               c = const float[3,1] [2, -1, 0.5]
               a = Conv-11 (x, w, b)
               m = Add-14 (c, a)
               v = const float[3,2,1] [1, -1, 2, 1, 0.5, 1]
               t = ConvTranspose-11 (m, v)
               r = const float[1,2,1] [3, 4]
               u = Add-14 (t, r)
               one = const float[] 0.25
               e = Conv-11 (u, w)
               y = Add-7 (e, one)
             }",
            &expect![[r#"
                graph(x: float[n,2,h]) -> (y) {
                  w = const float[3,2,1] [1, -2, 3, 0.5, 1, 1]
                  b = const float[3] [1, 2, 3]
                  c = const float[3,1] [2, -1, 0.5]
                  v = const float[3,2,1] [1, -1, 2, 1, 0.5, 1]
                  r = const float[1,2,1] [3, 4]
                  one = const float[] 0.25
                  value = const int64[1] [-1]
                  value_4 = const int64[1] [-1]
                  value_6 = const int64[1] [2]
                  value_8 = const int64[1] [-1]
                  value_10 = const int64[1] [3]
                  value_2 = Reshape-13 (c, value)
                  value_3 = Add-14 (b, value_2)
                  m = Conv-11 (x, w, value_3)
                  value_5 = Reshape-13 (r, value_4)
                  value_7 = Expand-13 (value_5, value_6)
                  u = ConvTranspose-11 (m, v, value_7)
                  value_9 = Reshape-13 (one, value_8)
                  value_11 = Expand-13 (value_9, value_10)
                  y = Conv-11 (u, w, value_11)
                }"#]],
        );
    }

    #[test]
    fn other_summands_stay() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,2,2], f: float[1]) -> (y, z, u, a4, v) {
               w = const float[2,2,1] [1, -2, 3, 0.5]
               a1 = Conv-11 (x, w)
               a2 = Conv-1 (x, w)
               a3 = Conv-22 (x, w)
               a4 = Conv-11 (x, w)
               row = const float[2] [1, 2]
               y = Add-14 (a1, row)
               deep = const float[1,1,1,1] [3]
               z = Add-14 (a2, deep)
               u = Add-14 (a3, f)
               c = const float[2,1] [1, 2]
               v = Add-14 (a4, c)
             }",
            &expect![[r#"
                graph(x: float[n,2,2], f: float[1]) -> (y, z, u, a4, v) {
                  w = const float[2,2,1] [1, -2, 3, 0.5]
                  row = const float[2] [1, 2]
                  deep = const float[1,1,1,1] [3]
                  c = const float[2,1] [1, 2]
                  a1 = Conv-11 (x, w)
                  a2 = Conv-1 (x, w)
                  a3 = Conv-22 (x, w)
                  a4 = Conv-11 (x, w)
                  y = Add-14 (a1, row)
                  z = Add-14 (a2, deep)
                  u = Add-14 (a3, f)
                  v = Add-14 (a4, c)
                }
                1 refused: the constant differs within a channel
                1 refused: the constant adds dimensions
                1 refused: a value within it is used elsewhere"#]],
        );
    }
}
