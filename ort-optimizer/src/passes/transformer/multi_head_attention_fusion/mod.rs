//! MultiHeadAttentionFusion: attention written out is com.microsoft's MultiHeadAttention.
//!
//! ```text
//! heads(x) = Transpose[0,2,1,3](Reshape(x, [B, S, N, H]))              x: [B, S, N·H]
//! scores   = α · heads(q) · heads(k)ᵀ [+ mask], or Where(hidden, −∞, that)   [B, N, S, T]
//! y        = Reshape(Transpose[0,2,1,3](Softmax(scores) · heads(v)), [B, S, N·E])
//!          = MultiHeadAttention(q, k, v, mask; N, α)
//! ```
//! Where keys or values come by head, `[B, N, T, H]`, as behind a past or a rotation, both are taken so, and
//! queries that come by head are made rows. Where each head of keys and values is repeated for several heads of queries,
//! nothing is repeated: ai.onnx's Attention shares them.
//!
//! A mask has one row, or one for each query: known from its shape, or because it is cut from a table from a row on, as many
//! as there are queries.
//!
//! α is what multiplies or divides the scores, the queries or the keys. MultiHeadAttention wants a
//! mask for each query and each key: one that is the same for all queries is expanded, once for all
//! layers. A number that replaces scores becomes a mask of it and 0, if scores vanish beside it: −∞, or the
//! lowest number. A query that sees no key at all has zeros, as where exporters replace NaN of the
//! weights by 0, not NaN. f32 only: ONNX Runtime's CPU has no other kernel for it.
//!
//! ONNX Runtime's passes find attention in the form of BERT as early exporters wrote it, and take its
//! mask to be of zeros and ones; here any mask stays what it is.

mod chain;
mod cut;
mod mask;
mod repeats;
mod rows;
#[cfg(test)]
mod tests;

use ort_graph::{Attr, Attrs, Dim, Graph, NewNode, Node, Patch, ValueId};
use ort_ops::ops::matmul::{Arrangement, MatMul};
use ort_ops::ops::softmax::{Form, Softmax};
use ort_ops::ops::transpose::Transpose;
use ort_tensor::DType;

use self::chain::{Chain, Heads, KEYS, Mask, QUERIES};
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};
use crate::passes::transformer::newest;

pub(crate) const PASS: Pass = Pass {
    name: "MultiHeadAttentionFusion",
    level: Level::Extended,
    exactness: Exactness::Rounding,
    start: || Box::new(MultiHeadAttentionFusion),
};

const AS_IT_IS: Arrangement = Arrangement { is_transposed: false, is_batch_transposed: false };
const NO_SCORES: Refusal =
    Refusal("its scores are no product of queries and keys, along which it is a softmax");
const NO_HEADS: Refusal = Refusal("its queries, keys or values are not known to come by head");
const NO_SIZES: Refusal = Refusal("its heads may not have the same sizes");

struct MultiHeadAttentionFusion;

impl Rewrite for MultiHeadAttentionFusion {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["MatMul", "FusedMatMul"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let Some(found) = Attention::at(site)? else { return Ok(None) };
        found.check(site)?;
        let mut patch = Patch::new(site.graph);
        let mask = mask::for_each_score(site, &found, &mut patch)?;
        let (y, node) = match found.rows(site) {
            Some(rows) => (rows, found.of_rows(site, mask, &mut patch)?),
            None => (found.y, found.by_head(site, mask)?),
        };
        let new = patch.output_of(node)?;
        patch.replace(y, new);
        Ok(Some(patch))
    }
}

/// What an attention that is written out computes with.
struct Attention {
    q: Heads,
    k: Heads,
    v: Heads,
    /// What becomes of the scores, the last first.
    masks: Vec<Mask>,
    scale: f32,
    /// Its result, `[B, N, S, E]`.
    y: ValueId,
    /// Whether others read a value in the midst of it.
    is_shared: bool,
}

impl Attention {
    /// The attention whose last product is at the site: of values, and weights that a softmax computes.
    fn at(site: &Site<'_>) -> Result<Option<Self>, Refusal> {
        let mut chain = Chain::new(site.graph);
        let Some((y, matmul, softmax, v)) = Self::end(site, &mut chain) else { return Ok(None) };
        let Some(op) = softmax.operator::<Softmax>() else { return Ok(None) };
        let is_plain = (matmul.a, matmul.b, matmul.alpha) == (AS_IT_IS, AS_IT_IS, 1.0);
        let is_along_keys = op.form == Form::Softmax && [-1, 3].contains(&op.axis);
        let scores = softmax.inputs.first().copied().flatten();
        let scores = scores.filter(|_| is_plain && is_along_keys);
        let (scores, masks) = chain.unmasked(scores.ok_or(NO_SCORES)?);
        let (product, scale) = chain.unscaled(scores);
        let (matmul, [q, k]) = chain.operands::<MatMul>(product).ok_or(NO_SCORES)?;
        if matmul.a != AS_IT_IS || matmul.b.is_batch_transposed {
            return Err(NO_SCORES);
        }
        let is_shared = chain.is_shared;
        let [(q, of_q), (k, of_k)] = [q, k].map(|value| chain.unscaled(value));
        let perm = if matmul.b.is_transposed { QUERIES } else { KEYS };
        let mut heads = |value, perm| chain.heads(value, perm).ok_or(NO_HEADS);
        let (q, k, v) = (heads(q, QUERIES)?, heads(k, perm)?, heads(v, QUERIES)?);
        let scale = scale * matmul.alpha * of_q * of_k;
        Ok(Some(Self { q, k, v, masks, scale, y, is_shared }))
    }

    /// The result, its product, the node that computes its weights, and its values.
    fn end<'g>(
        site: &Site<'g>,
        chain: &mut Chain<'g>,
    ) -> Option<(ValueId, &'g MatMul, &'g Node, ValueId)> {
        let node = site.node();
        let (&[Some(weights), Some(v)], &[Some(y)]) = (&node.inputs[..], &node.outputs[..]) else {
            return None;
        };
        Some((y, node.operator()?, chain.weights(weights)?, v))
    }

    /// Whether sizes and types are those that an attention takes.
    fn check(&self, site: &Site<'_>) -> Result<(), Refusal> {
        let Self { q, k, v, .. } = self;
        if self.is_shared {
            return Err(Refusal("a value within it is used elsewhere"));
        }
        if site.graph.fact(self.y).dtype() != Some(DType::F32) {
            return Err(Refusal("it is not f32"));
        }
        if !self.scale.is_finite() || self.scale == 0.0 {
            return Err(Refusal("it has no scale"));
        }
        let is_alike = [k, v].iter().all(|x| x.dims[0].equals(&q.dims[0]));
        // There are as many values as keys, whose weights multiply them.
        if !is_alike || q.size != k.size {
            return Err(NO_SIZES);
        }
        Ok(())
    }

    /// The result in rows, `[B, S, N·E]`, if nobody reads it by head, and each head has keys and values of its own.
    fn rows(&self, site: &Site<'_>) -> Option<ValueId> {
        let Self { q, k, v, .. } = self;
        let transpose = only_reader(site.graph, self.y)?;
        let is_by_row = transpose.operator::<Transpose>()?.perm.as_deref() == Some(&QUERIES);
        let reshape = only_reader(site.graph, transpose.outputs.first().copied().flatten()?)?;
        let is_reshape = reshape.domain.is_empty() && reshape.op_type == "Reshape";
        let y = reshape.outputs.first().copied().flatten()?;
        let [b, l, width] = site.graph.fact(y).dims()? else { return None };
        let is_merged = Some(width) == q.n.checked_mul(v.size).map(Dim::Known).as_ref()
            && (b.equals(&q.dims[0]) || l.equals(&q.dims[1]));
        let is_alike = [k, v].iter().all(|x| x.n == q.n && x.repeated.is_none());
        (is_by_row && is_reshape && is_merged && is_alike).then_some(y)
    }

    /// The node that computes rows.
    fn of_rows(
        &self,
        site: &Site<'_>,
        mask: Option<ValueId>,
        patch: &mut Patch,
    ) -> Result<NewNode, Refusal> {
        let q = match self.q.rows {
            Some(rows) => rows,
            None => rows::of_heads(site, &self.q, patch)?,
        };
        let (k, v) = (&self.k, &self.v);
        let both = k.rows.zip(v.rows).or_else(|| k.by_head.zip(v.by_head));
        let (k, v) = both.ok_or(Refusal("its keys come in rows, its values by head"))?;
        let mut inputs = vec![Some(q), Some(k), Some(v)];
        if let Some(mask) = mask {
            inputs.extend([None, None, Some(mask)]);
        }
        let n_heads = i64::try_from(self.q.n).map_err(|_| Refusal("it has too many heads"))?;
        Ok(NewNode {
            name: site.node().name.clone(),
            domain: "com.microsoft".to_owned(),
            op_type: "MultiHeadAttention".to_owned(),
            since_version: 1,
            inputs,
            attrs: Attrs::new()
                .with("num_heads", Attr::Int(n_heads))
                .with("scale", Attr::Float(self.scale)),
            ..NewNode::default()
        })
    }

    /// The node that computes the result by head. Keys and values are those of each head, or of several heads.
    fn by_head(&self, site: &Site<'_>, mask: Option<ValueId>) -> Result<NewNode, Refusal> {
        let shared = [&self.k, &self.v].map(|heads| match heads.repeated {
            Some((source, times)) => Some((source, heads.n / times)),
            None => heads.by_head.map(|source| (source, heads.n)),
        });
        let [Some((k, n)), Some((v, m))] = shared else { return Err(NO_HEADS) };
        // A product takes one head for all.
        let is_shared = [&self.k, &self.v].iter().all(|heads| [1, self.q.n].contains(&heads.n));
        if n != m || !is_shared {
            return Err(NO_SIZES);
        }
        // Files for other runtimes have it written out again.
        if site.options.opset.is_some_and(|opset| opset < 13) {
            return Err(Refusal(
                "the model's operators are older than those that it can be written with",
            ));
        }
        let q = self.q.by_head.ok_or(NO_HEADS)?;
        Ok(NewNode {
            name: site.node().name.clone(),
            op_type: "Attention".to_owned(),
            since_version: newest(site, &[23, 24, 25]),
            inputs: [q, k, v].into_iter().chain(mask).map(Some).collect(),
            attrs: Attrs::new().with("scale", Attr::Float(self.scale)),
            ..NewNode::default()
        })
    }
}

/// The only node that reads a value, once.
fn only_reader(graph: &Graph, value: ValueId) -> Option<&Node> {
    match graph.consumers(value)[..] {
        [id] if !graph.is_output(value) => Some(graph.node(id)),
        _ => None,
    }
}
