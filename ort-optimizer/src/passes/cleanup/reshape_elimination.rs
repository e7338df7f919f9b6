//! ReshapeElimination: a Reshape, Flatten, Squeeze or Unsqueeze to the operand's own dimensions.
//!
//! Our own pass: ONNX Runtime has no equivalent.

use ort_graph::{Dim, Patch};

use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "ReshapeElimination",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || Box::new(ReshapeElimination),
};

/// Operators whose result is the bytes of their first input under other dimensions.
pub(super) const RESHAPES: [&str; 4] = ["Reshape", "Flatten", "Squeeze", "Unsqueeze"];

struct ReshapeElimination;

impl Rewrite for ReshapeElimination {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(RESHAPES.to_vec())
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let (graph, node) = (site.graph, site.node());
        let (Some(&Some(x)), Some(&Some(y))) = (node.inputs.first(), node.outputs.first()) else {
            return Ok(None);
        };
        let (Some(before), Some(after)) = (graph.fact(x).dims(), graph.fact(y).dims()) else {
            return Err(Refusal("its rank is not known"));
        };
        if !is_same(before, after) {
            return Ok(None);
        }
        let mut patch = Patch::new(graph);
        patch.replace(y, x);
        Ok(Some(patch))
    }
}

/// Whether dimensions with the same number of elements are the same: one may be unknown, as it follows from the
/// others if none of them is 0.
fn is_same(before: &[Dim], after: &[Dim]) -> bool {
    let mut open = before.iter().zip(after).filter(|(before, after)| !before.equals(after));
    let n_open = open.by_ref().count();
    let is_nonzero = |dim: &Dim| dim.known().is_some_and(|n| n > 0);
    let mut others = before.iter().zip(after).filter(|(before, after)| before.equals(after));
    before.len() == after.len()
        && (n_open == 0 || (n_open == 1 && others.all(|(dim, _)| is_nonzero(dim))))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn a_reshape_to_the_same_dimensions_goes() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,3], u: float[?,3], v: float[n,?], t: float[...]) -> (y, z, w, p) {
               a = const int64[2] [-1, 3]
               same = const int64[2] [0, 0]
               axes = const int64[0] []
               b = Reshape-14 (x, a)
               c = Flatten-13 (b)
               d = Squeeze-13 (c, axes)
               y = Neg-13 (d)
               e = Reshape-14 (u, a)
               z = Neg-13 (e)
               f = Reshape-14 (v, same)
               w = Neg-13 (f)
               g = Reshape-14 (t, same)
               p = Neg-13 (g)
             }",
            &expect![[r#"
                graph(x: float[n,3], u: float[?,3], v: float[n,?], t: float[...]) -> (y, z, w, p) {
                  same = const int64[2] fill 0
                  y = Neg-13 (x)
                  z = Neg-13 (u)
                  f = Reshape-14 (v, same)
                  w = Neg-13 (f)
                  g = Reshape-14 (t, same)
                  p = Neg-13 (g)
                }
                1 refused: its rank is not known"#]],
        );
    }
}
