//! ExpandElimination: an Expand that does not broadcast.

use ort_graph::Dim;

use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::{op, var};
use crate::rule::{Rules, rule};
use crate::sizes::{Size, sizes};

pub(crate) const PASS: Pass = Pass {
    name: "ExpandElimination",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || {
        let (x, shape) = (var("x"), var("shape"));
        Rules::start([rule(op("Expand", [&x, &shape]), &x).when(does_not_broadcast)])
    },
};

/// The rank stays, and each dimension stays, or is requested as 1, which matches any, or as itself.
fn does_not_broadcast(found: &Match<'_>) -> Result<(), Refusal> {
    let output = found.root().outputs.first().copied().flatten();
    let (x, y) = (found.fact("x").dims(), output.and_then(|y| found.graph.fact(y).dims()));
    let (Some(x), Some(y)) = (x, y) else { return Err(Refusal("its rank is not known")) };
    let target = sizes(found.graph, found.value("shape")).unwrap_or_default();
    let n_added = x.len().saturating_sub(target.len());
    let is_harmless = |axis: usize, requested: &Size| {
        *requested == Size::Known(1) || requested.is_dim(found.graph, found.value("x"), axis)
    };
    let stays = |(axis, (before, after)): (usize, (&Dim, &Dim))| {
        let requested = axis.checked_sub(n_added).and_then(|axis| target.get(axis));
        before.equals(after) || requested.is_some_and(|requested| is_harmless(axis, requested))
    };
    if x.len() == y.len() && x.iter().zip(y).enumerate().all(stays) {
        Ok(())
    } else {
        Err(Refusal("it may broadcast a dimension"))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::{assert_optimized, assert_rewritten};

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
                3 refused: it may broadcast a dimension
                1 refused: its rank is not known"#]],
        );
    }

    #[test]
    fn an_expand_to_its_own_dimensions_goes() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,?], u: float[n,1]) -> (a, b, c) {
               zero = const int64[1] [0]
               one = const int64[1] [1]
               s = Shape-15 (x)
               n = Gather-13 (s, zero)
               m = Gather-13 (s, one)
               t = Concat-13 [axis: 0] (n, m)
               d = Expand-13 (x, t)
               a = Relu-14 (d)
               e = Expand-13 (u, n)
               b = Relu-14 (e)
               f = Expand-13 (u, t)
               c = Relu-14 (f)
             }",
            &expect![[r#"
                graph(x: float[n,?], u: float[n,1]) -> (a, b, c) {
                  zero = const int64[1] [0]
                  one = const int64[1] [1]
                  s = Shape-15 (x)
                  n = Gather-13 (s, zero)
                  m = Gather-13 (s, one)
                  t = Concat-13 [axis: 0] (n, m)
                  a = Relu-14 (x)
                  e = Expand-13 (u, n)
                  b = Relu-14 (e)
                  f = Expand-13 (u, t)
                  c = Relu-14 (f)
                }
                2 refused: it may broadcast a dimension"#]],
        );
    }
}
