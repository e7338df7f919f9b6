//! GeluFusionL1: `½·x·(1 + erf(x/√2)) = Gelu(x)`, the Gelu that ai.onnx has from opset 20 on.
//!
//! f32 only: ONNX Runtime's CPU has no other kernel for it. Source: ONNX Runtime 1.31, GeluFusionL1.

use ort_graph::Attrs;

use super::{gelu, is_f32};
use crate::options::{Exactness, Level};
use crate::pass::Pass;
use crate::pattern::{op, var};
use crate::rule::Rules;

pub(crate) const PASS: Pass = Pass {
    name: "GeluFusionL1",
    level: Level::Basic,
    exactness: Exactness::Rounding,
    start: || {
        let x = var("x");
        let gelu = op("Gelu", [&x]).since(20, |_| Attrs::new());
        let rules = gelu::exact(&x, &gelu);
        Rules::start(rules.map(|rule| rule.since_opset(20).when(is_f32)))
    },
};

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized_in;

    #[test]
    fn only_a_model_of_opset_20_has_it() {
        let graph = "graph(x: float[2,3]) -> (y) {
           root = const float[] 1.4142135
           one = const float[] 1
           half = const float[] 0.5
           a = Div-14 (x, root)
           b = Erf-13 (a)
           c = Add-14 (b, one)
           d = Mul-14 (x, c)
           y = Mul-14 (d, half)
         }";
        assert_optimized_in(
            Some(19),
            super::PASS,
            graph,
            &expect![[r#"
            graph(x: float[2,3]) -> (y) {
              root = const float[] 1.4142135
              one = const float[] 1
              half = const float[] 0.5
              a = Div-14 (x, root)
              b = Erf-13 (a)
              c = Add-14 (b, one)
              d = Mul-14 (x, c)
              y = Mul-14 (d, half)
            }"#]],
        );
        assert_optimized_in(
            Some(20),
            super::PASS,
            graph,
            &expect![[r#"
            graph(x: float[2,3]) -> (y) {
              y = Gelu-20 (x)
            }"#]],
        );
    }
}
