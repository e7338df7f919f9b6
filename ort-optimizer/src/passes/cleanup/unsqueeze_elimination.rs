//! UnsqueezeElimination: an Unsqueeze of a constant is a constant of the same bytes.
//!
//! Source: ONNX Runtime 1.31, UnsqueezeElimination, which supports only Unsqueeze before version
//! 13.

use ort_graph::Patch;

use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "UnsqueezeElimination",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || Box::new(UnsqueezeElimination),
};

struct UnsqueezeElimination;

impl Rewrite for UnsqueezeElimination {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["Unsqueeze", "Squeeze", "Reshape", "Flatten"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let (graph, node) = (site.graph, site.node());
        let constant = node.inputs.first().copied().flatten().and_then(|x| graph.constant(x));
        let (Some(constant), Some(&Some(old))) = (constant, node.outputs.first()) else {
            return Ok(None);
        };
        let unknown = Refusal("its dimensions are not known");
        let shape = graph.fact(old).shape().ok_or(unknown)?;
        let mut patch = Patch::new(graph);
        let new = patch.constant("", constant.reshaped(&shape).map_err(|_| unknown)?)?;
        patch.replace(old, new);
        Ok(Some(patch))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_rewritten;

    #[test]
    fn a_constant_is_reshaped() {
        assert_rewritten(
            super::PASS,
            "graph(x: float[n], s: int64[1], w = float[2] [1, 2]) -> (y, z, u, v) {
               k = const float[2] [1, 2]
               shape = const int64[2] [2, -1]
               axes = const int64[1] [0]
               y = Unsqueeze-11 [axes: [0, 2]] (k)
               b = Reshape-14 (k, shape)
               c = Squeeze-13 (b)
               d = Unsqueeze-13 (c, axes)
               z = Add-14 (x, d)
               u = Unsqueeze-13 (w, axes)
               e = Expand-13 (k, s)
               v = Reshape-14 (e, shape)
             }",
            &expect![[r#"
                graph(x: float[n], s: int64[1], w = float[2] [1, 2]) -> (y, z, u, v) {
                  k = const float[2] [1, 2]
                  shape = const int64[2] [2, -1]
                  axes = const int64[1] [0]
                  y = const float[1,2,1] [1, 2]
                  d = const float[1,2] [1, 2]
                  z = Add-14 (x, d)
                  u = Unsqueeze-13 (w, axes)
                  e = Expand-13 (k, s)
                  v = Reshape-14 (e, shape)
                }"#]],
        );
    }
}
