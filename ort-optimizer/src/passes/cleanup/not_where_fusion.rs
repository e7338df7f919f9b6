//! NotWhereFusion: `Where(¬c, x, y) = Where(c, y, x)`.

use crate::options::{Exactness, Level};
use crate::pass::Pass;
use crate::pattern::{op, var};
use crate::rule::{Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "NotWhereFusion",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || {
        let (c, x, y) = (var("c"), var("x"), var("y"));
        let find = op("Where", [op("Not", [&c]), x.clone(), y.clone()]);
        Rules::start([rule(find, op("Where", [&c, &y, &x]))])
    },
};

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn a_not_without_other_readers_goes() {
        assert_optimized(
            super::PASS,
            r#"graph(c: bool[2], d: bool[2], x: float[2], y: float[2]) -> (z, w, v) {
               a = Not-1 (c)
               z = Where-16 "choice" (a, x, y)
               b = Not-1 (d)
               w = Where-9 (b, x, y)
               v = Identity-14 (b)
             }"#,
            &expect![[r#"
                graph(c: bool[2], d: bool[2], x: float[2], y: float[2]) -> (z, w, v) {
                  b = Not-1 (d)
                  w = Where-9 (b, x, y)
                  v = Identity-14 (b)
                  z = Where-16 "choice" (c, y, x)
                }
                1 refused: a value within it is used elsewhere"#]],
        );
    }
}
