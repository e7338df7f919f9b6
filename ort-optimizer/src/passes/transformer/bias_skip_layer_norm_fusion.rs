//! BiasSkipLayerNormFusion: `SkipLayerNormalization(x + bias, skip) = SkipLayerNormalization(x, skip,
//! bias)`, where the bias is a constant for each element of a row; the same for the simplified norm.
//!
//! Source: ONNX Runtime 1.31, BiasSkipLayerNormFusion.

use ort_graph::{Graph, NewNode, Patch, ValueId};
use ort_ops::ops::skip_layer_normalization::SkipLayerNormalization;

use super::{has_same_dims, terms};
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "BiasSkipLayerNormFusion",
    level: Level::Extended,
    exactness: Exactness::Rounding,
    start: || Box::new(BiasSkipLayerNormFusion),
};

struct BiasSkipLayerNormFusion;

impl Rewrite for BiasSkipLayerNormFusion {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let (graph, norm) = (site.graph, site.node());
        let Some(op) = norm.operator::<SkipLayerNormalization>() else { return Ok(None) };
        let bias_at = if op.is_centered { 4 } else { 3 };
        let &[Some(x), Some(skip), ..] = &norm.inputs[..] else { return Ok(None) };
        if norm.inputs.get(bias_at).is_some_and(Option::is_some) {
            return Ok(None);
        }
        // The skip connection may be broadcast; a bias must not be added to it.
        let is_skip_whole = has_same_dims(graph.fact(x), graph.fact(skip));
        let operands = [Some(x), Some(skip).filter(|_| is_skip_whole)];
        let biased = operands.into_iter().enumerate().find_map(|(at, operand)| {
            let (unbiased, bias) = biased(graph, operand?)?;
            Some((at, operand?, unbiased, bias))
        });
        let Some((at, sum, unbiased, bias)) = biased else { return Ok(None) };
        if graph.consumers(sum).len() > 1 || graph.is_output(sum) {
            return Err(Refusal("the sum is used elsewhere"));
        }
        let mut inputs = norm.inputs.to_vec();
        inputs.resize(bias_at + 1, None);
        inputs[at] = Some(unbiased);
        inputs[bias_at] = Some(bias);
        let mut patch = Patch::new(graph);
        let mut outputs = Vec::new();
        for old in &norm.outputs {
            let Some(old) = *old else {
                outputs.push(None);
                continue;
            };
            let new = patch.value("", graph.fact(old).clone())?;
            patch.replace(old, new);
            outputs.push(Some(new));
        }
        patch.node(NewNode {
            name: norm.name.clone(),
            domain: norm.domain.clone(),
            op_type: norm.op_type.clone(),
            since_version: norm.since_version,
            inputs,
            outputs,
            captured: Vec::new(),
            attrs: norm.attrs.clone(),
        });
        Ok(Some(patch))
    }
}

/// The operand of a sum that a bias is added to, and the bias.
fn biased(graph: &Graph, sum: ValueId) -> Option<(ValueId, ValueId)> {
    let [a, b] = terms(graph, sum)?;
    let hidden = graph.fact(sum).dims()?.last()?;
    let is_bias = |id: ValueId| {
        graph.constant(id).is_some()
            && matches!(graph.fact(id).dims(), Some([n]) if n.equals(hidden))
    };
    let has_rows = |id: ValueId| graph.fact(id).dims()?.last().map(|last| last.equals(hidden));
    [(a, b), (b, a)].into_iter().find(|&(x, bias)| is_bias(bias) && has_rows(x) == Some(true))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn a_bias_goes_into_the_norm() {
        assert_optimized(
            super::PASS,
            "graph(x: float[b,n,3], r: float[b,n,3]) -> (y, z, w) {
               scale = const float[3] [1, 2, 3]
               bias = const float[3] [4, 5, 6]
               a = Add-14 (bias, x)
               y = com.microsoft:SkipLayerNormalization-1 [epsilon: 1e-5] (a, r, scale)
               c = Add-14 (y, bias)
               d, _, _, z = com.microsoft:SkipLayerNormalization-1 [epsilon: 1e-5] (r, c, scale, bias)
               e = Add-14 (d, bias)
               w = com.microsoft:SkipSimplifiedLayerNormalization-1 (z, e, scale)
             }",
            &expect![[r#"
                graph(x: float[b,n,3], r: float[b,n,3]) -> (y, z, w) {
                  scale = const float[3] [1, 2, 3]
                  bias = const float[3] [4, 5, 6]
                  y = com.microsoft:SkipLayerNormalization-1 [epsilon: 1e-5] (x, r, scale, _, bias)
                  d, _, _, z = com.microsoft:SkipLayerNormalization-1 [epsilon: 1e-5] (r, y, scale, bias, bias)
                  w = com.microsoft:SkipSimplifiedLayerNormalization-1 (z, d, scale, bias)
                }"#]],
        );
    }

    #[test]
    fn what_is_no_bias_stays() {
        assert_optimized(
            super::PASS,
            "graph(x: float[2,2,3], r: float[2,2,3], s: float[1,2,3], v: float[3]) -> (y, z, w, u, c) {
               scale = const float[3] [1, 2, 3]
               bias = const float[3] [4, 5, 6]
               a = Add-14 (x, v)
               y = com.microsoft:SkipLayerNormalization-1 (a, r, scale)
               b = Add-14 (s, bias)
               z = com.microsoft:SkipLayerNormalization-1 (x, b, scale)
               c = Add-14 (r, bias)
               w = com.microsoft:SkipLayerNormalization-1 (x, c, scale)
               d = Add-14 (r, bias)
               u = com.microsoft:SkipLayerNormalization-1 (x, d, scale, bias, bias)
             }",
            &expect![[r#"
                graph(x: float[2,2,3], r: float[2,2,3], s: float[1,2,3], v: float[3]) -> (y, z, w, u, c) {
                  scale = const float[3] [1, 2, 3]
                  bias = const float[3] [4, 5, 6]
                  a = Add-14 (x, v)
                  y = com.microsoft:SkipLayerNormalization-1 (a, r, scale)
                  b = Add-14 (s, bias)
                  z = com.microsoft:SkipLayerNormalization-1 (x, b, scale)
                  c = Add-14 (r, bias)
                  w = com.microsoft:SkipLayerNormalization-1 (x, c, scale)
                  d = Add-14 (r, bias)
                  u = com.microsoft:SkipLayerNormalization-1 (x, d, scale, bias, bias)
                }
                1 refused: the sum is used elsewhere"#]],
        );
    }
}
