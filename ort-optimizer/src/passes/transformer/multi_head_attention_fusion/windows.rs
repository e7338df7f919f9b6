//! Masks of windows: those of a shifted Swin block, of which each window of an image has its own.
//!
//! ```text
//! Reshape(Reshape(scores, [b, W, N, S, T]) + mask, [b·W, N, S, T])     mask: [1, W, 1 or N, S, T]
//!     = scores + Reshape(Expand(mask, [b, W, …]), [b·W, …])
//! ```

use ort_graph::{Attr, Attrs, Dim, Fact, Graph, Node, Patch, ValueId};

use super::chain::Chain;
use super::heads::Heads;
use super::mask::{ints, len, node};
use crate::pass::{Refusal, Site};
use crate::passes::transformer::terms;

const NO_WINDOWS: Refusal = Refusal("its windows are not known to be those of its mask");

/// One or two masks of windows.
#[derive(Clone, Copy)]
pub(super) struct Windows {
    mask: ValueId,
    other: Option<ValueId>,
    n_windows: usize,
}

/// Scores, and the masks that are added to them by window.
pub(super) fn unmasked(chain: &mut Chain<'_>, value: ValueId) -> Option<(ValueId, Windows)> {
    let graph = chain.graph();
    let by_window = reshaped(graph, value)?;
    let dims = known::<4>(graph, by_window)?;
    let mut sums = vec![value, by_window];
    let mut masks = Vec::new();
    let mut sum = by_window;
    while masks.len() < 2 && reshaped(graph, sum).is_none() {
        let [a, b] = terms(graph, sum)?;
        let (mask, rest) = if is_sum(graph, a, dims, 2) { (b, a) } else { (a, b) };
        if !is_mask(graph, mask, dims) {
            return None;
        }
        masks.push(mask); // bounded: two
        sums.push(rest); // bounded: two
        sum = rest;
    }
    let scores = reshaped(graph, sum)?;
    let [n_windows, n, s, t] = dims;
    let is_same = [value, scores].iter().all(|&it| known::<3>(graph, it) == Some([n, s, t]));
    let windows = Windows { mask: *masks.first()?, other: masks.get(1).copied(), n_windows };
    if !is_same {
        return None;
    }
    for sum in sums {
        chain.enter(sum);
    }
    Some((scores, windows))
}

/// Whether a value is scores by window, to which masks may be added.
fn is_sum(graph: &Graph, value: ValueId, dims: [usize; 4], depth: usize) -> bool {
    let [_, rest @ ..] = dims;
    let is_scores = |scores| known::<3>(graph, scores) == Some(rest);
    let Some(depth) = depth.checked_sub(1) else { return false };
    reshaped(graph, value).is_some_and(is_scores)
        || terms(graph, value)
            .is_some_and(|both| both.into_iter().any(|term| is_sum(graph, term, dims, depth)))
}

/// What a Reshape makes a value of.
fn reshaped(graph: &Graph, value: ValueId) -> Option<ValueId> {
    let (id, _) = graph.producer(value)?;
    let node: &Node = graph.node(id);
    let is_reshape = node.domain.is_empty() && node.op_type == "Reshape";
    node.inputs.first().copied().flatten().filter(|_| is_reshape)
}

/// The dimensions behind the first, which are known and not zero.
fn known<const N: usize>(graph: &Graph, value: ValueId) -> Option<[usize; N]> {
    let (_, dims) = graph.fact(value).dims()?.split_first()?;
    let mut all = [0; N];
    if dims.len() != N {
        return None;
    }
    for (known, dim) in all.iter_mut().zip(dims) {
        *known = dim.known().filter(|&n| n > 0)?;
    }
    Some(all)
}

/// Whether a value is `[1, W, 1 or N, S, T]`.
fn is_mask(graph: &Graph, value: ValueId, [w, n, s, t]: [usize; 4]) -> bool {
    let is_first = graph.fact(value).dims().and_then(<[Dim]>::first) == Some(&Dim::Known(1));
    let dims = known::<4>(graph, value);
    is_first && dims.is_some_and(|dims| [[w, 1, s, t], [w, n, s, t]].contains(&dims))
}

impl Windows {
    /// The mask of all windows of all images, and its dimensions.
    pub(super) fn of_each(
        &self,
        site: &Site<'_>,
        queries: &Heads,
        patch: &mut Patch,
    ) -> Result<(ValueId, [Dim; 4]), Refusal> {
        let [w, n, s, t] = self.dims(site).ok_or(NO_WINDOWS)?;
        let mut mask = self.mask;
        if let Some(other) = self.other {
            let sum = patch.value("mask_sum", Fact::UNKNOWN)?;
            patch.node(node(site, ("Add", &[7, 13, 14]), vec![mask, other], sum));
            mask = sum;
        }
        let int = |n: usize| i64::try_from(n).map_err(|_| NO_WINDOWS);
        let rest = [int(w)?, int(n)?, int(s)?, int(t)?];
        let n_all = queries.dims[0].known();
        if n_all != Some(self.n_windows) {
            let target = Self::shape(site, (queries, rest), patch)?;
            let expanded = patch.value("mask_of_images", Fact::UNKNOWN)?;
            patch.node(node(site, ("Expand", &[8, 13]), vec![mask, target], expanded));
            mask = expanded;
        }
        let shape = ints(patch, &[-1, rest[1], rest[2], rest[3]])?;
        let [n, s, t] = [n, s, t].map(Dim::Known);
        let dims = [queries.dims[0].clone(), n, s, t];
        let all =
            patch.value("mask_of_windows", Fact::tensor(ort_tensor::DType::F32, dims.clone()))?;
        patch.node(node(site, ("Reshape", &[5, 13, 14]), vec![mask, shape], all));
        Ok((all, dims))
    }

    /// Those of the masks, without the first.
    fn dims(&self, site: &Site<'_>) -> Option<[usize; 4]> {
        let mut dims = known::<4>(site.graph, self.mask)?;
        if let Some(other) = self.other {
            dims[1] = dims[1].max(known::<4>(site.graph, other)?[1]);
        }
        Some(dims)
    }

    /// `[b, W, …]`, where `b·W` is how many windows there are.
    fn shape(
        site: &Site<'_>,
        (queries, rest): (&Heads, [i64; 4]),
        patch: &mut Patch,
    ) -> Result<ValueId, Refusal> {
        let [w, n, s, t] = rest;
        if let Some(Ok(n_all)) = queries.dims[0].known().map(i64::try_from) {
            let n_images = n_all.checked_div(w).filter(|_| n_all % w == 0).ok_or(NO_WINDOWS)?;
            return ints(patch, &[n_images, w, n, s, t]);
        }
        let n_all = len(site, (queries, 0), patch)?;
        let by = ints(patch, &[w])?;
        let n_images = patch.value("n_images", Fact::UNKNOWN)?;
        patch.node(node(site, ("Div", &[7, 13, 14]), vec![n_all, by], n_images));
        let rest = ints(patch, &rest)?;
        let shape = patch.value("windows_shape", Fact::shaped(ort_tensor::DType::I64, &[5]))?;
        let mut concat = node(site, ("Concat", &[4, 11, 13]), vec![n_images, rest], shape);
        concat.attrs = Attrs::new().with("axis", Attr::Int(0));
        patch.node(concat);
        Ok(shape)
    }
}
