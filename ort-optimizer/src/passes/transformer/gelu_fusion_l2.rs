//! GeluFusionL2: `½·x·(1 + erf(x/√2)) = Gelu(x)`, com.microsoft's, however the products are grouped
//! and whether √2 divides or its reciprocal multiplies.
//!
//! f32 only: ONNX Runtime's CPU has no other kernel for it. Source: ONNX Runtime 1.31, GeluFusionL2,
//! which also accepts 1.41421 for √2; we require the nearest number of the type.

use ort_graph::Attrs;

use super::{gelu, is_f32};
use crate::options::{Exactness, Level};
use crate::pass::Pass;
use crate::pattern::{op, var};
use crate::rule::Rules;

pub(crate) const PASS: Pass = Pass {
    name: "GeluFusionL2",
    level: Level::Extended,
    exactness: Exactness::Rounding,
    start: || {
        let x = var("x");
        let gelu = op("Gelu", [&x]).of("com.microsoft").since(1, |_| Attrs::new());
        Rules::start(gelu::exact(&x, &gelu).map(|rule| rule.when(is_f32)))
    },
};

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn gelu_is_found_in_any_order() {
        assert_optimized(
            super::PASS,
            "graph(x: float[2,3]) -> (u, v, w, z) {
               root = const float[] 1.4142135
               one = const float[1] [1]
               half = const float[] 0.5
               a1 = Div-14 (x, root)
               a2 = Erf-13 (a1)
               a3 = Add-14 (one, a2)
               a4 = Mul-14 (a3, x)
               u = Mul-14 (half, a4)
               b1 = Div-14 (u, root)
               b2 = Erf-13 (b1)
               b3 = Add-14 (b2, one)
               b4 = Mul-14 (half, b3)
               v = Mul-14 (u, b4)
               c1 = Div-14 (v, root)
               c2 = Erf-13 (c1)
               c3 = Add-14 (c2, one)
               c4 = Mul-14 (v, half)
               w = Mul-14 (c3, c4)
               d1 = Div-14 (w, root)
               d2 = Erf-13 (d1)
               d3 = Add-14 (d2, one)
               d4 = Mul-14 (v, half)
               z = Mul-14 (d3, d4)
             }",
            &expect![[r#"
                graph(x: float[2,3]) -> (u, v, w, z) {
                  root = const float[] 1.4142135
                  one = const float[1] [1]
                  half = const float[] 0.5
                  u = com.microsoft:Gelu-1 (x)
                  v = com.microsoft:Gelu-1 (u)
                  d4 = Mul-14 (v, half)
                  w = com.microsoft:Gelu-1 (v)
                  d1 = Div-14 (w, root)
                  d2 = Erf-13 (d1)
                  d3 = Add-14 (d2, one)
                  z = Mul-14 (d3, d4)
                }"#]],
        );
    }

    #[test]
    fn a_reciprocal_may_multiply_and_two_may_divide() {
        assert_optimized(
            super::PASS,
            "graph(x: float[2,3], d: double[2]) -> (y, z, e) {
               root = const float[] 0.70710677
               one = const float[] 1
               two = const float[] 2
               a1 = Mul-14 (root, x)
               a2 = Erf-13 (a1)
               a3 = Add-14 (a2, one)
               a4 = Div-14 (x, two)
               y = Mul-14 (a3, a4)
               b1 = Mul-14 (y, root)
               b2 = Erf-13 (b1)
               b3 = Add-14 (b2, one)
               b4 = Mul-14 (b3, y)
               z = Div-14 (b4, two)
               droot = const double[] 1.4142135623730951
               done = const double[] 1
               dhalf = const double[] 0.5
               d1 = Div-14 (d, droot)
               d2 = Erf-13 (d1)
               d3 = Add-14 (d2, done)
               d4 = Mul-14 (d, d3)
               e = Mul-14 (d4, dhalf)
             }",
            &expect![[r#"
                graph(x: float[2,3], d: double[2]) -> (y, z, e) {
                  droot = const double[] 1.4142135623730951
                  done = const double[] 1
                  dhalf = const double[] 0.5
                  d1 = Div-14 (d, droot)
                  d2 = Erf-13 (d1)
                  d3 = Add-14 (d2, done)
                  d4 = Mul-14 (d, d3)
                  e = Mul-14 (d4, dhalf)
                  y = com.microsoft:Gelu-1 (x)
                  z = com.microsoft:Gelu-1 (y)
                }
                1 refused: it is not f32"#]],
        );
    }

    #[test]
    fn values_with_other_readers_stay() {
        assert_optimized(
            super::PASS,
            "graph(x: float[2,3]) -> (y, b) {
               root = const float[] 1.4142135
               one = const float[] 1
               half = const float[] 0.5
               a = Div-14 (x, root)
               b = Erf-13 (a)
               c = Add-14 (b, one)
               d = Mul-14 (x, c)
               y = Mul-14 (d, half)
             }",
            &expect![[r#"
                graph(x: float[2,3]) -> (y, b) {
                  root = const float[] 1.4142135
                  one = const float[] 1
                  half = const float[] 0.5
                  a = Div-14 (x, root)
                  b = Erf-13 (a)
                  c = Add-14 (b, one)
                  d = Mul-14 (x, c)
                  y = Mul-14 (d, half)
                }
                1 refused: a value within it is used elsewhere"#]],
        );
    }
}
