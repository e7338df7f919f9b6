//! The axes, and their ranges, of nodes.

use ort_graph::{Attr, Graph, Node};

/// The integers of an attribute, or of the constant input that replaced it.
fn ints(graph: &Graph, node: &Node, name: &str, index: usize) -> Option<Vec<i64>> {
    match node.attrs.get(name) {
        Some(Attr::Ints(ints)) => Some(ints.clone()),
        _ => graph.fact((*node.inputs.get(index)?)?).ints(),
    }
}

/// Counted from the front, between 0 and `n`.
fn place(at: i64, n: usize) -> Option<usize> {
    let n = i64::try_from(n).ok()?;
    let at = if at < 0 { at.saturating_add(n) } else { at };
    usize::try_from(at.clamp(0, n)).ok()
}

/// The range of channels that a Slice takes: from the first to (not including) the second. `None` if it slices other
/// axes, or takes none.
pub(super) fn of_slice(graph: &Graph, node: &Node, channels: usize) -> Option<(usize, usize)> {
    let axes = ints(graph, node, "axes", 3)?;
    let has_steps = node.inputs.get(4).copied().flatten().is_some();
    let has_steps = has_steps && ints(graph, node, "steps", 4)? != [1];
    let (starts, ends) = (ints(graph, node, "starts", 1)?, ints(graph, node, "ends", 2)?);
    let (&[start], &[end], &[1 | -3]) = (&*starts, &*ends, &*axes) else { return None };
    let (start, end) = (place(start, channels)?, place(end, channels)?);
    (!has_steps && start < end).then_some((start, end))
}

/// The axes of an image whose lengths a Shape returns: from the first to (not including) the second.
pub(super) fn of_shape(node: &Node) -> Option<(usize, usize)> {
    let int = |name: &str, default: i64| match node.attrs.get(name) {
        Some(&Attr::Int(at)) => at,
        _ => default,
    };
    let (start, end) = (place(int("start", 0), 4)?, place(int("end", 4), 4)?);
    (start < end).then_some((start, end))
}

/// Whether a reduction is over height and width, and keeps them.
pub(super) fn are_spatial(graph: &Graph, node: &Node) -> bool {
    let is_kept = !matches!(node.attrs.get("keepdims"), Some(Attr::Int(0)));
    let axes = ints(graph, node, "axes", 1).map(|axes| {
        let mut axes: Vec<i64> = axes.into_iter().map(|axis| axis.rem_euclid(4)).collect();
        axes.sort_unstable();
        axes
    });
    is_kept && axes.as_deref() == Some(&[2, 3])
}
