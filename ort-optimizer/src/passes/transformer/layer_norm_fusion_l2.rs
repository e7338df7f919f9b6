//! LayerNormFusionL2: `(x − mean(x)) / √(mean((x − mean(x))²) + ε) · scale + bias` over the last axes
//! is a LayerNormalization: version 1, which ONNX Runtime adds to ai.onnx, where the model's opset is
//! below 17.
//!
//! f32 only, without the Casts that ONNX Runtime looks through. Source: ONNX Runtime 1.31, LayerNormFusionL2, which
//! requires a bias; here it is optional.

use super::layer_norm::{self, VERSION};
use crate::options::{Exactness, Level};
use crate::pass::Pass;
use crate::rule::Rules;

pub(crate) const PASS: Pass = Pass {
    name: "LayerNormFusionL2",
    level: Level::Extended,
    exactness: Exactness::Rounding,
    start: || {
        let standard = layer_norm::rules(VERSION).into_iter();
        let standard = standard.map(|rule| rule.since_opset(VERSION.into()));
        Rules::start(standard.chain(layer_norm::rules(1)))
    },
};

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::{assert_optimized, assert_optimized_in};

    const GRAPH: &str = "graph(x: float[n,3]) -> (y) {
       two = const float[] 2
       epsilon = const float[1] [1e-5]
       scale = const float[3] [1, 2, 3]
       bias = const float[3] [4, 5, 6]
       a1 = ReduceMean-13 [axes: [1]] (x)
       a2 = Sub-14 (x, a1)
       a3 = Pow-15 (a2, two)
       a4 = ReduceMean-13 [axes: [-1]] (a3)
       a5 = Add-14 (a4, epsilon)
       a6 = Sqrt-13 (a5)
       a7 = Div-14 (a2, a6)
       a8 = Mul-14 (a7, scale)
       y = Add-14 (bias, a8)
     }";

    #[test]
    fn an_older_model_gets_version_1() {
        assert_optimized_in(
            Some(14),
            super::PASS,
            GRAPH,
            &expect![[r#"
            graph(x: float[n,3]) -> (y) {
              scale = const float[3] [1, 2, 3]
              bias = const float[3] [4, 5, 6]
              y = LayerNormalization-1 [axis: -1, epsilon: 1e-5, stash_type: 1] (x, scale, bias)
            }"#]],
        );
        assert_optimized_in(
            Some(17),
            super::PASS,
            GRAPH,
            &expect![[r#"
            graph(x: float[n,3]) -> (y) {
              scale = const float[3] [1, 2, 3]
              bias = const float[3] [4, 5, 6]
              y = LayerNormalization-17 [axis: -1, epsilon: 1e-5, stash_type: 1] (x, scale, bias)
            }"#]],
        );
    }

    #[test]
    fn other_axes_parameters_and_types_stay() {
        let norm = |inputs: &str, mean: &str, variance: &str, scale: &str| {
            format!(
                "graph({inputs}) -> (y) {{
                   two = const float[] 2
                   epsilon = const float[] 1e-5
                   a1 = ReduceMean-13 [{mean}] (x)
                   a2 = Sub-14 (x, a1)
                   a3 = Pow-15 (a2, two)
                   a4 = ReduceMean-13 [{variance}] (a3)
                   a5 = Add-14 (a4, epsilon)
                   a6 = Sqrt-13 (a5)
                   a7 = Div-14 (a2, a6)
                   y = Mul-14 (a7, {scale})
                 }}"
            )
        };
        let refused = |text: &str| {
            let (graph, report) = crate::testing::run(&super::PASS, text, None);
            let refused = report.passes.iter().flat_map(|pass| &pass.refused);
            let reasons: Vec<&str> = refused.map(|(reason, _)| *reason).collect();
            assert_eq!(graph.n_nodes(), 8);
            reasons.join(", ")
        };
        let x = "x: float[2,3], s: float[3], one: float[1], whole: float[2,3]";
        let last = "axes: [-1]";
        for (text, reason) in [
            (norm(x, last, "axes: [0]", "s"), "its means are not over the same, known axes"),
            (
                norm(x, "axes: [0]", "axes: [0]", "s"),
                "its axes are not the last ones, or not known",
            ),
            (
                norm(x, "keepdims: 1", "keepdims: 1", "whole"),
                "its means are not over the same, known axes",
            ),
            (norm(x, last, last, "one"), "its scale is not one for each element of a row"),
            (norm(x, last, last, "whole"), "its scale is not one for each element of a row"),
            (
                norm("x: float[2,?], s: float[3]", last, last, "s"),
                "its scale is not one for each element of a row",
            ),
            (
                norm("x: float[...], s: float[3]", last, last, "s"),
                "its means are not over the same, known axes",
            ),
        ] {
            assert_eq!(refused(&text), reason, "{text}");
        }
    }

    #[test]
    fn a_bias_of_another_shape_stays() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,3], b: float[1], c: float[3], d: float[2,3]) -> (y, z, w, m) {
               one = const float[3] fill 1
               a, m = LayerNormalization-17 (x, one)
               y = Add-14 (a, c)
               e = LayerNormalization-17 (x, one)
               z = Add-14 (e, b)
               f = LayerNormalization-17 (x, one, c)
               w = Add-14 (f, c)
             }",
            &expect![[r#"
                graph(x: float[n,3], b: float[1], c: float[3], d: float[2,3]) -> (y, z, w, m) {
                  one = const float[3] fill 1
                  a, m = LayerNormalization-17 (x, one)
                  y = Add-14 (a, c)
                  e = LayerNormalization-17 (x, one)
                  z = Add-14 (e, b)
                  f = LayerNormalization-17 (x, one, c)
                  w = Add-14 (f, c)
                }
                1 refused: a value within it is used elsewhere
                1 refused: its bias is not one for each element of a row"#]],
        );
    }
}
