//! GeluFusionL2: `½·x·(1 + erf(x/√2)) = Gelu(x)`, however the products are grouped.

use std::f64::consts::SQRT_2;

use ort_graph::Attrs;

use crate::options::{Exactness, Level};
use crate::pass::Pass;
use crate::pattern::{op, var};
use crate::rule::{Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "GeluFusionL2",
    level: Level::Extended,
    exactness: Exactness::Rounding,
    start: || {
        let x = var("x");
        let erf = op("Erf", [&x / SQRT_2]) + 1.0;
        let gelu = op("Gelu", [&x]).of("com.microsoft").since(1, |_| Attrs::new());
        Rules::start([
            rule(&x * &erf * 0.5, &gelu),
            rule(&x * (&erf * 0.5), &gelu),
            rule((&x * 0.5) * &erf, &gelu),
        ])
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
}
