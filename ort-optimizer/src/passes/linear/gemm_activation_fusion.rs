//! GemmActivationFusion: `f(Gemm(a, b, c)) = com.microsoft:FusedGemm(a, b, c)`, for the functions that FusedGemm
//! supports.
//!
//! Source: ONNX Runtime 1.31, GemmActivationFusion.

use super::activations::{OF_GEMM, expect_f32, fused, of_gemm, parameters, with_and_without_bias};
use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::op;
use crate::rule::{Rule, Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "GemmActivationFusion",
    level: Level::Extended,
    exactness: Exactness::Rounding,
    start: || Rules::start(OF_GEMM.into_iter().flat_map(rules)),
};

fn rules(activation: &'static str) -> [Rule; 2] {
    with_and_without_bias("Gemm").map(|gemm| {
        let after = fused("FusedGemm", &gemm, |found| {
            of_gemm(&found.node("product").attrs, found.graph, found.root())
        });
        rule(op(activation, [gemm]), after).when(is_fusible)
    })
}

fn is_fusible(found: &Match<'_>) -> Result<(), Refusal> {
    expect_f32(found)?;
    if found.node("product").since_version < 7 {
        return Err(Refusal("its bias broadcasts by an attribute"));
    }
    parameters(found.graph, found.root()).map(drop)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn functions_after_products_enter_them() {
        assert_optimized(
            super::PASS,
            "graph(x: float[m,2]) -> (y) {
               w = const float[2,2] [1, -2, 3, 0.5]
               b = const float[2] [1, 2]
               g1 = Gemm-13 [transB: 1] (x, w, b)
               a1 = Relu-14 (g1)
               g2 = Gemm-11 [alpha: 0.5] (a1, w)
               a2 = Selu-6 (g2)
               g3 = Gemm-13 (a2, w, b)
               a3 = HardSigmoid-6 [beta: 0.25] (g3)
               g4 = Gemm-13 (a3, w, b)
               a4 = Softplus-1 (g4)
               g5 = Gemm-13 (a4, w, b)
               a5 = Elu-6 [alpha: 2.0] (g5)
               g6 = Gemm-13 (a5, w, b)
               y = ThresholdedRelu-10 (g6)
             }",
            &expect![[r#"
                graph(x: float[m,2]) -> (y) {
                  w = const float[2,2] [1, -2, 3, 0.5]
                  b = const float[2] [1, 2]
                  a1 = com.microsoft:FusedGemm-1 [activation: "Relu", transB: 1] (x, w, b)
                  a2 = com.microsoft:FusedGemm-1 [activation: "Selu", activation_alpha: 1.6732632, activation_gamma: 1.050701, alpha: 0.5] (a1, w)
                  a3 = com.microsoft:FusedGemm-1 [activation: "HardSigmoid", activation_alpha: 0.2, activation_beta: 0.25] (a2, w, b)
                  a4 = com.microsoft:FusedGemm-1 [activation: "Softplus"] (a3, w, b)
                  a5 = com.microsoft:FusedGemm-1 [activation: "Elu", activation_alpha: 2.0] (a4, w, b)
                  y = com.microsoft:FusedGemm-1 [activation: "ThresholdedRelu", activation_alpha: 1.0] (a5, w, b)
                }"#]],
        );
    }

    #[test]
    fn other_functions_and_types_stay() {
        assert_optimized(
            super::PASS,
            "graph(x: float[m,2], d: double[m,2]) -> (y, z, u, v) {
               w = const float[2,2] [1, -2, 3, 0.5]
               l = const double[2,2] [1, -2, 3, 0.5]
               g1 = Gemm-13 (x, w)
               y = Clip-13 (g1)
               g2 = Gemm-13 (d, l)
               z = Relu-14 (g2)
               g3 = Gemm-13 (x, w)
               u = Relu-14 (g3)
               v = Tanh-13 (g3)
             }",
            &expect![[r#"
                graph(x: float[m,2], d: double[m,2]) -> (y, z, u, v) {
                  w = const float[2,2] [1, -2, 3, 0.5]
                  l = const double[2,2] [1, -2, 3, 0.5]
                  g1 = Gemm-13 (x, w)
                  y = Clip-13 (g1)
                  g2 = Gemm-13 (d, l)
                  z = Relu-14 (g2)
                  g3 = Gemm-13 (x, w)
                  u = Relu-14 (g3)
                  v = Tanh-13 (g3)
                }
                1 refused: it does not compute in f32
                2 refused: a value within it is used elsewhere"#]],
        );
    }
}
