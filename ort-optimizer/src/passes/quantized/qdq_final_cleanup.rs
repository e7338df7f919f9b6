//! QDQFinalCleanupTransformer: `DQ(Q(x, s, z), s, z) ≈ x`.
//!
//! A value that is quantized and immediately dequantized keeps its original value: it differs by up to half a scale,
//! and is not clipped to the quantized range. As in ONNX Runtime this is done on request only (its key
//! `session.enable_quant_qdq_cleanup`), after the fusions. (The other half of its pass, `Q(DQ(q))`, is
//! DoubleQDQPairsRemover.)

use ort_graph::Patch;

use super::values::Quantized;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "QDQFinalCleanupTransformer",
    level: Level::Extended,
    exactness: Exactness::Approximate,
    start: || Box::new(QDQFinalCleanup),
};

struct QDQFinalCleanup;

impl Rewrite for QDQFinalCleanup {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["DequantizeLinear"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let (graph, node) = (site.graph, site.node());
        let &[Some(y)] = &*node.outputs else { return Ok(None) };
        let after = Quantized::of(graph, y);
        let Some((after, (id, _))) =
            after.and_then(|after| Some((after, graph.producer(after.value)?)))
        else {
            return Ok(None);
        };
        let Some(before) = Quantized::by(graph, id) else { return Ok(None) };
        if !before.is_like(&after) {
            return Err(Refusal("scale, zero point or type change"));
        }
        let Some(&Some(x)) = graph.node(id).inputs.first() else { return Ok(None) };
        let mut patch = Patch::new(graph);
        patch.replace(y, x);
        Ok(Some(patch))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_rewritten;

    #[test]
    fn values_stay_what_they_were() {
        assert_rewritten(
            super::PASS,
            "graph(x: float[n]) -> (y, q, z) {
               s = const float[] 0.5
               t = const float[] 0.25
               a = Neg-13 (x)
               b = QuantizeLinear-13 (a, s)
               c = DequantizeLinear-13 (b, s)
               y = Exp-13 (c)
               q = QuantizeLinear-13 (x, s)
               d = DequantizeLinear-13 (q, s)
               e = DequantizeLinear-13 (q, t)
               z = Add-14 (d, e)
             }",
            &expect![[r#"
                graph(x: float[n]) -> (y, q, z) {
                  s = const float[] 0.5
                  t = const float[] 0.25
                  a = Neg-13 (x)
                  y = Exp-13 (a)
                  q = QuantizeLinear-13 (x, s)
                  e = DequantizeLinear-13 (q, t)
                  z = Add-14 (x, e)
                }
                1 refused: scale, zero point or type change"#]],
        );
    }
}
