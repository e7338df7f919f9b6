//! AttentionFusion: where queries, keys and values are projections of one input, they are one product.
//!
//! ```text
//! MultiHeadAttention(x·Wq + bq, x·Wk + bk, x·Wv + bv, mask) = Attention(x, [Wq Wk Wv], [bq bk bv], mask)
//! ```
//! Folding puts the constants together, so they must not be too large for that.
//!
//! Source: ONNX Runtime 1.31, AttentionFusion, which finds the whole form of BERT at once.

use ort_graph::{Attr, Attrs, Dim, Graph, NewNode, NodeId, Patch, ValueId};
use ort_ops::ops::microsoft::multi_head_attention::MultiHeadAttention;
use ort_tensor::DType;

use super::{newest, terms};
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "AttentionFusion",
    level: Level::Extended,
    exactness: Exactness::Rounding,
    start: || Box::new(AttentionFusion),
};

struct AttentionFusion;

impl Rewrite for AttentionFusion {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["MultiHeadAttention"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let (graph, node) = (site.graph, site.node());
        let Some(op) = node.operator::<MultiHeadAttention>() else { return Ok(None) };
        let &[Some(q), Some(k), Some(v), ref rest @ ..] = &node.inputs[..] else {
            return Ok(None);
        };
        let [Some(q), Some(k), Some(v)] =
            [q, k, v].map(|value| Projection::of(graph, site.id, value))
        else {
            return Ok(None);
        };
        if [k.x, v.x] != [q.x; 2] {
            return Ok(None);
        }
        // With past and present, or an existing bias, the operands would have other indices.
        let has_only_mask = rest.iter().enumerate().all(|(i, input)| i == 2 || input.is_none());
        let has_more = node.outputs.iter().skip(1).any(Option::is_some);
        if op.is_decoder || !has_only_mask || has_more {
            return Err(Refusal("it has a bias or a past"));
        }
        let parts = [q, k, v];
        if parts.iter().map(|part| part.n_bytes).sum::<usize>() > site.folded_bytes.get() {
            return Err(Refusal("folded constants would take too many bytes"));
        }
        let mut patch = Patch::new(graph);
        let w = concat(site, (&mut patch, 1), parts.iter().map(|part| part.w).collect())?;
        let b = concat(site, (&mut patch, 0), parts.iter().map(|part| part.b).collect())?;
        let mut inputs = vec![Some(parts[0].x), Some(w), Some(b)];
        if let Some(Some(mask)) = rest.get(2) {
            inputs.extend([None, None, Some(*mask)]);
        }
        let sizes = parts.iter().map(|part| part.width).collect();
        let attrs = node.attrs.clone().with("qkv_hidden_sizes", Attr::Ints(sizes));
        let new = patch.output_of(NewNode {
            name: node.name.clone(),
            domain: node.domain.clone(),
            op_type: "Attention".to_owned(),
            since_version: 1,
            inputs,
            attrs,
            ..NewNode::default()
        })?;
        if let Some(&Some(y)) = node.outputs.first() {
            patch.replace(y, new);
        }
        Ok(Some(patch))
    }
}

/// `x·w + b`, with constant `w: [I, width]` and `b: [width]`.
struct Projection {
    x: ValueId,
    w: ValueId,
    b: ValueId,
    width: i64,
    n_bytes: usize,
}

impl Projection {
    /// The projection that computes a value, if only `reader` reads it, and nothing else reads its parts.
    fn of(graph: &Graph, reader: NodeId, value: ValueId) -> Option<Self> {
        let is_private = |value: ValueId, reader: NodeId| {
            graph.consumers(value) == [reader] && !graph.is_output(value)
        };
        let (add, _) = graph.producer(value).filter(|_| is_private(value, reader))?;
        let [first, second] = terms(graph, value)?;
        let operands = [(first, second), (second, first)];
        let (product, b) = operands.into_iter().find(|&(_, b)| graph.constant(b).is_some())?;
        let (matmul, _) = graph.producer(product).filter(|_| is_private(product, add))?;
        let matmul = graph.node(matmul);
        let &[Some(x), Some(w)] = &matmul.inputs[..] else { return None };
        let (weights, bias) = (graph.constant(w)?, graph.constant(b)?);
        let (&[depth, width], &[n_biases]) = (weights.shape(), bias.shape()) else { return None };
        let is_rows = matches!(graph.fact(x).dims(), Some([_, _, d]) if *d == Dim::Known(depth));
        let is_plain = matmul.domain.is_empty() && matmul.op_type == "MatMul" && is_rows;
        let is_f32 = weights.dtype() == DType::F32 && n_biases == width;
        let n_bytes = weights.n_bytes().checked_add(bias.n_bytes())?;
        let width = i64::try_from(width).ok()?;
        (is_plain && is_f32).then_some(Self { x, w, b, width, n_bytes })
    }
}

fn concat(
    site: &Site<'_>,
    (patch, axis): (&mut Patch, i64),
    inputs: Vec<ValueId>,
) -> Result<ValueId, Refusal> {
    Ok(patch.output_of(NewNode {
        op_type: "Concat".to_owned(),
        since_version: newest(site, &[4, 11, 13]),
        inputs: inputs.into_iter().map(Some).collect(),
        attrs: Attrs::new().with("axis", Attr::Int(axis)),
        ..NewNode::default()
    })?)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::{assert_optimized, run};

    #[test]
    fn three_projections_of_one_input_are_one() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,s,3], mask: float[1,2,s,s]) -> (y) {
               wq = const float[3,2] fill 0.5
               wk = const float[3,2] [1, -1, 0.5, 2, 0, 1]
               wv = const float[3,4] fill 1
               bq = const float[2] [1, 2]
               bv = const float[4] [1, 2, 3, 4]
               a = MatMul-13 (x, wq)
               q = Add-14 (bq, a)
               b = MatMul-13 (x, wk)
               k = Add-14 (b, bq)
               c = MatMul-13 (x, wv)
               v = Add-14 (c, bv)
               y = com.microsoft:MultiHeadAttention-1 [num_heads: 2, scale: 0.25] (q, k, v, _, _, mask)
             }",
            &expect![[r#"
                graph(x: float[n,s,3], mask: float[1,2,s,s]) -> (y) {
                  wq = const float[3,2] fill 0.5
                  wk = const float[3,2] [1, -1, 0.5, 2, 0, 1]
                  wv = const float[3,4] fill 1
                  bq = const float[2] [1, 2]
                  bv = const float[4] [1, 2, 3, 4]
                  value = Concat-4 [axis: 1] (wq, wk, wv)
                  value_2 = Concat-4 [axis: 0] (bq, bq, bv)
                  y = com.microsoft:Attention-1 [num_heads: 2, qkv_hidden_sizes: [2, 2, 4], scale: 0.25] (x, value, value_2, _, _, mask)
                }"#]],
        );
    }

    /// Why attention of projections stays.
    fn refused(lines: &str, inputs: &str) -> String {
        let text = format!(
            "graph(x: float[n,s,3], z: float[n,s,3], f: float[2]) -> (y, b) {{
               w = const float[3,2] fill 0.5
               bias = const float[2] [1, 2]
               biases = const float[6] fill 1
               a = MatMul-13 (x, w)
               b = Add-14 (bias, a)
               c = MatMul-13 (x, w)
               d = Add-14 (c, bias)
               e = MatMul-13 (x, w)
               g = Add-14 (e, bias)
               {lines}
               y = com.microsoft:MultiHeadAttention-1 [num_heads: 2] ({inputs})
             }}"
        );
        let (graph, report) = run(&super::PASS, &text, None);
        assert!(graph.node_ids().all(|id| graph.node(id).op_type != "Attention"), "{text}");
        let refused = report.passes.iter().flat_map(|pass| &pass.refused);
        refused.map(|(reason, _)| *reason).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn other_operands_stay() {
        for (lines, inputs, reason) in [
            // Returned, too; of another input; by a bias that is given.
            ("", "b, d, g", ""),
            ("h = MatMul-13 (z, w)\n i = Add-14 (h, bias)", "i, d, g", ""),
            ("h = MatMul-13 (x, w)\n i = Add-14 (h, f)", "i, d, g", ""),
            (
                "h = MatMul-13 (x, w)\n i = Add-14 (h, bias)",
                "i, d, g, biases",
                "it has a bias or a past",
            ),
        ] {
            assert_eq!(refused(lines, inputs), reason, "{inputs}");
        }
    }
}
