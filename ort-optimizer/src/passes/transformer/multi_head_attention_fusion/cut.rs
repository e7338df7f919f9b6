//! Masks that are cut from a table.

use ort_graph::{Dim, Graph, Node, ValueId};

use crate::sizes::{Size, sizes};

/// How many nodes lie between a mask and the Slice that cuts it, and between an integer and what computes it.
const MAX_DEPTH: usize = 8;

/// Whether a value has at most `n` rows along the last axis but one, because a Slice of `x..x + n` cuts them, or of
/// `x - n..x`.
pub(super) fn is_cut(graph: &Graph, mut value: ValueId, n: &Dim) -> bool {
    for _ in 0..MAX_DEPTH {
        let Some((id, _)) = graph.producer(value) else { return false };
        let node = graph.node(id);
        let next = match (&*node.domain, &*node.op_type) {
            ("", "Slice") => match Cut::of(graph, node) {
                Some(cut) if cut.is_of_rows => return cut.has_at_most(graph, n),
                Some(cut) => Some(cut.data),
                None => None,
            },
            ("", "Cast" | "Not" | "Add" | "Sub" | "Mul" | "Where") => elementwise(graph, node),
            _ => None,
        };
        let Some(next) = next else { return false };
        value = next;
    }
    false
}

/// The only input that is not a number.
fn elementwise(graph: &Graph, node: &Node) -> Option<ValueId> {
    let is_number = |value: &ValueId| graph.constant(*value).is_some_and(|it| it.len() == 1);
    let mut others = node.inputs.iter().flatten().copied().filter(|value| !is_number(value));
    others.next().filter(|_| others.next().is_none())
}

/// A Slice with a step of 1 along one axis.
struct Cut {
    data: ValueId,
    start: ValueId,
    end: ValueId,
    is_of_rows: bool,
}

impl Cut {
    fn of(graph: &Graph, node: &Node) -> Option<Self> {
        let input = |index: usize| node.inputs.get(index).copied().flatten();
        let only = |index: usize| match graph.fact(input(index)?).ints()?[..] {
            [int] => Some(int),
            _ => None,
        };
        if node.since_version < 10 || (input(4).is_some() && only(4) != Some(1)) {
            return None;
        }
        let (data, start, end) = (input(0)?, input(1)?, input(2)?);
        let rank = i64::try_from(graph.fact(data).rank()?).ok()?;
        let axis = only(3)?;
        let from_end = if axis < 0 { axis } else { axis.checked_sub(rank)? };
        Some(Self { data, start, end, is_of_rows: from_end == -2 })
    }

    /// Whether `end = start + n`. A range that begins before the first row, or ends after the last, has fewer.
    fn has_at_most(&self, graph: &Graph, n: &Dim) -> bool {
        let [start, end] = [self.start, self.end].map(|value| source(graph, value));
        let is_n = |value| is_dim(graph, value, n);
        let of = |value: ValueId, op: &str| {
            let (id, _) = graph.producer(value)?;
            let node = graph.node(id);
            let is_op = node.domain.is_empty() && node.op_type == op;
            match node.inputs[..] {
                [Some(a), Some(b)] if is_op => Some([a, b].map(|value| source(graph, value))),
                _ => None,
            }
        };
        of(end, "Add").is_some_and(|[a, b]| {
            (is_same(graph, a, start) && is_n(b)) || (is_same(graph, b, start) && is_n(a))
        }) || of(start, "Sub").is_some_and(|[a, b]| is_same(graph, a, end) && is_n(b))
    }
}

/// What an integer is copied from.
fn source(graph: &Graph, mut value: ValueId) -> ValueId {
    for _ in 0..MAX_DEPTH {
        let Some((id, _)) = graph.producer(value) else { return value };
        let node = graph.node(id);
        let is_copy = matches!(&*node.op_type, "Unsqueeze" | "Squeeze" | "Identity" | "Reshape");
        match node.inputs.first() {
            Some(&Some(input)) if is_copy && node.domain.is_empty() => value = input,
            _ => return value,
        }
    }
    value
}

fn is_same(graph: &Graph, a: ValueId, b: ValueId) -> bool {
    let one = |value| match &sizes(graph, value)?[..] {
        [size] if *size != Size::Unknown => Some(size.clone()),
        _ => None,
    };
    a == b || one(a).zip(one(b)).is_some_and(|(a, b)| a == b)
}

/// Whether an integer is a dimension.
fn is_dim(graph: &Graph, value: ValueId, dim: &Dim) -> bool {
    match (sizes(graph, value).as_deref(), dim) {
        (Some([Size::Symbol(name)]), Dim::Symbol(dim)) => name == dim,
        (Some([Size::Known(n)]), Dim::Known(dim)) => usize::try_from(*n) == Ok(*dim),
        _ => false,
    }
}
