//! A mask for each query and each key, as MultiHeadAttention wants it.

use ort_graph::{Attr, Attrs, Dim, Fact, NewNode, Patch, ValueId};
use ort_tensor::{DType, Tensor};

use super::Attention;
use super::chain::Heads;
use crate::pass::{Refusal, Site};
use crate::passes::transformer::newest;

const NO_MASK: Refusal = Refusal("what is added to its scores is no mask of known form");

/// The mask, `[B or 1, N or 1, S, T]`, made of one that is `[B or 1, N or 1, S or 1, any]`.
pub(super) fn for_each_score(
    site: &Site<'_>,
    found: &Attention,
    mask: ValueId,
    patch: &mut Patch,
) -> Result<ValueId, Refusal> {
    let [batch, s, _] = &found.q.dims;
    let [_, t, _] = &found.k.dims;
    let dims = site.graph.fact(mask).dims();
    let Some([of_batch, of_heads, of_queries, of_keys]) = dims else { return Err(NO_MASK) };
    let is_or_one = |dim: &Dim, full: &Dim| *dim == Dim::Known(1) || dim.equals(full);
    if !is_or_one(of_batch, batch)
        || !is_or_one(of_heads, &Dim::Known(found.q.n))
        || !is_or_one(of_queries, s)
    {
        return Err(NO_MASK);
    }
    if of_queries.equals(s) && of_keys.equals(t) {
        return Ok(mask);
    }
    let full = [of_batch.clone(), of_heads.clone(), s.clone(), t.clone()];
    if let Some(expanded) = expanded(site, mask, &full) {
        return Ok(expanded);
    }
    let target = target(site, found, patch)?;
    let expanded = patch.value("mask", Fact::tensor(DType::F32, full))?;
    let expand = node(site, ("Expand", &[8, 13]), vec![mask, target], expanded);
    patch.node(expand);
    Ok(expanded)
}

/// The mask as another layer has expanded it.
fn expanded(site: &Site<'_>, mask: ValueId, full: &[Dim; 4]) -> Option<ValueId> {
    let consumers = site.graph.consumers(mask).iter().map(|&id| site.graph.node(id));
    let outputs = consumers.filter(|node| node.op_type == "Expand" && node.domain.is_empty());
    outputs.filter(|node| node.inputs.first() == Some(&Some(mask))).find_map(|node| {
        let output = node.outputs.first().copied().flatten()?;
        let dims = site.graph.fact(output).dims()?;
        (dims.len() == 4 && dims.iter().zip(full).all(|(a, b)| a.equals(b))).then_some(output)
    })
}

/// `[1, 1, S, T]`
fn target(site: &Site<'_>, found: &Attention, patch: &mut Patch) -> Result<ValueId, Refusal> {
    let one = ints(patch, &[1])?;
    let s = len(site, &found.q, patch)?;
    let is_of_itself = found.q.dims[1].equals(&found.k.dims[1]);
    let t = if is_of_itself { s } else { len(site, &found.k, patch)? };
    let target = patch.value("mask_shape", Fact::shaped(DType::I64, &[4]))?;
    let mut concat = node(site, ("Concat", &[4, 11, 13]), vec![one, one, s, t], target);
    concat.attrs = Attrs::new().with("axis", Attr::Int(0));
    patch.node(concat);
    Ok(target)
}

/// `[S]` of `[B, S, …]`
fn len(site: &Site<'_>, rows: &Heads, patch: &mut Patch) -> Result<ValueId, Refusal> {
    if let Some(Ok(len)) = rows.dims[1].known().map(i64::try_from) {
        return ints(patch, &[len]);
    }
    let shape = patch.value("rows_shape", Fact::UNKNOWN)?;
    patch.node(node(site, ("Shape", &[1, 13]), vec![rows.source], shape));
    let at = ints(patch, &[1])?;
    let len = patch.value("n_rows", Fact::UNKNOWN)?;
    let mut gather = node(site, ("Gather", &[1, 11, 13]), vec![shape, at], len);
    gather.attrs = Attrs::new().with("axis", Attr::Int(0));
    patch.node(gather);
    Ok(len)
}

fn ints(patch: &mut Patch, ints: &[i64]) -> Result<ValueId, Refusal> {
    let tensor = Tensor::from_slice(&[ints.len()], ints);
    Ok(patch.constant("", tensor.map_err(|_| NO_MASK)?)?)
}

/// A node of ai.onnx in the newest of these versions that the model's opset has.
fn node(
    site: &Site<'_>,
    (op_type, versions): (&str, &[i32]),
    inputs: Vec<ValueId>,
    output: ValueId,
) -> NewNode {
    NewNode {
        op_type: op_type.to_owned(),
        since_version: newest(site, versions),
        inputs: inputs.into_iter().map(Some).collect(),
        outputs: vec![Some(output)],
        ..NewNode::default()
    }
}
