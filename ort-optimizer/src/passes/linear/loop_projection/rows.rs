//! The slices along the first axis that the iterations read, one each.

use ort_graph::{Attr, Graph, Node, ValueId};
use ort_ops::ops::gather::Gather;
use ort_tensor::{Bool, Tensor};

/// Slices of a tensor along its first axis, one per iteration.
pub(super) enum Rows {
    /// The slices of a scanned input.
    Scanned { all: ValueId, is_reversed: bool },
    /// The slices looked up by the iteration number, the value `at` of the body.
    Gathered { all: ValueId, at: ValueId },
}

impl Rows {
    /// The rows of which `x` of the body is a slice.
    pub(super) fn of(graph: &Graph, node: &Node, body: &Graph, x: ValueId) -> Option<Self> {
        if node.op_type == "Scan" { scanned(node, body, x) } else { gathered(graph, node, body, x) }
    }

    pub(super) fn all(&self) -> ValueId {
        match *self {
            Rows::Scanned { all, .. } | Rows::Gathered { all, .. } => all,
        }
    }
}

fn scanned(node: &Node, body: &Graph, x: ValueId) -> Option<Rows> {
    let Some(Attr::Int(n)) = node.attrs.get("num_scan_inputs") else { return None };
    let first = node.inputs.len().checked_sub(usize::try_from(*n).ok()?)?;
    let position = body.inputs().iter().position(|&input| input == x)?;
    let index = position.checked_sub(first).filter(|_| node.since_version > 8)?;
    let of = |name: &str| match node.attrs.get(name) {
        Some(Attr::Ints(ints)) => ints.get(index).copied().unwrap_or(0),
        _ => 0,
    };
    let all = node.inputs[position]?;
    let is_reversed = of("scan_input_directions") != 0;
    (of("scan_input_axes") == 0).then_some(Rows::Scanned { all, is_reversed })
}

fn gathered(graph: &Graph, node: &Node, body: &Graph, x: ValueId) -> Option<Rows> {
    let lookup = body.node(body.producer(x)?.0);
    let &[Some(source), Some(at)] = &*lookup.inputs else { return None };
    let &(_, there) = body.captures().iter().find(|(here, _)| *here == source)?;
    let all = match lookup.op_type.as_str() {
        "Gather" if lookup.operator::<Gather>()?.axis == 0 => there,
        "SequenceAt" => split(graph, there)?,
        _ => return None,
    };
    let n_rows = graph.fact(all).dims()?.first()?.known()?;
    let is_worth_it = n_trips(graph, node, body)? >= n_rows.div_ceil(2);
    (body.inputs().first() == Some(&at) && is_worth_it).then_some(Rows::Gathered { all, at })
}

/// The tensor of whose slices along the first axis a sequence consists.
fn split(graph: &Graph, sequence: ValueId) -> Option<ValueId> {
    let node = graph.node(graph.producer(sequence)?.0);
    let is_zero = |name: &str, default: i64| match node.attrs.get(name) {
        Some(Attr::Int(value)) => *value == 0,
        _ => default == 0,
    };
    let is_into_rows = node.op_type == "SplitToSequence"
        && node.inputs.get(1).copied().flatten().is_none()
        && is_zero("axis", 0)
        && is_zero("keepdims", 1);
    node.inputs.first().copied()?.filter(|_| is_into_rows)
}

/// How many iterations a Loop has if it has any, as far as constants determine it.
fn n_trips(graph: &Graph, node: &Node, body: &Graph) -> Option<usize> {
    let most = node.inputs.first().copied()?;
    let most = most.map(|most| scalar(graph, most).ok_or(())).transpose().ok()?;
    let next = body.outputs().first().map(|&next| through_identities(body, next))?;
    let is_true = |tensor: &Tensor| matches!(tensor.as_slice::<Bool>(), Ok([it]) if it.get());
    let is_endless =
        body.inputs().get(1) == Some(&next) || body.constant(next).is_some_and(is_true);
    let end = if is_endless { None } else { Some(last(body, next)?.checked_add(1)?) };
    usize::try_from(most.into_iter().chain(end).min()?).ok()
}

/// The number of the last iteration, if the condition is that an iteration's number, or the next, is
/// below a constant.
fn last(body: &Graph, condition: ValueId) -> Option<i64> {
    let less = body.node(body.producer(condition)?.0);
    let &[Some(number), Some(end)] = &*less.inputs else { return None };
    let end = scalar(body, end).filter(|_| less.op_type == "Less")?;
    let first = body.inputs().first().copied();
    if first == Some(number) {
        return Some(end.max(0));
    }
    let next = body.node(body.producer(number)?.0);
    let &[Some(a), Some(b)] = &*next.inputs else { return None };
    let is_next = |a, b| Some(a) == first && scalar(body, b) == Some(1);
    let is_next = next.op_type == "Add" && (is_next(a, b) || is_next(b, a));
    is_next.then_some(end.saturating_sub(1).max(0))
}

fn through_identities(graph: &Graph, mut value: ValueId) -> ValueId {
    while let Some((node, _)) = graph.producer(value)
        && let node = graph.node(node)
        && node.op_type == "Identity"
        && let Some(&Some(source)) = node.inputs.first()
    {
        value = source;
    }
    value
}

fn scalar(graph: &Graph, value: ValueId) -> Option<i64> {
    match graph.constant(value)?.as_slice::<i64>() {
        Ok(&[number]) => Some(number),
        _ => None,
    }
}
