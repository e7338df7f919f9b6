//! ConvActivationFusion: `f(Conv(x, w, b)) = com.microsoft:FusedConv(x, w, b)`, where `f` is Relu,
//! Sigmoid, Tanh, LeakyRelu, Clip or HardSigmoid.
//!
//! Source: ONNX Runtime 1.31, ConvActivationFusion.

use super::activations::{OF_CONV, expect_f32, fused, of_conv, parameters, with_and_without_bias};
use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::op;
use crate::rule::{Rule, Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "ConvActivationFusion",
    level: Level::Extended,
    exactness: Exactness::Rounding,
    start: || Rules::start(OF_CONV.into_iter().flat_map(rules)),
};

fn rules(activation: &'static str) -> [Rule; 2] {
    with_and_without_bias("Conv").map(|conv| {
        let after = fused("FusedConv", &conv, |found| {
            of_conv(&found.node("product").attrs, found.graph, found.root())
        });
        rule(op(activation, [conv]).and_more(), after).when(is_fusible)
    })
}

fn is_fusible(found: &Match<'_>) -> Result<(), Refusal> {
    expect_f32(found)?;
    parameters(found.graph, found.root()).map(drop)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn functions_after_convolutions_enter_them() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,2,5]) -> (y, z) {
               w = const float[2,2,1] [1, -2, 3, 0.5]
               b = const float[2] [1, 2]
               min = const float[] -1
               max = const float[1] [6]
               c1 = Conv-11 [kernel_shape: [1]] (x, w, b)
               a1 = Relu-14 (c1)
               c2 = Conv-1 (a1, w)
               a2 = Sigmoid-13 (c2)
               c3 = Conv-22 (a2, w)
               a3 = Tanh-13 (c3)
               c4 = Conv-11 (a3, w, b)
               a4 = LeakyRelu-16 [alpha: 0.125] (c4)
               c5 = Conv-11 (a4, w, b)
               a5 = HardSigmoid-6 (c5)
               c6 = Conv-11 (a5, w, b)
               a6 = Clip-6 [min: 0.0] (c6)
               c7 = Conv-11 (a6, w, b)
               y = Clip-13 (c7, min, max)
               c8 = Conv-11 (a6, w, b)
               z = Clip-13 (c8, _, max)
             }",
            &expect![[r#"
                graph(x: float[n,2,5]) -> (y, z) {
                  w = const float[2,2,1] [1, -2, 3, 0.5]
                  b = const float[2] [1, 2]
                  a1 = com.microsoft:FusedConv-1 [activation: "Relu", kernel_shape: [1]] (x, w, b)
                  a2 = com.microsoft:FusedConv-1 [activation: "Sigmoid"] (a1, w)
                  a3 = com.microsoft:FusedConv-1 [activation: "Tanh"] (a2, w)
                  a4 = com.microsoft:FusedConv-1 [activation: "LeakyRelu", activation_params: [0.125]] (a3, w, b)
                  a5 = com.microsoft:FusedConv-1 [activation: "HardSigmoid", activation_params: [0.2, 0.5]] (a4, w, b)
                  a6 = com.microsoft:FusedConv-1 [activation: "Clip", activation_params: [0.0, 3.4028235e38]] (a5, w, b)
                  y = com.microsoft:FusedConv-1 [activation: "Clip", activation_params: [-1.0, 6.0]] (a6, w, b)
                  z = com.microsoft:FusedConv-1 [activation: "Clip", activation_params: [-inf, 6.0]] (a6, w, b)
                }"#]],
        );
    }

    #[test]
    fn other_functions_and_types_stay() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,2,5], d: double[n,2,5], min: float[]) -> (y, c1, z, u, v) {
               w = const float[2,2,1] [1, -2, 3, 0.5]
               l = const double[2,2,1] [1, -2, 3, 0.5]
               c1 = Conv-11 (x, w)
               y = Relu-14 (c1)
               c2 = Conv-11 (x, w)
               z = Clip-13 (c2, min)
               c3 = Conv-11 (d, l)
               u = Relu-14 (c3)
               c4 = Conv-11 (x, w)
               v = Elu-6 (c4)
             }",
            &expect![[r#"
                graph(x: float[n,2,5], d: double[n,2,5], min: float[]) -> (y, c1, z, u, v) {
                  w = const float[2,2,1] [1, -2, 3, 0.5]
                  l = const double[2,2,1] [1, -2, 3, 0.5]
                  c1 = Conv-11 (x, w)
                  y = Relu-14 (c1)
                  c2 = Conv-11 (x, w)
                  z = Clip-13 (c2, min)
                  c3 = Conv-11 (d, l)
                  u = Relu-14 (c3)
                  c4 = Conv-11 (x, w)
                  v = Elu-6 (c4)
                }
                1 refused: a value within it is used elsewhere
                1 refused: its bounds are not known
                1 refused: it does not compute in f32"#]],
        );
    }
}
