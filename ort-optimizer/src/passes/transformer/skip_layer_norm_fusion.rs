//! SkipLayerNormFusion: `LayerNormalization(x + skip) = SkipLayerNormalization(x, skip)`, and the same
//! for the simplified norm. Other readers of the sum read output 3.
//!
//! f32 only: others have no fast kernel. Source: ONNX Runtime 1.31, SkipLayerNormFusion, which skips a sum with other
//! readers.

use ort_graph::{Attr, Attrs, Fact, Graph, NewNode, Node, Patch};
use ort_ops::ops::layer_normalization::LayerNormalization;
use ort_tensor::DType;

use super::{has_same_dims, terms};
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "SkipLayerNormFusion",
    level: Level::Extended,
    exactness: Exactness::Rounding,
    start: || Box::new(SkipLayerNormFusion),
};

struct SkipLayerNormFusion;

impl Rewrite for SkipLayerNormFusion {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let (graph, norm) = (site.graph, site.node());
        let Some(op) = norm.operator::<LayerNormalization>() else { return Ok(None) };
        let (Some(&Some(sum)), Some(&Some(y))) = (norm.inputs.first(), norm.outputs.first()) else {
            return Ok(None);
        };
        let Some([x, skip]) = terms(graph, sum) else { return Ok(None) };
        normalizes_rows(graph, norm, op)?;
        if !has_same_dims(graph.fact(x), graph.fact(skip)) {
            return Err(Refusal("the shapes of its terms may differ"));
        }
        let is_shared = graph.consumers(sum).len() > 1 || graph.is_output(sum);
        let mut patch = Patch::new(graph);
        let new = patch.value("", graph.fact(y).clone())?;
        patch.replace(y, new);
        let mut outputs = vec![Some(new)];
        if is_shared {
            let new_sum = patch.value("", graph.fact(sum).clone())?;
            patch.replace(sum, new_sum);
            outputs.extend([None, None, Some(new_sum)]);
        }
        let parameters = norm.inputs.iter().skip(1).copied();
        let op_type = match op.is_centered {
            true => "SkipLayerNormalization",
            false => "SkipSimplifiedLayerNormalization",
        };
        patch.node(NewNode {
            name: norm.name.clone(),
            domain: "com.microsoft".to_owned(),
            op_type: op_type.to_owned(),
            since_version: 1,
            inputs: [Some(x), Some(skip)].into_iter().chain(parameters).collect(),
            outputs,
            captured: Vec::new(),
            attrs: Attrs::new().with("epsilon", Attr::Float(op.epsilon)),
        });
        Ok(Some(patch))
    }
}

/// The norm is of rows along the last of two or three dimensions, in f32, by constants for each element of a row, and
/// its moments are unused.
fn normalizes_rows(graph: &Graph, norm: &Node, op: &LayerNormalization) -> Result<(), Refusal> {
    let fact = |index: usize| norm.inputs.get(index).copied().flatten().map(|id| graph.fact(id));
    if (0..3).filter_map(fact).any(|fact| fact.dtype() != Some(DType::F32)) {
        return Err(Refusal("it is not f32"));
    }
    if norm.outputs.iter().skip(1).flatten().any(|&moment| graph.is_used(moment)) {
        return Err(Refusal("its moments are used"));
    }
    let dims = fact(0).and_then(Fact::dims).unwrap_or_default();
    let ([_, hidden] | [_, _, hidden]) = dims else {
        return Err(Refusal("it does not have two or three dimensions"));
    };
    if op.axis != -1 && usize::try_from(op.axis).ok() != Some(dims.len() - 1) {
        return Err(Refusal("its rows have more than one dimension"));
    }
    // Constants, since the replacement of the sum depends on the parameters.
    let is_row = |parameter: &Fact| {
        parameter.constant.is_some() && matches!(parameter.dims(), Some([n]) if n.equals(hidden))
    };
    match (1..3).filter_map(fact).all(is_row) {
        true => Ok(()),
        false => Err(Refusal("its parameters are not a constant for each element of a row")),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn a_sum_goes_into_the_norm_and_comes_out_where_it_is_read() {
        assert_optimized(
            super::PASS,
            "graph(x: float[b,n,3], r: float[b,n,3], v: float[n,3]) -> (y, w, u, t) {
               scale = const float[3] [1, 2, 3]
               bias = const float[3] [4, 5, 6]
               a = Add-14 (x, r)
               y = LayerNormalization-17 [epsilon: 1e-5] (a, scale, bias)
               c = Add-14 (y, x)
               d = LayerNormalization-1 [axis: 2] (c, scale)
               w = Add-14 (c, d)
               e = Add-14 (w, r)
               u = SimplifiedLayerNormalization-1 (e, scale)
               f = Add-14 (v, v)
               t = RMSNormalization-23 (f, scale)
             }",
            &expect![[r#"
                graph(x: float[b,n,3], r: float[b,n,3], v: float[n,3]) -> (y, w, u, t) {
                  scale = const float[3] [1, 2, 3]
                  bias = const float[3] [4, 5, 6]
                  y = com.microsoft:SkipLayerNormalization-1 [epsilon: 1e-5] (x, r, scale, bias)
                  d, _, _, c = com.microsoft:SkipLayerNormalization-1 [epsilon: 1e-5] (y, x, scale)
                  w = Add-14 (c, d)
                  u = com.microsoft:SkipSimplifiedLayerNormalization-1 [epsilon: 1e-5] (w, r, scale)
                  t = com.microsoft:SkipSimplifiedLayerNormalization-1 [epsilon: 1e-5] (v, v, scale)
                }"#]],
        );
    }

    #[test]
    fn an_output_of_the_graph_keeps_its_name() {
        assert_optimized(
            super::PASS,
            "graph(x: float[b,n,3], r: float[b,n,3]) -> (sum, y) {
               scale = const float[3] [1, 2, 3]
               sum = Add-14 (x, r)
               y = LayerNormalization-17 (sum, scale)
             }",
            &expect![[r#"
                graph(x: float[b,n,3], r: float[b,n,3]) -> (sum, y) {
                  scale = const float[3] [1, 2, 3]
                  y, _, _, sum = com.microsoft:SkipLayerNormalization-1 [epsilon: 1e-5] (x, r, scale)
                }"#]],
        );
    }

    #[test]
    fn other_sums_and_norms_stay() {
        assert_optimized(
            super::PASS,
            "graph(x: float[2,2,3], r: float[1,2,3], u: float[2,?,3], s: float[3], d: double[2,3]) -> (p, q, t, v, w, y, z, m, k) {
               scale = const float[3] [1, 2, 3]
               plane = const float[2,3] fill 2
               dscale = const double[3] fill 2
               a = Add-14 (x, r)
               p = LayerNormalization-17 (a, scale)
               b = Add-14 (u, u)
               q = LayerNormalization-17 (b, scale)
               c = Add-14 (x, x)
               t = LayerNormalization-17 [axis: 1] (c, plane)
               e = Add-14 (x, x)
               v = LayerNormalization-17 (e, s)
               f = Add-14 (s, s)
               w = LayerNormalization-17 (f, scale)
               g = Add-14 (x, x)
               y, m = LayerNormalization-17 (g, scale)
               h = Add-14 (d, d)
               z = LayerNormalization-17 (h, dscale)
               k = LayerNormalization-17 (x, scale)
             }",
            &expect![[r#"
                graph(x: float[2,2,3], r: float[1,2,3], u: float[2,?,3], s: float[3], d: double[2,3]) -> (p, q, t, v, w, y, z, m, k) {
                  scale = const float[3] [1, 2, 3]
                  plane = const float[2,3] fill 2
                  dscale = const double[3] fill 2
                  a = Add-14 (x, r)
                  p = LayerNormalization-17 (a, scale)
                  b = Add-14 (u, u)
                  q = LayerNormalization-17 (b, scale)
                  c = Add-14 (x, x)
                  t = LayerNormalization-17 [axis: 1] (c, plane)
                  e = Add-14 (x, x)
                  v = LayerNormalization-17 (e, s)
                  f = Add-14 (s, s)
                  w = LayerNormalization-17 (f, scale)
                  g = Add-14 (x, x)
                  y, m = LayerNormalization-17 (g, scale)
                  h = Add-14 (d, d)
                  z = LayerNormalization-17 (h, dscale)
                  k = LayerNormalization-17 (x, scale)
                }
                2 refused: the shapes of its terms may differ
                1 refused: its rows have more than one dimension
                1 refused: its parameters are not a constant for each element of a row
                1 refused: it does not have two or three dimensions
                1 refused: its moments are used
                1 refused: it is not f32"#]],
        );
    }
}
