//! ExpandElimination: an Expand that stretches nothing.

use ort_graph::Dim;

use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::{op, var};
use crate::rule::{Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "ExpandElimination",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || {
        let (x, shape) = (var("x"), var("shape"));
        Rules::start([rule(op("Expand", [&x, &shape]), &x).when(stretches_nothing)])
    },
};

/// The rank stays, and each dimension stays or is asked to be 1, which means any.
fn stretches_nothing(found: &Match<'_>) -> Result<(), Refusal> {
    let output = found.root().outputs.first().copied().flatten();
    let (x, y) = (found.fact("x").dims(), output.and_then(|y| found.graph.fact(y).dims()));
    let (Some(x), Some(y)) = (x, y) else { return Err(Refusal("its rank is not known")) };
    let target = found.fact("shape").ints().unwrap_or_default();
    let n_added = x.len().saturating_sub(target.len());
    let stays = |(axis, (before, after)): (usize, (&Dim, &Dim))| {
        let asked = axis.checked_sub(n_added).and_then(|axis| target.get(axis));
        before.equals(after) || asked == Some(&1)
    };
    if x.len() == y.len() && x.iter().zip(y).enumerate().all(stays) {
        Ok(())
    } else {
        Err(Refusal("it may stretch a dimension"))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_rewritten;

    #[test]
    fn an_expand_goes_if_no_dimension_changes() {
        assert_rewritten(
            super::PASS,
            "graph(x: float[n,?,4], s: int64[2], r: int64[?]) -> (y) {
               ones = const int64[2] fill 1
               four = const int64[1] [4]
               added = const int64[4] fill 1
               a = Expand-13 (x, ones)
               b = Expand-8 (a, four)
               c = Expand-13 (b, s)
               d = Expand-13 (c, added)
               y = Expand-13 (d, r)
             }",
            &expect![[r#"
                graph(x: float[n,?,4], s: int64[2], r: int64[?]) -> (y) {
                  four = const int64[1] [4]
                  added = const int64[4] fill 1
                  b = Expand-8 (x, four)
                  c = Expand-13 (b, s)
                  d = Expand-13 (c, added)
                  y = Expand-13 (d, r)
                }
                3 refused: it may stretch a dimension
                1 refused: its rank is not known"#]],
        );
    }
}
