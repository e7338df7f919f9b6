//! CastChainElimination: `Cast(Cast(x)) = Cast(x)`, to the type of the outer.
//!
//! Approximate, as the inner type may be narrower: it loses fractions that the rewritten graph
//! keeps. Source: ONNX Runtime 1.31, CastChainElimination, which also runs only on request.

use crate::options::{Exactness, Level};
use crate::pass::Pass;
use crate::pattern::{op, var};
use crate::rule::{Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "CastChainElimination",
    level: Level::Basic,
    exactness: Exactness::Approximate,
    start: || {
        let x = var("x");
        let inner = op("Cast", [&x]).labelled("inner");
        Rules::start([rule(op("Cast", [&inner]), op("Cast", [&x])).sharing()])
    },
};

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn only_the_last_of_casts_stays() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n]) -> (y, z) {
               a = Cast-13 [to: 10] (x)
               b = Cast-19 [to: 16, saturate: 0] (a)
               y = Cast-13 [to: 1] (b)
               z = Neg-13 (a)
             }",
            &expect![[r#"
                graph(x: float[n]) -> (y, z) {
                  a = Cast-13 [to: 10] (x)
                  z = Neg-13 (a)
                  y = Cast-13 [to: 1] (x)
                }"#]],
        );
    }
}
