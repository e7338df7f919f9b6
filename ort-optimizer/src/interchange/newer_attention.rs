//! Attention in a model that imports an older version of ai.onnx, where MultiHeadAttentionFusion made it: written out.

use ort_graph::{Attr, Attrs, Dim, Fact, NewNode, Patch, ValueId};
use ort_ops::ops::attention::Attention;
use ort_tensor::{DType, Tensor};

use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(super) const PASS: Pass = Pass {
    name: "NewerAttentionExpansion",
    level: Level::Basic,
    exactness: Exactness::Rounding,
    start: || Box::new(NewerAttention),
};

const NOT_OURS: Refusal = Refusal("it is not one that a fusion makes");

struct NewerAttention;

impl Rewrite for NewerAttention {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["Attention"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let (graph, node) = (site.graph, site.node());
        let imported = site.options.opset.unwrap_or(i64::MAX);
        if !node.domain.is_empty() || i64::from(node.since_version) <= imported {
            return Ok(None);
        }
        let op: &Attention = node.operator().ok_or(NOT_OURS)?;
        let (&[Some(q), Some(k), Some(v), ref mask @ ..], &[Some(y)]) =
            (&node.inputs[..], &node.outputs[..])
        else {
            return Err(NOT_OURS);
        };
        let n_heads = |value: ValueId| match graph.fact(value).dims() {
            Some([_, Dim::Known(n), _, Dim::Known(_)]) => Ok(*n),
            _ => Err(NOT_OURS),
        };
        let (n, scale) = (n_heads(q)?, op.scale.ok_or(NOT_OURS)?);
        let is_plain = op.softcap == 0.0 && !op.is_causal && op.window == [None; 2];
        if !is_plain || mask.len() > 1 || graph.fact(y).dtype() != Some(DType::F32) {
            return Err(NOT_OURS);
        }
        let mut body = Body { site, patch: Patch::new(graph) };
        let [k, v] = [body.repeated(k, n_heads(k)?, n)?, body.repeated(v, n_heads(v)?, n)?];
        let scale = body.constant(&[], &[scale])?;
        let scaled = body.node(("Mul", &[7, 13, 14]), &[q, scale], Attrs::new())?;
        let perm = Attrs::new().with("perm", Attr::Ints(vec![0, 1, 3, 2]));
        let columns = body.node(("Transpose", &[1, 13]), &[k], perm)?;
        let mut scores = body.node(("MatMul", &[1, 9, 13]), &[scaled, columns], Attrs::new())?;
        if let &[Some(mask)] = mask {
            scores = body.node(("Add", &[7, 13, 14]), &[scores, mask], Attrs::new())?;
        }
        let axis = Attrs::new().with("axis", Attr::Int(-1));
        let weights = body.node(("Softmax", &[11, 13]), &[scores], axis)?;
        // A query that sees no key has zeros.
        let is_nan = body.node(("IsNaN", &[9, 13]), &[weights], Attrs::new())?;
        let zero = body.constant(&[], &[0.0_f32])?;
        let weights = body.node(("Where", &[9, 16]), &[is_nan, zero, weights], Attrs::new())?;
        let new = body.node(("MatMul", &[1, 9, 13]), &[weights, v], Attrs::new())?;
        let mut patch = body.patch;
        patch.replace(y, new);
        Ok(Some(patch))
    }
}

/// The nodes that are written.
struct Body<'s, 'g> {
    site: &'s Site<'g>,
    patch: Patch,
}

impl Body<'_, '_> {
    /// `[B, n, T, H]` of fewer heads, each for several.
    fn repeated(&mut self, x: ValueId, from: usize, n: usize) -> Result<ValueId, Refusal> {
        let times = n.checked_div(from).and_then(|n| i64::try_from(n).ok()).ok_or(NOT_OURS)?;
        let (n, size) = match self.site.graph.fact(x).dims() {
            Some([_, _, _, Dim::Known(size)]) => (i64::try_from(n), i64::try_from(*size)),
            _ => return Err(NOT_OURS),
        };
        let (Ok(n), Ok(size)) = (n, size) else { return Err(NOT_OURS) };
        if times == 1 {
            return Ok(x);
        }
        let axis = self.constant(&[1], &[2_i64])?;
        let added = self.node(("Unsqueeze", &[13]), &[x, axis], Attrs::new())?;
        let times = self.constant(&[5], &[1, 1, times, 1, 1])?;
        let expanded = self.node(("Expand", &[8, 13]), &[added, times], Attrs::new())?;
        let shape = self.constant(&[4], &[0, n, -1, size])?;
        self.node(("Reshape", &[5, 13, 14]), &[expanded, shape], Attrs::new())
    }

    fn constant<T: ort_tensor::Element>(
        &mut self,
        shape: &[usize],
        elements: &[T],
    ) -> Result<ValueId, Refusal> {
        let tensor = Tensor::from_slice(shape, elements).map_err(|_| NOT_OURS)?;
        Ok(self.patch.constant("", tensor)?)
    }

    /// The output of a node in the newest of these versions that the model's opset has.
    fn node(
        &mut self,
        (op_type, versions): (&str, &[i32]),
        inputs: &[ValueId],
        attrs: Attrs,
    ) -> Result<ValueId, Refusal> {
        let output = self.patch.value("attention", Fact::UNKNOWN)?;
        self.patch.node(NewNode {
            op_type: op_type.to_owned(),
            since_version: crate::passes::newest(self.site, versions),
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: vec![Some(output)],
            attrs,
            ..NewNode::default()
        });
        Ok(output)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::{Graph, Node};

    use crate::testing::{assert_equivalent, parse};
    use crate::{Exactness, lower_to_opset};

    #[test]
    fn attention_is_written_out_for_an_older_opset() {
        let text = "graph(q: float[b,4,s,3], k: float[b,2,t,3], v: float[b,2,t,3], m: float[b,1,s,t]) -> (y, z) {
               y = Attention-23 [scale: 0.5] (q, k, v, m)
               z = Attention-23 [scale: 0.5] (q, k, v)
             }";
        let before = parse(text);
        let registry = ort_ops::registry();
        let is_newer = |graph: &Graph, opset: i64| {
            let is_newer = |node: &Node| i64::from(node.since_version) > opset;
            graph.node_ids().any(|id| is_newer(graph.node(id)))
        };
        for opset in [13, 14, 17, 22] {
            let after = lower_to_opset(before.clone(), &registry, Some(opset)).unwrap();
            assert!(!is_newer(&after, opset), "{after}");
            after.verify().unwrap();
            assert_equivalent(&before, &after, Exactness::Rounding);
        }
        let same = lower_to_opset(before, &registry, Some(23)).unwrap();
        assert_eq!(same.node_ids().count(), 2);
        let causal = parse(
            "graph(q: float[b,4,s,3], k: float[b,2,t,3], v: float[b,2,t,3]) -> (y) {
               y = Attention-23 [scale: 0.5, is_causal: 1] (q, k, v)
             }",
        );
        let same = lower_to_opset(causal, &registry, Some(17)).unwrap();
        assert_eq!(
            same.node_ids().count(),
            1,
            "what no pass makes is left to the error of the file's writer"
        );
    }
}
