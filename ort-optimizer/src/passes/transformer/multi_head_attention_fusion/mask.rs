//! A mask for each query and each key, as MultiHeadAttention wants it.

use std::iter;

use ort_graph::{Attr, Attrs, Dim, Fact, NewNode, Patch, ValueId};
use ort_tensor::{DType, Tensor};

use super::Attention;
use super::chain::{self, Mask};
use super::cut::is_cut;
use super::heads::Heads;
use crate::pass::{Refusal, Site};
use crate::passes::transformer::newest;

const NO_MASK: Refusal = Refusal("what is added to its scores is no mask of known form");
/// Scores that are added to such a number, or a lower one, vanish beside it: half its last place is 10²².
const HIDDEN: f32 = -1e30;

/// What is added to scores, `[B or 1, N or 1, S or 1, T or 1]`; not every dimension may be known to be one of these.
struct Sum {
    value: ValueId,
    /// Whether it has all of these dimensions, of which the first may be left out.
    is_whole: bool,
    dims: [Dim; 4],
    /// Whether the patch makes it.
    is_new: bool,
}

/// What is added to the scores, `[B or 1, N or 1, S, T]`.
pub(super) fn for_each_score(
    site: &Site<'_>,
    found: &Attention,
    patch: &mut Patch,
) -> Result<Option<ValueId>, Refusal> {
    let Some(mask) = summed(site, found, patch)? else { return Ok(None) };
    let [batch, s] = &found.q.dims;
    let [_, t] = &found.k.dims;
    let [of_batch, of_heads, of_queries, of_keys] = &mask.dims;
    let is_or_one = |dim: &Dim, full: &Dim| *dim == Dim::Known(1) || dim.equals(full);
    if !is_or_one(of_batch, batch) || !is_or_one(of_heads, &Dim::Known(found.q.n)) {
        return Err(NO_MASK);
    }
    // Heads may be those of windows, which a mask tells apart.
    if found.q.joined.is_some() && [of_batch, of_heads].iter().any(|dim| **dim != Dim::Known(1)) {
        return Err(NO_MASK);
    }
    // What is not broadcast is as long as the keys.
    let is_of_each_key = of_keys.equals(t) || of_keys.known().is_some_and(|n| n != 1);
    if mask.is_whole && of_queries.equals(s) && is_of_each_key {
        return Ok(Some(mask.value));
    }
    let full = [of_batch.clone(), of_heads.clone(), s.clone(), t.clone()];
    if !mask.is_new
        && let Some(expanded) = expanded(site, mask.value, &full)
    {
        return Ok(Some(expanded));
    }
    let target = target(site, found, patch)?;
    let expanded = patch.value("mask", Fact::tensor(DType::F32, full))?;
    let expand = node(site, ("Expand", &[8, 13]), vec![mask.value, target], expanded);
    patch.node(expand);
    Ok(Some(expanded))
}

/// All that is done to scores, the last first, as a sum.
fn summed(site: &Site<'_>, found: &Attention, patch: &mut Patch) -> Result<Option<Sum>, Refusal> {
    let mut sum = None;
    for mask in found.masks.iter().rev() {
        sum = Some(match *mask {
            Mask::Added(value) => added(site, Sum::of(site, value, &found.q, patch)?, sum, patch)?,
            Mask::Filled { condition, number, hides } => {
                let condition = Sum::of(site, condition, &found.q, patch)?;
                filled(site, (condition, number, hides), sum, patch)?
            }
            Mask::OfWindows(windows) => {
                let (value, dims) = windows.of_each(site, &found.q, patch)?;
                let of_windows = Sum { value, is_whole: true, dims, is_new: true };
                added(site, of_windows, sum, patch)?
            }
        });
    }
    Ok(sum)
}

/// `sum + term`
fn added(site: &Site<'_>, term: Sum, sum: Option<Sum>, patch: &mut Patch) -> Result<Sum, Refusal> {
    let Some(sum) = sum else { return Ok(term) };
    let both = patch.value("mask_sum", Fact::UNKNOWN)?;
    patch.node(node(site, ("Add", &[7, 13, 14]), vec![sum.value, term.value], both));
    sum.joined(term, both)
}

/// `sum`, or the number where the condition hides keys: scores that it is added to vanish.
fn filled(
    site: &Site<'_>,
    (condition, number, hides): (Sum, ValueId, bool),
    sum: Option<Sum>,
    patch: &mut Patch,
) -> Result<Sum, Refusal> {
    let lowest = site.graph.constant(number).and_then(chain::number);
    if lowest.is_none_or(|lowest| lowest > HIDDEN) {
        return Err(Refusal("scores may reach the number that hides keys"));
    }
    let sum = match sum {
        Some(sum) => sum,
        None => {
            let zero = Tensor::from_slice(&[], &[0.0_f32]).map_err(|_| NO_MASK)?;
            let value = patch.constant("", zero)?;
            let dims = [const { Dim::Known(1) }; 4];
            Sum { value, is_whole: false, dims, is_new: true }
        }
    };
    let (seen, hidden) = (sum.value, number);
    let sides = if hides { [hidden, seen] } else { [seen, hidden] };
    let either = patch.value("mask_sum", Fact::UNKNOWN)?;
    let inputs = vec![condition.value, sides[0], sides[1]];
    patch.node(node(site, ("Where", &[9, 16]), inputs, either));
    sum.joined(condition, either)
}

impl Sum {
    /// A value that is there, and does not add queries.
    fn of(
        site: &Site<'_>,
        value: ValueId,
        queries: &Heads,
        patch: &mut Patch,
    ) -> Result<Self, Refusal> {
        let dims = site.graph.fact(value).dims().ok_or(NO_MASK)?;
        if let ([b, s, t], true) = (dims, queries.is_one())
            && *b != Dim::Known(1)
        {
            return Self::of_one(site, value, [b, s, t], queries, patch);
        }
        let n_missing = 4_usize.checked_sub(dims.len()).ok_or(NO_MASK)?;
        let mut all = [const { Dim::Known(1) }; 4];
        all[n_missing..].clone_from_slice(dims);
        Self::check(site, value, (&all[2], queries))?;
        Ok(Self { value, is_whole: n_missing == 0, dims: all, is_new: false })
    }

    /// That a value has one row, or as many as there are queries.
    fn check(
        site: &Site<'_>,
        value: ValueId,
        (rows, queries): (&Dim, &Heads),
    ) -> Result<(), Refusal> {
        let s = &queries.dims[1];
        match *rows == Dim::Known(1) || rows.equals(s) || is_cut(site.graph, value, s) {
            true => Ok(()),
            false => Err(NO_MASK),
        }
    }

    /// `[B, S, T]` of one head.
    fn of_one(
        site: &Site<'_>,
        value: ValueId,
        [b, s, t]: [&Dim; 3],
        queries: &Heads,
        patch: &mut Patch,
    ) -> Result<Self, Refusal> {
        Self::check(site, value, (s, queries))?;
        let dtype = site.graph.fact(value).dtype().ok_or(NO_MASK)?;
        let dims = [b.clone(), Dim::Known(1), s.clone(), t.clone()];
        let of_head = patch.value("mask_of_head", Fact::tensor(dtype, dims.clone()))?;
        let has_input = newest(site, &[1, 11, 13]) == 13;
        let axes = if has_input { Some(ints(patch, &[1])?) } else { None };
        let inputs = iter::once(value).chain(axes).collect(); // bounded: two
        let mut unsqueeze = node(site, ("Unsqueeze", &[1, 11, 13]), inputs, of_head);
        if !has_input {
            unsqueeze.attrs = Attrs::new().with("axes", Attr::Ints(vec![1]));
        }
        patch.node(unsqueeze);
        Ok(Self { value: of_head, is_whole: true, dims, is_new: true })
    }

    /// A value made of this and another, which are broadcast.
    fn joined(self, other: Self, value: ValueId) -> Result<Self, Refusal> {
        let mut dims = self.dims;
        for (axis, (dim, other)) in dims.iter_mut().zip(other.dims).enumerate() {
            match (&*dim, &other) {
                (_, Dim::Known(1)) => {}
                (Dim::Known(1), _) => *dim = other,
                (a, b) if a.equals(b) => {}
                // Each is one or as long as the scores.
                _ if axis >= 2 => *dim = Dim::Unknown,
                _ => return Err(NO_MASK),
            }
        }
        Ok(Self { value, is_whole: self.is_whole || other.is_whole, dims, is_new: true })
    }
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
    let s = len(site, (&found.q, 1), patch)?;
    let is_of_itself = found.q.dims[1].equals(&found.k.dims[1]);
    let t = if is_of_itself { s } else { len(site, (&found.k, 1), patch)? };
    let target = patch.value("mask_shape", Fact::shaped(DType::I64, &[4]))?;
    let mut concat = node(site, ("Concat", &[4, 11, 13]), vec![one, one, s, t], target);
    concat.attrs = Attrs::new().with("axis", Attr::Int(0));
    patch.node(concat);
    Ok(target)
}

/// `[B]` or `[S]` of `[B, S, …]`
pub(super) fn len(
    site: &Site<'_>,
    (rows, axis): (&Heads, usize),
    patch: &mut Patch,
) -> Result<ValueId, Refusal> {
    if let Some(Ok(len)) = rows.dims[axis].known().map(i64::try_from) {
        return ints(patch, &[len]);
    }
    let repeated = rows.repeated.as_ref().map(|(source, _)| source);
    let (source, axis) = match (&rows.rows, repeated.or(rows.by_head.as_ref())) {
        (Some(rows), _) => rows.axis(axis),
        (None, Some(by_head)) => by_head.axis(2 * axis),
        (None, None) => return Err(NO_MASK),
    };
    let axis = i64::try_from(axis).map_err(|_| NO_MASK)?;
    let shape = patch.value("rows_shape", Fact::UNKNOWN)?;
    patch.node(node(site, ("Shape", &[1, 13]), vec![source], shape));
    let at = ints(patch, &[axis])?;
    let len = patch.value("n_rows", Fact::UNKNOWN)?;
    let mut gather = node(site, ("Gather", &[1, 11, 13]), vec![shape, at], len);
    gather.attrs = Attrs::new().with("axis", Attr::Int(0));
    patch.node(gather);
    Ok(len)
}

pub(super) fn ints(patch: &mut Patch, ints: &[i64]) -> Result<ValueId, Refusal> {
    let tensor = Tensor::from_slice(&[ints.len()], ints);
    Ok(patch.constant("", tensor.map_err(|_| NO_MASK)?)?)
}

/// A node of ai.onnx in the newest of these versions that the model's opset has.
pub(super) fn node(
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
