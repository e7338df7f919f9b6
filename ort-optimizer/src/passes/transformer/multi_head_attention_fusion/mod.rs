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

use ort_graph::{Attr, Attrs, Dim, NewNode, Node, Patch, ValueId};
use ort_ops::ops::matmul::{Arrangement, MatMul};
use ort_ops::ops::softmax::{Form, Softmax};
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

struct MultiHeadAttentionFusion;

impl Rewrite for MultiHeadAttentionFusion {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["Reshape"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let Some(found) = Attention::at(site)? else { return Ok(None) };
        found.check(site)?;
        let (graph, node) = (site.graph, site.node());
        let mut patch = Patch::new(graph);
        let mask = mask::for_each_score(site, &found, &mut patch)?;
        if let Some([k, v]) = found.shared_keys_and_values() {
            let q = found.q.by_head.ok_or(NO_HEADS)?;
            let new = patch.output_of(NewNode {
                name: node.name.clone(),
                domain: String::new(),
                op_type: "Attention".to_owned(),
                since_version: newest(site, &[23, 24, 25]),
                inputs: [q, k, v].into_iter().chain(mask).map(Some).collect(),
                outputs: Vec::new(),
                captured: Vec::new(),
                attrs: Attrs::new().with("scale", Attr::Float(found.scale)),
            })?;
            patch.replace(found.y, new);
            return Ok(Some(patch));
        }
        let q = match found.q.rows {
            Some(rows) => rows,
            None => rows::of_heads(site, &found.q, &mut patch)?,
        };
        let [k, v] = found.keys_and_values()?;
        let mut inputs = vec![Some(q), Some(k), Some(v)];
        if let Some(mask) = mask {
            inputs.extend([None, None, Some(mask)]);
        }
        let n_heads = i64::try_from(found.q.n).map_err(|_| Refusal("it has too many heads"))?;
        let new = patch.output_of(NewNode {
            name: node.name.clone(),
            domain: "com.microsoft".to_owned(),
            op_type: "MultiHeadAttention".to_owned(),
            since_version: 1,
            inputs,
            outputs: Vec::new(),
            captured: Vec::new(),
            attrs: Attrs::new()
                .with("num_heads", Attr::Int(n_heads))
                .with("scale", Attr::Float(found.scale)),
        })?;
        if let Some(&Some(y)) = node.outputs.first() {
            patch.replace(y, new);
        }
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
    /// What is weighed, `[B, N, S, E]`.
    y: ValueId,
    /// Whether others read a value in the midst of it.
    is_shared: bool,
}

impl Attention {
    /// The attention that ends with the Reshape at the site: what is weighed by a softmax.
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

    /// What is weighed, its product, the node that computes its weights, and its values.
    fn end<'g>(
        site: &Site<'g>,
        chain: &mut Chain<'g>,
    ) -> Option<(ValueId, &'g MatMul, &'g Node, ValueId)> {
        let transposed = chain.enter(site.node().inputs.first().copied().flatten()?);
        let product = chain.transposed(transposed, QUERIES)?;
        let (matmul, [weights, v]) = chain.operands::<MatMul>(product)?;
        Some((product, matmul, chain.weights(weights)?, v))
    }

    /// Keys and values by head, before each head is repeated as often in both.
    fn shared_keys_and_values(&self) -> Option<[ValueId; 2]> {
        match [&self.k, &self.v].map(|heads| heads.repeated) {
            [Some((k, n)), Some((v, m))] if n == m => Some([k, v]),
            _ => None,
        }
    }

    /// Keys and values, both in rows or both by head.
    fn keys_and_values(&self) -> Result<[ValueId; 2], Refusal> {
        let (k, v) = (&self.k, &self.v);
        let rows = k.rows.zip(v.rows);
        let both = rows.or_else(|| k.by_head.zip(v.by_head));
        both.map(|(k, v)| [k, v]).ok_or(Refusal("its keys come in rows, its values by head"))
    }

    /// Whether sizes and types are those that MultiHeadAttention takes.
    fn check(&self, site: &Site<'_>) -> Result<(), Refusal> {
        let Self { q, k, v, .. } = self;
        let y = site.node().outputs.first().copied().flatten();
        let fact = y.map(|y| site.graph.fact(y));
        let [batch, s, _] = &q.dims;
        let is_merged = fact.and_then(|fact| fact.dims()).is_some_and(|dims| match dims {
            [b, l, width] => {
                Some(width) == q.n.checked_mul(v.size).map(Dim::Known).as_ref()
                    && (b.equals(batch) || l.equals(s))
            }
            _ => false,
        });
        if self.is_shared {
            return Err(Refusal("a value within it is used elsewhere"));
        }
        if fact.and_then(|fact| fact.dtype()) != Some(DType::F32) {
            return Err(Refusal("it is not f32"));
        }
        if !self.scale.is_finite() || self.scale == 0.0 {
            return Err(Refusal("it has no scale"));
        }
        let is_alike = [k, v].iter().all(|x| x.n == q.n && x.dims[0].equals(batch));
        // There are as many values as keys, whose weights multiply them.
        if !is_merged || !is_alike || q.size != k.size {
            return Err(Refusal("its heads may not have the same sizes"));
        }
        Ok(())
    }
}
