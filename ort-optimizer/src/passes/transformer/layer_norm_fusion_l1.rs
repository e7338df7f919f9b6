//! LayerNormFusionL1: `(x − mean(x)) / √(mean((x − mean(x))²) + ε) · scale + bias` over the last axes
//! is the LayerNormalization that ai.onnx has from opset 17 on.
//!
//! f32 only, without the Casts that ONNX Runtime looks through. Source: ONNX Runtime 1.31, LayerNormFusionL1, which
//! requires a bias; here it is optional.

use super::layer_norm;
use crate::options::{Exactness, Level};
use crate::pass::Pass;
use crate::rule::Rules;

pub(crate) const PASS: Pass = Pass {
    name: "LayerNormFusionL1",
    level: Level::Basic,
    exactness: Exactness::Rounding,
    start: || {
        let rules = layer_norm::rules(layer_norm::VERSION).into_iter();
        Rules::start(rules.map(|rule| rule.since_opset(layer_norm::VERSION.into())))
    },
};

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized_in;

    #[test]
    fn axes_are_attributes_or_inputs() {
        assert_optimized_in(
            Some(18),
            super::PASS,
            "graph(x: float[n,2,3]) -> (y, z) {
               two = const float[] 2
               epsilon = const float[] 1e-5
               scale = const float[3] [1, 2, 3]
               bias = const float[3] [4, 5, 6]
               plane = const float[2,3] fill 2
               last = const int64[1] [-1]
               both = const int64[2] [2, 1]
               a1 = ReduceMean-18 (x, last)
               a2 = Sub-14 (x, a1)
               a3 = Pow-15 (a2, two)
               a4 = ReduceMean-18 (a3, last)
               a5 = Add-14 (a4, epsilon)
               a6 = Sqrt-13 (a5)
               a7 = Div-14 (a2, a6)
               a8 = Mul-14 (a7, scale)
               y = Add-14 (bias, a8)
               b1 = ReduceMean-18 (y, both)
               b2 = Sub-14 (y, b1)
               b3 = Mul-14 (b2, b2)
               b4 = ReduceMean-13 [axes: [1, 2]] (b3)
               b5 = Add-14 (epsilon, b4)
               b6 = Sqrt-13 (b5)
               b7 = Reciprocal-13 (b6)
               b8 = Mul-14 (b7, b2)
               z = Mul-14 (plane, b8)
             }",
            &expect![[r#"
                graph(x: float[n,2,3]) -> (y, z) {
                  scale = const float[3] [1, 2, 3]
                  bias = const float[3] [4, 5, 6]
                  plane = const float[2,3] fill 2
                  y = LayerNormalization-17 [axis: -1, epsilon: 1e-5, stash_type: 1] (x, scale, bias)
                  z = LayerNormalization-17 [axis: -2, epsilon: 1e-5, stash_type: 1] (y, plane)
                }"#]],
        );
    }

    #[test]
    fn a_model_of_opset_16_has_no_such_node() {
        assert_optimized_in(
            Some(16),
            super::PASS,
            "graph(x: float[n,3]) -> (y) {
               two = const float[] 2
               epsilon = const float[] 1e-5
               scale = const float[3] [1, 2, 3]
               a1 = ReduceMean-13 [axes: [-1]] (x)
               a2 = Sub-14 (x, a1)
               a3 = Pow-15 (a2, two)
               a4 = ReduceMean-13 [axes: [-1]] (a3)
               a5 = Add-14 (a4, epsilon)
               a6 = Sqrt-13 (a5)
               a7 = Div-14 (a2, a6)
               y = Mul-14 (a7, scale)
             }",
            &expect![[r#"
                graph(x: float[n,3]) -> (y) {
                  two = const float[] 2
                  epsilon = const float[] 1e-5
                  scale = const float[3] [1, 2, 3]
                  a1 = ReduceMean-13 [axes: [-1]] (x)
                  a2 = Sub-14 (x, a1)
                  a3 = Pow-15 (a2, two)
                  a4 = ReduceMean-13 [axes: [-1]] (a3)
                  a5 = Add-14 (a4, epsilon)
                  a6 = Sqrt-13 (a5)
                  a7 = Div-14 (a2, a6)
                  y = Mul-14 (a7, scale)
                }"#]],
        );
    }
}
