//! SingleInputElimination: `Concat(x) = Sum(x) = Mean(x) = Max(x) = Min(x) = x`.
//!
//! Our own pass: ONNX Runtime has no equivalent.

use crate::options::{Exactness, Level};
use crate::pass::Pass;
use crate::pattern::{op, var};
use crate::rule::{Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "SingleInputElimination",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || {
        let x = var("x");
        let names = ["Concat", "Sum", "Mean", "Max", "Min"];
        Rules::start(names.map(|name| rule(op(name, [&x]), &x)))
    },
};

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn an_operator_of_one_input_goes() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n]) -> (y, z) {
               a = Concat-13 [axis: 0] (x)
               b = Sum-13 (a)
               c = Mean-8 (b)
               d = Max-13 (c)
               e = Min-1 (d)
               y = Sum-13 (e, e)
               z = Concat-13 [axis: 0] (x)
             }",
            &expect![[r#"
                graph(x: float[n]) -> (y, z) {
                  y = Sum-13 (x, x)
                  z = Concat-13 [axis: 0] (x)
                }
                1 refused: it would change the name of a graph output"#]],
        );
    }
}
