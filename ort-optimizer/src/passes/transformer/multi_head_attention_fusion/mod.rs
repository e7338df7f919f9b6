//! MultiHeadAttentionFusion: attention written out is com.microsoft's MultiHeadAttention.
//!
//! ```text
//! heads(x) = Transpose[0,2,1,3](Reshape(x, [B, S, N, H]))              x: [B, S, N·H]
//! scores   = α · heads(q) · heads(k)ᵀ [+ mask]                         [B, N, S, T]
//! y        = Reshape(Transpose[0,2,1,3](Softmax(scores) · heads(v)), [B, S, N·E])
//!          = MultiHeadAttention(q, k, v, mask; N, α)
//! ```
//! α is what multiplies or divides the scores, the queries or the keys. MultiHeadAttention wants a
//! mask for each query and each key: one that is the same for all queries is expanded, once for all
//! layers. f32 only: ONNX Runtime's CPU has no other kernel for it.
//!
//! ONNX Runtime's passes find attention in the form of BERT as early exporters wrote it, and take its
//! mask to be of zeros and ones; here any mask stays what it is.

mod chain;
mod mask;
#[cfg(test)]
mod tests;

use ort_graph::{Attr, Attrs, Dim, NewNode, Patch, ValueId};
use ort_ops::ops::matmul::{Arrangement, MatMul};
use ort_ops::ops::softmax::{Form, Softmax};
use ort_tensor::DType;

use self::chain::{Chain, Heads, KEYS, QUERIES};
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "MultiHeadAttentionFusion",
    level: Level::Extended,
    exactness: Exactness::Rounding,
    start: || Box::new(MultiHeadAttentionFusion),
};

struct MultiHeadAttentionFusion;

impl Rewrite for MultiHeadAttentionFusion {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["Reshape"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let Some(found) = Attention::at(site) else { return Ok(None) };
        found.check(site)?;
        let (graph, node) = (site.graph, site.node());
        let mut patch = Patch::new(graph);
        let mask = found.mask.map(|mask| mask::for_each_score(site, &found, mask, &mut patch));
        let mut inputs = vec![Some(found.q.source), Some(found.k.source), Some(found.v.source)];
        if let Some(mask) = mask.transpose()? {
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
    mask: Option<ValueId>,
    scale: f32,
    /// Whether others read a value in the midst of it.
    is_shared: bool,
}

impl Attention {
    /// The attention that ends with the Reshape at the site.
    fn at(site: &Site<'_>) -> Option<Self> {
        let mut chain = Chain::new(site.graph);
        let transposed = chain.enter(site.node().inputs.first().copied().flatten()?);
        let product = chain.transposed(transposed, QUERIES)?;
        let (matmul, [weights, v]) = chain.operands::<MatMul>(product)?;
        let softmax = chain.node(weights)?;
        let op = softmax.operator::<Softmax>()?;
        let as_it_is = Arrangement::default();
        let is_plain = (matmul.a, matmul.b, matmul.alpha) == (as_it_is, as_it_is, 1.0);
        let is_along_keys = op.form == Form::Softmax && [-1, 3].contains(&op.axis);
        let scores = softmax.inputs.first().copied().flatten();
        let scores = scores.filter(|_| is_plain && is_along_keys)?;
        let (scores, mask) = chain.unmasked(scores);
        let (product, mut scale) = chain.unscaled(scores);
        let (matmul, [q, k]) = chain.operands::<MatMul>(product)?;
        if matmul.a != as_it_is || matmul.b.is_batch_transposed {
            return None;
        }
        let is_shared = chain.is_shared;
        scale *= matmul.alpha;
        let [(q, of_q), (k, of_k)] = [q, k].map(|value| chain.unscaled(value));
        let perm = if matmul.b.is_transposed { QUERIES } else { KEYS };
        let (q, v) = (chain.heads(q, QUERIES)?, chain.heads(v, QUERIES)?);
        let k = chain.heads(k, perm)?;
        Some(Self { q, k, v, mask, scale: scale * of_q * of_k, is_shared })
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
        if !is_merged || !is_alike || q.size != k.size || !k.dims[1].equals(&v.dims[1]) {
            return Err(Refusal("its heads may not have the same sizes"));
        }
        Ok(())
    }
}
