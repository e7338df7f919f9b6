//! CastElimination: a Cast to the operand's own type.

use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::{op, var};
use crate::rule::{Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "CastElimination",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || {
        let x = var("x");
        Rules::start([rule(op("Cast", [&x]), &x).when(keeps_type)])
    },
};

fn keeps_type(found: &Match<'_>) -> Result<(), Refusal> {
    let output = found.root().outputs.first().copied().flatten();
    let (from, to) = (found.fact("x").dtype(), output.and_then(|y| found.graph.fact(y).dtype()));
    if from.is_some() && from == to { Ok(()) } else { Err(Refusal("it changes the type")) }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn a_cast_goes_if_the_type_stays() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n]) -> (y) {
               a = Cast-13 [to: 1] (x)
               b = Cast-13 [to: 7] (a)
               c = Cast-19 [to: 7, saturate: 1] (b)
               y = Cast-13 [to: 1] (c)
             }",
            &expect![[r#"
                graph(x: float[n]) -> (y) {
                  b = Cast-13 [to: 7] (x)
                  y = Cast-13 [to: 1] (b)
                }
                2 refused: it changes the type"#]],
        );
    }
}
