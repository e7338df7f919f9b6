//! ConvAddActivationFusion: a summand of the same shape, and a function of the sum, are fused into the convolution
//! before them.
//!
//! ```text
//! Conv(x, w, b) + z = com.microsoft:FusedConv(x, w, b, z)
//! f(FusedConv(x, w, b, z)) = FusedConv(x, w, b, z), activation f
//! ```
//! The functions are those of ConvActivationFusion. Source: ONNX Runtime 1.31,
//! ConvAddActivationFusion.

use ort_graph::Dim;

use super::activations::{OF_CONV, expect_f32, of_conv, parameters};
use super::channels::expect_broadcast;
use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::{Pat, absent, op, var};
use crate::rule::{Rule, Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "ConvAddActivationFusion",
    level: Level::Layout,
    exactness: Exactness::Rounding,
    start: || {
        let biases = [absent(), var("b")];
        Rules::start(
            biases.into_iter().flat_map(|bias| sums(&bias).into_iter().chain(functions(&bias))),
        )
    },
};

fn fused(bias: &Pat) -> Pat {
    op("FusedConv", [var("a"), var("w"), bias.clone(), var("z")]).of("com.microsoft")
}

fn sums(bias: &Pat) -> [Rule; 4] {
    let (z, conv) = (var("z"), op("Conv", [var("a"), var("w"), bias.clone()]));
    let after = fused(bias).since(1, |found| found.node("Conv").attrs.clone());
    let sums = [
        op("Add", [&conv, &z]).in_order(),
        op("Add", [&z, &conv]).in_order(),
        op("Sum", [&conv, &z]),
        op("Sum", [&z, &conv]),
    ];
    sums.map(|sum| rule(sum, &after).when(is_same_shape))
}

fn functions(bias: &Pat) -> impl Iterator<Item = Rule> + use<> {
    let (before, after) = (fused(bias).labelled("sum"), fused(bias));
    OF_CONV.into_iter().map(move |activation| {
        let after = after
            .clone()
            .since(1, |found| of_conv(&found.node("sum").attrs, found.graph, found.root()));
        rule(op(activation, [&before]).and_more(), after).when(has_no_function)
    })
}

fn is_same_shape(found: &Match<'_>) -> Result<(), Refusal> {
    expect_f32(found)?;
    expect_broadcast(found.root())?;
    let conv = found.node("Conv").outputs.first().copied().flatten();
    let conv = conv.and_then(|conv| found.graph.fact(conv).dims());
    let is_equal = |(conv, z): (&Dim, &Dim)| conv.equals(z);
    match conv.zip(found.fact("z").dims()) {
        Some((conv, z)) if conv.len() == z.len() && conv.iter().zip(z).all(is_equal) => Ok(()),
        _ => Err(Refusal("the summand may have another shape")),
    }
}

fn has_no_function(found: &Match<'_>) -> Result<(), Refusal> {
    if found.node("sum").attrs.get("activation").is_some() {
        return Err(Refusal("it already has an activation"));
    }
    parameters(found.graph, found.root()).map(drop)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn sums_of_equal_shapes_enter_the_convolution() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,2,5]) -> (y, z) {
               w = const float[2,2,1] [1, -2, 3, 0.5]
               b = const float[2] [1, 2]
               c1 = Conv-11 (x, w, b)
               s1 = Add-14 (x, c1)
               a1 = Relu-14 (s1)
               c2 = Conv-11 (a1, w)
               r2 = Relu-14 (c2)
               s2 = Sum-13 (c2, a1)
               c3 = Conv-11 (s2, w)
               c4 = Conv-11 (r2, w, b)
               s3 = Add-14 (c3, c4)
               a3 = LeakyRelu-6 (s3)
               y = Relu-14 (a3)
               c5 = Conv-11 (a3, w)
               z = Sum-8 (a3, c5)
             }",
            &expect![[r#"
                graph(x: float[n,2,5]) -> (y, z) {
                  w = const float[2,2,1] [1, -2, 3, 0.5]
                  b = const float[2] [1, 2]
                  a1 = com.microsoft:FusedConv-1 [activation: "Relu"] (x, w, b, x)
                  c2 = Conv-11 (a1, w)
                  r2 = Relu-14 (c2)
                  s2 = Sum-13 (c2, a1)
                  c4 = Conv-11 (r2, w, b)
                  a3 = com.microsoft:FusedConv-1 [activation: "LeakyRelu", activation_params: [0.01]] (s2, w, _, c4)
                  y = Relu-14 (a3)
                  z = com.microsoft:FusedConv-1 (a3, w, _, a3)
                }
                2 refused: a value within it is used elsewhere"#]],
        );
    }

    #[test]
    fn broadcast_sums_stay() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,2,5], u: float[1,2,5], v: float[2,1], d: double[n,2,5]) -> (a, b, c, e) {
               w = const float[2,2,1] [1, -2, 3, 0.5]
               l = const double[2,2,1] [1, -2, 3, 0.5]
               c1 = Conv-11 (x, w)
               a = Add-14 (u, c1)
               c2 = Conv-11 (x, w)
               b = Add-14 (c2, v)
               c3 = Conv-11 (d, l)
               c = Add-14 (c3, d)
               c4 = Conv-11 (x, w)
               e = Sum-13 (c4, x, x)
             }",
            &expect![[r#"
                graph(x: float[n,2,5], u: float[1,2,5], v: float[2,1], d: double[n,2,5]) -> (a, b, c, e) {
                  w = const float[2,2,1] [1, -2, 3, 0.5]
                  l = const double[2,2,1] [1, -2, 3, 0.5]
                  c1 = Conv-11 (x, w)
                  a = Add-14 (u, c1)
                  c2 = Conv-11 (x, w)
                  b = Add-14 (c2, v)
                  c3 = Conv-11 (d, l)
                  c = Add-14 (c3, d)
                  c4 = Conv-11 (x, w)
                  e = Sum-13 (c4, x, x)
                }
                2 refused: the summand may have another shape
                1 refused: it does not compute in f32"#]],
        );
    }

    #[test]
    fn shapes_that_are_not_known_can_be_equal() {
        assert_optimized(
            super::PASS,
            "graph(x: float[?,2,?,?]) -> (y, z) {
               w = const float[2,2,1,1] [1, -2, 3, 0.5]
               v = const float[2,1,3,3] [1, 0, -1, 0.5, 1, 1, 0, 0, 0, 1, 0, -1, 0.5, 1, 1, 0, 0, 0]
               s = const float[2,1,1] [1, 2]
               c1 = Conv-11 [auto_pad: \"SAME_UPPER\"] (x, w)
               r1 = Relu-14 (c1)
               c2 = Conv-11 [group: 2, pads: [2, 1, 2, 1], dilations: [2, 1]] (r1, v)
               q = GlobalAveragePool-1 (c2)
               e = Conv-11 (q, w)
               g = Sigmoid-13 (e)
               p = Mul-14 (c2, g)
               m = Mul-14 (s, p)
               c3 = Conv-11 (m, w)
               a1 = Add-14 (c3, x)
               c4 = Conv-11 [group: 2, pads: [1, 0, 0, 1]] (a1, v)
               c5 = Conv-11 (c4, w)
               y = Add-14 (c5, c4)
               c6 = Conv-11 [group: 2, pads: [1, 0, 0, 1]] (a1, v)
               z = Add-14 (c6, a1)
             }",
            &expect![[r#"
                graph(x: float[?,2,?,?]) -> (y, z) {
                  w = const float[2,2,1,1] [1, -2, 3, 0.5]
                  v = const float[2,1,3,3] #64f0624e0762c5f5
                  s = const float[2,1,1] [1, 2]
                  c1 = Conv-11 [auto_pad: "SAME_UPPER"] (x, w)
                  r1 = Relu-14 (c1)
                  c2 = Conv-11 [dilations: [2, 1], group: 2, pads: [2, 1, 2, 1]] (r1, v)
                  q = GlobalAveragePool-1 (c2)
                  e = Conv-11 (q, w)
                  g = Sigmoid-13 (e)
                  p = Mul-14 (c2, g)
                  m = Mul-14 (s, p)
                  c3 = Conv-11 (m, w)
                  a1 = Add-14 (c3, x)
                  c4 = Conv-11 [group: 2, pads: [1, 0, 0, 1]] (a1, v)
                  c6 = Conv-11 [group: 2, pads: [1, 0, 0, 1]] (a1, v)
                  z = Add-14 (c6, a1)
                  y = com.microsoft:FusedConv-1 (c4, w, _, c4)
                }
                2 refused: the summand may have another shape"#]],
        );
    }
}
