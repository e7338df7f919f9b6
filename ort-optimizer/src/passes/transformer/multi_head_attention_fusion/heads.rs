//! Queries, keys and values as an attention finds them: in rows, or by head.
//!
//! A product of all heads has four dimensions, a product of one head may have three: then rows are what is multiplied.
//! A product of five dimensions is one of as many heads as two of them make.
//! Keys are multiplied with their last two dimensions swapped; where a Transpose makes them so, another one makes
//! them by head.

use ort_graph::{Attr, Attrs, Dim, Fact, Graph, Node, Patch, ValueId};
use ort_ops::ops::transpose::Transpose;

use super::mask::{ints, node};
use super::repeats;
use crate::pass::{Refusal, Site};

/// How queries and values come by head.
pub(super) const QUERIES: [usize; 4] = [0, 2, 1, 3];
/// The same for keys, which are transposed for the product.
const KEYS: [usize; 4] = [0, 2, 3, 1];
/// The last two dimensions swapped.
const SWAPPED: [usize; 4] = [0, 1, 3, 2];

/// Rows of which each is `n` heads of `size` elements, and where they come from.
#[derive(Clone)]
pub(super) struct Heads {
    /// `[B, S, n·size]`, unless they come by head, as behind a past or a rotation.
    pub(super) rows: Option<Source>,
    /// `[B, n, S, size]`, if there is such a value, or it can be made.
    pub(super) by_head: Option<Source>,
    /// `[B, S]`
    pub(super) dims: [Dim; 2],
    pub(super) n: usize,
    pub(super) size: Dim,
    /// What comes by head before each head is repeated, and how many times: `[B, n/times, S, size]`.
    pub(super) repeated: Option<(Source, usize)>,
    /// Whether keys come swapped, without a Transpose.
    pub(super) are_swapped: bool,
    /// The two dimensions of five that are taken for one of heads.
    pub(super) joined: Option<[usize; 2]>,
}

/// A value, or what a Transpose would make of it.
#[derive(Clone)]
pub(super) struct Source {
    value: ValueId,
    perm: Option<Vec<usize>>,
    /// What its five dimensions are reshaped to.
    shape: Option<[i64; 4]>,
}

impl Source {
    pub(super) const fn of(value: ValueId) -> Self {
        Self { value, perm: None, shape: None }
    }

    /// What this permutation makes of a value, which is the value if it permutes nothing.
    pub(super) fn permuted(value: ValueId, perm: &[usize]) -> Self {
        let is_kept = perm.iter().copied().eq(0..perm.len());
        Self { value, perm: (!is_kept).then(|| perm.to_vec()), shape: None }
    }

    /// The value whose dimensions it has, and the axis there.
    pub(super) fn axis(&self, axis: usize) -> (ValueId, usize) {
        let axis = if self.shape.is_some() && axis >= 2 { axis + 1 } else { axis };
        let of = self.perm.as_ref().and_then(|perm| perm.get(axis).copied());
        (self.value, of.unwrap_or(axis))
    }

    /// The value, which the patch makes where there is none.
    pub(super) fn value(&self, site: &Site<'_>, patch: &mut Patch) -> Result<ValueId, Refusal> {
        let value = match &self.perm {
            None => self.value,
            Some(perm) => transposed(site, patch, self.value, perm)?,
        };
        match self.shape {
            None => Ok(value),
            Some(shape) => reshaped(site, patch, value, &shape),
        }
    }

    fn dim<'g>(&self, graph: &'g Graph, axis: usize) -> Option<&'g Dim> {
        let (value, axis) = self.axis(axis);
        graph.fact(value).dims()?.get(axis)
    }
}

/// `Transpose(value)`
pub(super) fn transposed(
    site: &Site<'_>,
    patch: &mut Patch,
    value: ValueId,
    perm: &[usize],
) -> Result<ValueId, Refusal> {
    let output = patch.value("by_head", Fact::UNKNOWN)?;
    let mut transpose = node(site, ("Transpose", &[1, 13]), vec![value], output);
    // bounded: by the rank
    let perm = perm.iter().filter_map(|&axis| i64::try_from(axis).ok()).collect();
    transpose.attrs = Attrs::new().with("perm", Attr::Ints(perm));
    patch.node(transpose);
    Ok(output)
}

/// `Reshape(value)`
pub(super) fn reshaped(
    site: &Site<'_>,
    patch: &mut Patch,
    value: ValueId,
    shape: &[i64],
) -> Result<ValueId, Refusal> {
    let shape = ints(patch, shape)?;
    let output = patch.value("reshaped", Fact::UNKNOWN)?;
    patch.node(node(site, ("Reshape", &[5, 13, 14]), vec![value, shape], output));
    Ok(output)
}

impl Heads {
    /// Queries or values, `[B, n, S, size]` or `[B, S, size]`.
    pub(super) fn of(graph: &Graph, value: ValueId) -> Option<Self> {
        match graph.fact(value).rank() {
            Some(3) => return Self::one(graph, Source::of(value)),
            Some(5) => return Self::joined(graph, Source::of(value)),
            _ => {}
        }
        let split = || Self::of_rows(graph, transposed_by(graph, value, &QUERIES)?);
        if let Some(heads) = split() {
            return Some(Self { by_head: Some(Source::of(value)), ..heads });
        }
        let repeated = repeats::source(graph, value);
        let repeated = repeated.map(|(source, times)| (Source::of(source), times));
        Self::by_head(graph, Source::of(value), repeated)
    }

    /// Keys whose last two dimensions are swapped for the product.
    pub(super) fn of_swapped(graph: &Graph, value: ValueId) -> Option<Self> {
        let transpose = transpose(graph, value);
        let source = match transpose {
            Some((source, perm)) => Source::permuted(source, &swapped(perm.iter().copied())),
            None => Source::permuted(value, &swapped(0..graph.fact(value).rank()?)),
        };
        let heads = match (graph.fact(value).rank(), transpose) {
            (Some(3), _) => Self::one(graph, source)?,
            (Some(5), _) => Self::joined(graph, source)?,
            (_, Some((source, perm))) if perm == SWAPPED => return Self::of(graph, source),
            _ => Self::keys(graph, (value, source), transpose)?,
        };
        Some(Self { are_swapped: transpose.is_none() && heads.repeated.is_none(), ..heads })
    }

    /// Keys of four dimensions that are not just swapped: of rows, repeated, or permuted otherwise.
    fn keys(
        graph: &Graph,
        (value, source): (ValueId, Source),
        transpose: Option<(ValueId, &[usize])>,
    ) -> Option<Self> {
        if let Some((rows, perm)) = transpose
            && perm == KEYS
            && let Some(heads) = Self::of_rows(graph, rows)
        {
            return Some(Self { by_head: Some(source), ..heads });
        }
        if let Some((source, times)) = repeats::source_of_swapped(graph, value) {
            let heads = Self::by_head(graph, source.clone(), None)?;
            let n = heads.n.checked_mul(times)?;
            return Some(Self { n, by_head: None, repeated: Some((source, times)), ..heads });
        }
        Self::by_head(graph, source, None)
    }

    /// One head.
    fn one(graph: &Graph, rows: Source) -> Option<Self> {
        let [b, s, size] = [0, 1, 2].map(|axis| rows.dim(graph, axis).cloned());
        let dims = [b?, s?];
        Some(Self { rows: Some(rows), ..Self::new(dims, 1, size?) })
    }

    const fn new(dims: [Dim; 2], n: usize, size: Dim) -> Self {
        let (rows, by_head, repeated, joined) = (None, None, None, None);
        Self { rows, by_head, dims, n, size, repeated, are_swapped: false, joined }
    }

    /// Heads of five dimensions, `[B, W, n/W, S, size]`, of which two are known and taken for one.
    fn joined(graph: &Graph, heads: Source) -> Option<Self> {
        let dim = |axis| heads.dim(graph, axis);
        let (&Dim::Known(a), &Dim::Known(b), &Dim::Known(size)) = (dim(1)?, dim(2)?, dim(4)?)
        else {
            return None;
        };
        let n = a.checked_mul(b).filter(|&n| n > 0)?;
        let dims = [dim(0)?.clone(), dim(3)?.clone()];
        let [batch, len] = kept(&dims)?;
        let int = |n: usize| i64::try_from(n).ok().filter(|&n| n > 0);
        let shape = [batch, int(n)?, len, int(size)?];
        let by_head = Some(Source { shape: Some(shape), ..heads });
        Some(Self { by_head, joined: Some([a, b]), ..Self::new(dims, n, Dim::Known(size)) })
    }

    /// Heads of four dimensions.
    fn by_head(graph: &Graph, heads: Source, repeated: Option<(Source, usize)>) -> Option<Self> {
        let dim = |axis| heads.dim(graph, axis);
        if dim(4).is_some() {
            return None;
        }
        let (&Dim::Known(n), &Dim::Known(size)) = (dim(1)?, dim(3)?) else { return None };
        let source = repeated.as_ref().map_or(&heads, |(source, _)| source);
        let dims = [0, 2].map(|axis| source.dim(graph, axis).cloned());
        let [Some(b), Some(s)] = dims else { return None };
        let new = Self::new([b, s], n, Dim::Known(size));
        (n > 0).then_some(Self { by_head: Some(heads), repeated, ..new })
    }

    /// Rows that a Reshape cuts into heads.
    fn of_rows(graph: &Graph, reshaped: ValueId) -> Option<Self> {
        let (id, _) = graph.producer(reshaped)?;
        let reshape = graph.node(id);
        let source = reshape.inputs.first().copied().flatten()?;
        let (from, to) = (graph.fact(source).dims()?, graph.fact(reshaped).dims()?);
        let (
            &[ref b, ref s, Dim::Known(width)],
            &[ref to_b, ref to_s, Dim::Known(n), Dim::Known(size)],
        ) = (from, to)
        else {
            return None;
        };
        // If one of the others stays, both do.
        let is_split = n.checked_mul(size) == Some(width) && (b.equals(to_b) || s.equals(to_s));
        let is_reshape = reshape.domain.is_empty() && reshape.op_type == "Reshape";
        (is_split && is_reshape && n > 0).then_some(Self {
            rows: Some(Source::of(source)),
            ..Self::new([b.clone(), s.clone()], n, Dim::Known(size))
        })
    }

    /// Whether it is one head, of three dimensions.
    pub(super) const fn is_one(&self) -> bool {
        self.by_head.is_none() && self.repeated.is_none()
    }
}

/// How a Reshape keeps `[B, S]`, of which one must be known: where there is no other element, neither follows.
pub(super) fn kept(dims: &[Dim; 2]) -> Option<[i64; 2]> {
    match dims.each_ref().map(|dim| dim.known().and_then(|n| i64::try_from(n).ok())) {
        [Some(0), _] | [_, Some(0)] | [None, None] => None,
        [batch, len] => Some([batch.unwrap_or(0), len.unwrap_or(-1)]),
    }
}

/// The same axes with the last two swapped.
fn swapped(axes: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut axes: Vec<_> = axes.collect(); // bounded: by the rank
    if let [.., a, b] = &mut *axes {
        std::mem::swap(a, b);
    }
    axes
}

/// What becomes the value by this permutation.
fn transposed_by(graph: &Graph, value: ValueId, perm: &[usize]) -> Option<ValueId> {
    let (source, found) = transpose(graph, value)?;
    (found == perm).then_some(source)
}

/// What a Transpose makes a value of, and its permutation.
pub(super) fn transpose(graph: &Graph, value: ValueId) -> Option<(ValueId, &[usize])> {
    let node: &Node = graph.producer(value).map(|(id, _)| graph.node(id))?;
    let perm = node.operator::<Transpose>()?.perm.as_deref()?;
    Some((node.inputs.first().copied().flatten()?, perm))
}
