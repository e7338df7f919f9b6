//! PadElimination: a Pad that neither adds nor removes anything.
//!
//! Our own pass: ONNX Runtime has no equivalent.

use ort_ops::ops::pad::Pad;

use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::{op, var};
use crate::rule::{Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "PadElimination",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || {
        let x = var("x");
        Rules::start([rule(op("Pad", [&x]).and_more(), &x).when(adds_nothing)])
    },
};

fn adds_nothing(found: &Match<'_>) -> Result<(), Refusal> {
    let node = found.root();
    let own = node.operator::<Pad>().and_then(|pad| pad.pads.clone());
    let given = node.inputs.get(1).copied().flatten();
    let pads = own.or_else(|| found.graph.fact(given?).ints());
    match pads {
        Some(pads) if pads.iter().all(|&pad| pad == 0) => Ok(()),
        _ => Err(Refusal("it may add or remove something")),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn a_pad_of_nothing_goes() {
        assert_optimized(
            super::PASS,
            r#"graph(x: float[n,m], p: int64[4]) -> (y, z) {
               zeros = const int64[4] fill 0
               none = const int64[2] fill 0
               axes = const int64[1] [1]
               some = const int64[4] [0, 1, 0, -1]
               one = const float[] 1
               a = Pad-13 (x, zeros, one)
               b = Pad-18 [mode: "edge"] (a, none, _, axes)
               c = Pad-2 [pads: [0, 0, 0, 0]] (b)
               y = Pad-13 (c, some)
               z = Pad-13 (c, p)
             }"#,
            &expect![[r#"
                graph(x: float[n,m], p: int64[4]) -> (y, z) {
                  some = const int64[4] [0, 1, 0, -1]
                  y = Pad-13 (x, some)
                  z = Pad-13 (x, p)
                }
                2 refused: it may add or remove something"#]],
        );
    }
}
