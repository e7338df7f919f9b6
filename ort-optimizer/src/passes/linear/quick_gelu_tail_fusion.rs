//! QuickGeluTailFusion: `QuickGelu(y)`, including SiLU, becomes the function at the end of the Conv or
//! Gemm that computes `y`.
//!
//! Our own pass, of the last level: ONNX Runtime's FusedConv and FusedGemm lack the function.

use ort_graph::{Attr, Attrs};

use super::activations::{expect_f32, fused, with_and_without_bias};
use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::Pass;
use crate::pattern::op;
use crate::rule::{Rule, Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "QuickGeluTailFusion",
    level: Level::All,
    exactness: Exactness::Rounding,
    start: || {
        let convs = rules("Conv", "FusedConv", |found| {
            let alpha = Attr::Floats(vec![alpha(found)]);
            with_quick_gelu(found).with("activation_params", alpha)
        });
        let gemms = rules("Gemm", "FusedGemm", |found| {
            with_quick_gelu(found).with("activation_alpha", Attr::Float(alpha(found)))
        });
        Rules::start(convs.into_iter().chain(gemms))
    },
};

fn rules(plain: &'static str, name: &'static str, attrs: fn(&Match<'_>) -> Attrs) -> [Rule; 2] {
    with_and_without_bias(plain).map(|product| {
        let after = fused(name, &product, attrs);
        rule(op("QuickGelu", [product]).of("com.microsoft"), after).when(expect_f32)
    })
}

fn with_quick_gelu(found: &Match<'_>) -> Attrs {
    found.node("product").attrs.clone().with("activation", Attr::String("QuickGelu".to_owned()))
}

fn alpha(found: &Match<'_>) -> f32 {
    match found.root().attrs.get("alpha") {
        Some(Attr::Float(alpha)) => *alpha,
        _ => 1.702,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn a_quick_gelu_enters_the_product() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,2,5], v: float[m,2], u: double[n,2,5]) -> (b, f, g, d3, h, e) {
               w = const float[2,2,1] [1, -2, 3, 0.5]
               b1 = const float[2] [1, 2]
               k = const float[2,2] [1, -2, 3, 0.5]
               c1 = Conv-11 [kernel_shape: [1]] (x, w, b1)
               a = com.microsoft:QuickGelu-1 [alpha: 1.0] (c1)
               c2 = Conv-11 (a, w)
               b = com.microsoft:QuickGelu-1 (c2)
               g1 = Gemm-13 [transB: 1] (v, k, b1)
               f = com.microsoft:QuickGelu-1 (g1)
               g2 = Gemm-13 (v, k)
               g = com.microsoft:QuickGelu-1 [alpha: 0.5] (g2)
               d3 = Conv-11 (x, w)
               h = com.microsoft:QuickGelu-1 (d3)
               z = const double[2,2,1] [1, -2, 3, 0.5]
               d4 = Conv-11 (u, z)
               e = com.microsoft:QuickGelu-1 (d4)
             }",
            &expect![[r#"
                graph(x: float[n,2,5], v: float[m,2], u: double[n,2,5]) -> (b, f, g, d3, h, e) {
                  w = const float[2,2,1] [1, -2, 3, 0.5]
                  b1 = const float[2] [1, 2]
                  k = const float[2,2] [1, -2, 3, 0.5]
                  z = const double[2,2,1] [1, -2, 3, 0.5]
                  d3 = Conv-11 (x, w)
                  h = com.microsoft:QuickGelu-1 (d3)
                  d4 = Conv-11 (u, z)
                  e = com.microsoft:QuickGelu-1 (d4)
                  a = com.microsoft:FusedConv-1 [activation: "QuickGelu", activation_params: [1.0], kernel_shape: [1]] (x, w, b1)
                  b = com.microsoft:FusedConv-1 [activation: "QuickGelu", activation_params: [1.702]] (a, w)
                  f = com.microsoft:FusedGemm-1 [activation: "QuickGelu", activation_alpha: 1.702, transB: 1] (v, k, b1)
                  g = com.microsoft:FusedGemm-1 [activation: "QuickGelu", activation_alpha: 0.5] (v, k)
                }
                1 refused: a value within it is used elsewhere
                1 refused: it does not compute in f32"#]],
        );
    }
}
