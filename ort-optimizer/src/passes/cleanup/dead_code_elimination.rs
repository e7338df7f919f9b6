//! DeadCodeElimination: nodes that no output of the graph needs.
//!
//! (Unused constants are dropped with or without it. ONNX Runtime does both when it loads a model, without a named
//! pass.)

use ort_graph::Patch;

use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "DeadCodeElimination",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || Box::new(DeadCodeElimination),
};

struct DeadCodeElimination;

impl Rewrite for DeadCodeElimination {
    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        if site.node().outputs.iter().flatten().any(|&output| site.graph.is_used(output)) {
            return Ok(None);
        }
        let mut patch = Patch::new(site.graph);
        patch.sweep(site.id);
        Ok(Some(patch))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn nodes_that_no_output_needs_go() {
        assert_optimized(
            super::PASS,
            "graph(x: float[2], unused: float[1], c: bool[]) -> (y) {
               k = const float[2] [1, 2]
               l = const float[2] [3, 4]
               a = Add-14 (x, k)
               b = Add-14 (a, l)
               d, e = Split-13 [axis: 0] (b)
               y = If-16 [
                 then_branch: graph() -> (t) { u = Neg-13 (x) t = Neg-13 (a) },
                 else_branch: graph() -> (a) {}
               ] (c)
             }",
            &expect![[r#"
                graph(x: float[2], unused: float[1], c: bool[]) -> (y) {
                  k = const float[2] [1, 2]
                  a = Add-14 (x, k)
                  y = If-16 [else_branch: graph() -> (a) {
                  }, then_branch: graph() -> (t) {
                    t = Neg-13 (a)
                  }] (c)
                }"#]],
        );
    }
}
