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
//! Scores may have a cap, `γ · tanh(α/γ · heads(q) · heads(k)ᵀ)`, which ai.onnx's Attention has as well, before the mask.
//!
//! A mask has one row, or one for each query: known from its shape, or because it is cut from a table from a row on, as many
//! as there are queries.
//!
//! Windows of an image may each have a mask of their own, as in a shifted Swin block.
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
mod heads;
mod mask;
mod repeats;
mod rows;
#[cfg(test)]
mod tests;
mod windows;

use ort_graph::{Attr, Attrs, Dim, Fact, Graph, NewNode, Node, Patch, ValueId};
use ort_ops::ops::matmul::{Arrangement, MatMul};
use ort_ops::ops::softmax::{Form, Softmax};
use ort_ops::ops::transpose::Transpose;
use ort_tensor::DType;

use self::chain::{Chain, HeadScale, Mask};
use self::heads::{Heads, QUERIES, Source};
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
/// For how many queries keys are transposed that were not: each key is moved once, and read by each query.
const MANY: usize = 16;
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
        let Some(mut found) = Attention::at(site)? else { return Ok(None) };
        found.check(site)?;
        let mut patch = Patch::new(site.graph);
        found.scale_queries(site, &mut patch)?;
        let mask = mask::for_each_score(site, &found, &mut patch)?;
        let (y, node) = match found.rows(site) {
            Some(rows) => (rows, found.of_rows(site, mask, &mut patch)?),
            None => (found.y, found.by_head(site, mask, &mut patch)?),
        };
        let mut new = patch.output_of(node)?;
        if let Some(dims) = found.q.joined {
            new = found.split(site, (new, dims), &mut patch)?;
        }
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
    head_scale: Option<HeadScale>,
    /// `cap · tanh(score / cap)` of each score, before the masks.
    cap: Option<f32>,
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
        let last =
            site.graph.fact(y).rank().and_then(|rank| i64::try_from(rank).ok()?.checked_sub(1));
        let is_along_keys = op.form == Form::Softmax && (op.axis == -1 || Some(op.axis) == last);
        let scores = softmax.inputs.first().copied().flatten();
        let scores = scores.filter(|_| is_plain && is_along_keys);
        let (scores, masks) = chain.unmasked(scores.ok_or(NO_SCORES)?);
        let (scores, cap) = chain.uncapped(scores);
        let (scores, scale) = chain.unscaled(scores);
        let (scores, head_scale) = chain.scaled_by_head(scores);
        let (product, of_product) = chain.unscaled(scores);
        let (matmul, [q, k]) = chain.operands::<MatMul>(product).ok_or(NO_SCORES)?;
        if matmul.a.is_batch_transposed || matmul.b.is_batch_transposed {
            return Err(NO_SCORES);
        }
        let is_shared = chain.is_shared;
        let [(q, of_q), (k, of_k)] = [q, k].map(|value| chain.unscaled(value));
        let heads = |value, is_swapped| match is_swapped {
            true => Heads::of_swapped(site.graph, value).ok_or(NO_HEADS),
            false => Heads::of(site.graph, value).ok_or(NO_HEADS),
        };
        let (q, k) = (heads(q, matmul.a.is_transposed)?, heads(k, !matmul.b.is_transposed)?);
        let v = heads(v, false)?;
        let scale = scale * of_product * matmul.alpha * of_q * of_k * cap.unwrap_or(1.0);
        Ok(Some(Self { q, k, v, masks, scale, head_scale, cap, y, is_shared }))
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
        if self.cap.is_some_and(|cap| !cap.is_finite() || cap <= 0.0) {
            return Err(Refusal("the cap of its scores is not a positive number"));
        }
        let is_alike = |x: &Heads| {
            x.dims[0].equals(&q.dims[0]) && x.is_one() == q.is_one() && x.joined == q.joined
        };
        // Products have as many values as keys, and keys as long as queries.
        let rank = match q.joined {
            Some(_) => 5,
            None if q.is_one() => 3,
            None => 4,
        };
        let is_whole = site.graph.fact(self.y).rank() == Some(rank);
        if !is_whole || ![k, v].into_iter().all(is_alike) {
            return Err(NO_SIZES);
        }
        let are_many = q.dims[1].known().is_some_and(|n| n >= MANY) || k.dims[1].equals(&q.dims[1]);
        if k.are_swapped && !are_many {
            return Err(Refusal("its keys would be transposed for a few queries"));
        }
        Ok(())
    }

    /// Scales queries by the factor of each head, which then scores need not be.
    fn scale_queries(&mut self, site: &Site<'_>, patch: &mut Patch) -> Result<(), Refusal> {
        let Some(HeadScale { factor, is_divisor }) = self.head_scale else { return Ok(()) };
        let dims = site.graph.fact(factor).dims().ok_or(NO_HEADS)?;
        let n = dims.len().checked_sub(3).and_then(|axis| dims.get(axis));
        let is_of_heads = n.is_none_or(|n| [1, self.q.n].map(Dim::Known).contains(n));
        let is_of_heads = is_of_heads && self.q.joined.is_none();
        let source = self.q.by_head.as_ref().filter(|_| is_of_heads).ok_or(NO_SIZES)?;
        let by_head = source.value(site, patch)?;
        let op_type = if is_divisor { "Div" } else { "Mul" };
        let [b, s] = self.q.dims.clone();
        let dims = [b, Dim::Known(self.q.n), s, self.q.size.clone()];
        let scaled = patch.value("scaled_queries", Fact::tensor(DType::F32, dims))?;
        patch.node(mask::node(site, (op_type, &[7, 13, 14]), vec![by_head, factor], scaled));
        (self.q.rows, self.q.by_head) = (None, Some(Source::of(scaled)));
        Ok(())
    }

    /// The result in rows, `[B, S, N·E]`, if nobody reads it by head, each head has keys and values of its own, and
    /// scores have no cap.
    fn rows(&self, site: &Site<'_>) -> Option<ValueId> {
        let Self { q, k, v, .. } = self;
        if q.is_one() {
            return self.cap.is_none().then_some(self.y);
        }
        let transpose = only_reader(site.graph, self.y)?;
        let is_by_row = transpose.operator::<Transpose>()?.perm.as_deref() == Some(&QUERIES);
        let reshape = only_reader(site.graph, transpose.outputs.first().copied().flatten()?)?;
        let is_reshape = reshape.domain.is_empty() && reshape.op_type == "Reshape";
        let y = reshape.outputs.first().copied().flatten()?;
        let [b, l, width] = site.graph.fact(y).dims()? else { return None };
        let is_merged = Some(width) == q.n.checked_mul(v.size.known()?).map(Dim::Known).as_ref()
            && (b.equals(&q.dims[0]) || l.equals(&q.dims[1]));
        let is_alike = [k, v].iter().all(|x| x.n == q.n && x.repeated.is_none());
        let is_alike = is_alike && self.cap.is_none();
        (is_by_row && is_reshape && is_merged && is_alike).then_some(y)
    }

    /// The node that computes rows.
    fn of_rows(
        &self,
        site: &Site<'_>,
        mask: Option<ValueId>,
        patch: &mut Patch,
    ) -> Result<NewNode, Refusal> {
        let q = match &self.q.rows {
            Some(rows) => rows.value(site, patch)?,
            None => rows::of_heads(site, &self.q, patch)?,
        };
        let (k, v) = (&self.k, &self.v);
        let rows = k.rows.as_ref().zip(v.rows.as_ref());
        let both = rows.or_else(|| k.by_head.as_ref().zip(v.by_head.as_ref()));
        let (k, v) = both.ok_or(Refusal("its keys come in rows, its values by head"))?;
        let (k, v) = (k.value(site, patch)?, v.value(site, patch)?);
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

    /// The result of five dimensions, of one by head.
    fn split(
        &self,
        site: &Site<'_>,
        (y, [a, b]): (ValueId, [usize; 2]),
        patch: &mut Patch,
    ) -> Result<ValueId, Refusal> {
        let size = self.v.size.known().ok_or(NO_SIZES)?;
        let int = |n: usize| i64::try_from(n).map_err(|_| NO_SIZES);
        let [batch, len] = heads::kept(&self.q.dims).ok_or(NO_SIZES)?;
        heads::reshaped(site, patch, y, &[batch, int(a)?, int(b)?, len, int(size)?])
    }

    /// The node that computes the result by head. Keys and values are those of each head, or of several heads.
    fn by_head(
        &self,
        site: &Site<'_>,
        mask: Option<ValueId>,
        patch: &mut Patch,
    ) -> Result<NewNode, Refusal> {
        let shared = [&self.k, &self.v].map(|heads| match &heads.repeated {
            Some((source, times)) => Some((source, heads.n / times)),
            None => heads.by_head.as_ref().map(|source| (source, heads.n)),
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
        let q = self.q.by_head.as_ref().ok_or(NO_HEADS)?;
        let [q, k, v] = [q, k, v].map(|heads| heads.value(site, patch));
        let scale = Attrs::new().with("scale", Attr::Float(self.scale));
        let attrs = match self.cap {
            Some(cap) => scale.with("softcap", Attr::Float(cap)),
            None => scale,
        };
        Ok(NewNode {
            name: site.node().name.clone(),
            op_type: "Attention".to_owned(),
            since_version: newest(site, &[23, 24, 25]),
            inputs: [q?, k?, v?].into_iter().chain(mask).map(Some).collect(),
            attrs,
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
