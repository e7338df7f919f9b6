//! NoopElimination: `x + 0 = x − 0 = x · 1 = x / 1 = x`.
//!
//! All but one are exact: `x + 0` gives +0 where `x` is −0, and the rewritten graph gives −0.

use crate::options::{Exactness, Level};
use crate::pass::Pass;
use crate::pattern::var;
use crate::rule::{Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "NoopElimination",
    level: Level::Basic,
    exactness: Exactness::Rounding,
    start: || {
        let x = var("x");
        Rules::start([
            rule(&x + 0.0, &x),
            rule(&x - 0.0, &x),
            rule(&x * 1.0, &x),
            rule(&x / 1.0, &x),
        ])
    },
};

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn a_neutral_element_goes_if_the_rank_stays() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n], i: int64[2], u: float[...], one = float[1] [1]) -> (y, j, v, w, z) {
               f0 = const float[] 0
               f1 = const float[1] [1]
               f11 = const float[1,1] [1]
               ones = const float[2] fill 1
               minus = const float[1] [-0]
               i0 = const int64[1] [0]
               i1 = const int64[] 1
               a = Add-14 (x, f0)
               b = Add-7 (minus, a)
               c = Sub-14 (b, f0)
               d = Mul-14 (f1, c)
               y = Div-14 (d, f1)
               k = Mul-14 (i, i1)
               l = Div-14 (k, i1)
               j = Sub-14 (i0, l)
               v = Mul-14 (u, f1)
               e = Mul-14 (x, f11)
               f = Mul-14 (e, one)
               w = Mul-14 (f, ones)
               z = Add-14 (w, f0)
             }",
            &expect![[r#"
                graph(x: float[n], i: int64[2], u: float[...], one = float[1] [1]) -> (y, j, v, w, z) {
                  f0 = const float[] 0
                  f1 = const float[1] [1]
                  f11 = const float[1,1] [1]
                  ones = const float[2] fill 1
                  i0 = const int64[1] [0]
                  y = Div-14 (x, f1)
                  j = Sub-14 (i0, i)
                  v = Mul-14 (u, f1)
                  e = Mul-14 (x, f11)
                  f = Mul-14 (e, one)
                  w = Mul-14 (f, ones)
                  z = Add-14 (w, f0)
                }
                2 refused: it would change the name of a graph output
                2 refused: its rank may change"#]],
        );
    }
}
