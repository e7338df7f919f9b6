//! EliminateDropout: `Dropout(x) = x`, except in training.

use ort_graph::Attr;
use ort_tensor::Bool;

use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::{op, var};
use crate::rule::{Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "EliminateDropout",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || {
        let x = var("x");
        Rules::start([rule(op("Dropout", [&x]).and_more(), &x).when(drops_nothing)])
    },
};

/// Before version 7 an attribute turns training off; from version 12 on an input may turn it on.
fn drops_nothing(found: &Match<'_>) -> Result<(), Refusal> {
    let node = found.root();
    let training_mode = node.inputs.get(2).copied().flatten();
    let is_test = match (node.since_version, training_mode) {
        (..7, _) => matches!(node.attrs.get("is_test"), Some(Attr::Int(1))),
        (_, None) => true,
        (_, Some(mode)) => {
            let mode = found.graph.constant(mode).and_then(|mode| mode.as_slice::<Bool>().ok());
            mode.is_some_and(|mode| mode.iter().all(|mode| !mode.get()))
        }
    };
    if is_test { Ok(()) } else { Err(Refusal("it may run in training mode")) }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_rewritten;

    #[test]
    fn dropout_goes_unless_it_trains_or_its_mask_is_used() {
        assert_rewritten(
            super::PASS,
            "graph(x: float[2]) -> (y, z, mask) {
               t = const bool[] true
               f = const bool[] false
               a, _ = Dropout-7 [ratio: 0.3] (x)
               b, unused = Dropout-13 (a, _, f)
               c = Dropout-13 (b, _, t)
               y = Dropout-6 [is_test: 1] (c)
               d = Dropout-6 (y)
               z, mask = Dropout-12 (d)
             }",
            &expect![[r#"
                graph(x: float[2]) -> (y, z, mask) {
                  t = const bool[] true
                  y = Dropout-13 (x, _, t)
                  d = Dropout-6 (y)
                  z, mask = Dropout-12 (d)
                }
                2 refused: it may run in training mode
                1 refused: another of its outputs is used"#]],
        );
    }
}
