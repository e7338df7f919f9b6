//! FastGeluFusion: `½·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))) = FastGelu(x)`, however the products
//! are grouped.
//!
//! f32 only: ONNX Runtime's CPU has no other kernel for it. Source: ONNX Runtime 1.31,
//! FastGeluFusion.

use ort_graph::Attrs;

use super::{gelu, is_f32};
use crate::options::{Exactness, Level};
use crate::pass::Pass;
use crate::pattern::{op, var};
use crate::rule::Rules;

pub(crate) const PASS: Pass = Pass {
    name: "FastGeluFusion",
    level: Level::Extended,
    exactness: Exactness::Rounding,
    start: || {
        let x = var("x");
        let gelu = op("FastGelu", [&x]).of("com.microsoft").since(1, |_| Attrs::new());
        Rules::start(gelu::by_tanh(&x, &gelu).map(|rule| rule.when(is_f32)))
    },
};

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::{assert_optimized, run};

    #[test]
    fn the_cube_is_written_in_many_ways() {
        assert_optimized(
            super::PASS,
            "graph(x: float[2,3]) -> (t, u, v, w) {
               s = const float[] 0.7978846
               k = const float[] 0.044715
               one = const float[] 1
               half = const float[] 0.5
               two = const float[] 2
               three = const float[] 3
               a1 = Pow-15 (x, three)
               a2 = Mul-14 (a1, k)
               a3 = Add-14 (x, a2)
               a4 = Mul-14 (a3, s)
               a5 = Tanh-13 (a4)
               a6 = Add-14 (a5, one)
               a7 = Mul-14 (x, half)
               t = Mul-14 (a7, a6)
               b1 = Mul-14 (t, t)
               b2 = Mul-14 (t, b1)
               b3 = Mul-14 (k, b2)
               b4 = Add-14 (b3, t)
               b5 = Mul-14 (s, b4)
               b6 = Tanh-13 (b5)
               b7 = Add-14 (one, b6)
               b8 = Mul-14 (b7, t)
               u = Mul-14 (half, b8)
               c1 = Mul-14 (u, k)
               c2 = Mul-14 (c1, u)
               c3 = Add-14 (c2, one)
               c4 = Mul-14 (u, s)
               c5 = Mul-14 (c4, c3)
               c6 = Tanh-13 (c5)
               c7 = Add-14 (c6, one)
               c8 = Mul-14 (u, c7)
               v = Div-14 (c8, two)
               d1 = Pow-15 (v, two)
               d2 = Mul-14 (k, d1)
               d3 = Add-14 (one, d2)
               d4 = Mul-14 (d3, v)
               d5 = Mul-14 (d4, s)
               d6 = Tanh-13 (d5)
               d7 = Add-14 (d6, one)
               d8 = Mul-14 (d7, half)
               w = Mul-14 (d8, v)
             }",
            &expect![[r#"
                graph(x: float[2,3]) -> (t, u, v, w) {
                  t = com.microsoft:FastGelu-1 (x)
                  u = com.microsoft:FastGelu-1 (t)
                  v = com.microsoft:FastGelu-1 (u)
                  w = com.microsoft:FastGelu-1 (v)
                }"#]],
        );
    }

    #[test]
    fn the_cube_can_be_multiplied_factor_by_factor() {
        assert_optimized(
            super::PASS,
            "graph(x: float[2,3]) -> (y) {
               s = const float[] 0.7978846
               k = const float[] 0.044715
               one = const float[] 1
               half = const float[] 0.5
               a = Mul-14 (k, x)
               b = Mul-14 (x, a)
               c = Mul-14 (x, b)
               d = Add-14 (x, c)
               e = Mul-14 (s, d)
               f = Tanh-13 (e)
               g = Add-14 (one, f)
               h = Mul-14 (half, g)
               y = Mul-14 (x, h)
             }",
            &expect![[r#"
                graph(x: float[2,3]) -> (y) {
                  y = com.microsoft:FastGelu-1 (x)
                }"#]],
        );
    }

    #[test]
    fn other_constants_and_other_types_stay() {
        for (dtype, factor) in [("float", "0.8"), ("double", "0.7978845608028654")] {
            let graph = format!(
                "graph(x: {dtype}[2,3]) -> (y) {{
                   s = const {dtype}[] {factor}
                   k = const {dtype}[] 0.044715
                   one = const {dtype}[] 1
                   half = const {dtype}[] 0.5
                   three = const {dtype}[] 3
                   a = Pow-15 (x, three)
                   b = Mul-14 (a, k)
                   c = Add-14 (x, b)
                   d = Mul-14 (c, s)
                   e = Tanh-13 (d)
                   f = Add-14 (e, one)
                   g = Mul-14 (x, half)
                   y = Mul-14 (g, f)
                 }}"
            );
            let (graph, _) = run(&super::PASS, &graph, None);
            assert_eq!(graph.n_nodes(), 8);
        }
    }
}
