//! PreShapeNodeElimination: `Shape(Cast(x)) = Shape(x)`.
//!
//! Source: ONNX Runtime 1.31, PreShapeNodeElimination, which requires that nothing else reads the Cast.

use crate::options::{Exactness, Level};
use crate::pass::Pass;
use crate::pattern::{op, var};
use crate::rule::{Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "PreShapeNodeElimination",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || {
        let x = var("x");
        Rules::start([rule(op("Shape", [op("Cast", [&x])]), op("Shape", [&x])).sharing()])
    },
};

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn a_cast_changes_no_shape() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,m]) -> (y, z, w) {
               a = Cast-13 [to: 7] (x)
               y = Shape-15 [start: 1] (a)
               z = Shape-13 (a)
               b = Cast-13 [to: 11] (x)
               w = Neg-13 (b)
               c = Shape-1 (b)
             }",
            &expect![[r#"
                graph(x: float[n,m]) -> (y, z, w) {
                  b = Cast-13 [to: 11] (x)
                  w = Neg-13 (b)
                  y = Shape-15 [start: 1] (x)
                  z = Shape-13 (x)
                  c = Shape-1 (x)
                }"#]],
        );
    }
}
