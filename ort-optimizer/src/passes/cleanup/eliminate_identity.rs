//! EliminateIdentity: `Identity(x) = x`.

use crate::options::{Exactness, Level};
use crate::pass::Pass;
use crate::pattern::{op, var};
use crate::rule::{Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "EliminateIdentity",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || {
        let x = var("x");
        Rules::start([rule(op("Identity", [&x]), &x)])
    },
};

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn an_identity_goes_and_returned_values_keep_their_names() {
        assert_optimized(
            super::PASS,
            "graph(x: float[2], w = float[2] fill 1, c: bool[]) -> (y, z, u, v) {
               k = const float[2] [1, 2]
               a = Identity-1 (x)
               b = Identity-14 (a)
               y = Identity-14 (b)
               d = Add-14 (b, w)
               z = Identity-14 (d)
               u = Identity-14 (k)
               e = Identity-14 (w)
               v = If-16 [
                 then_branch: graph() -> (t) { f = Identity-14 (e) t = Mul-14 (f, k) },
                 else_branch: graph() -> (s) { s = Identity-14 (d) }
               ] (c)
             }",
            &expect![[r#"
                graph(x: float[2], w = float[2] fill 1, c: bool[]) -> (y, z, u, v) {
                  u = const float[2] [1, 2]
                  y = Identity-14 (x)
                  z = Add-14 (x, w)
                  v = If-16 [else_branch: graph() -> (s) {
                    d = outer z
                    s = Identity-14 (d)
                  }, then_branch: graph() -> (t) {
                    e = outer w
                    k = const float[2] [1, 2]
                    t = Mul-14 (e, k)
                  }] (c)
                }
                2 refused: it would change the name of a graph output"#]],
        );
    }
}
