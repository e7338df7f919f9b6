//! BatchTransposeFusion: matrices that a Reshape puts in one list to be transposed are transposed where they are.
//!
//! ```text
//! Reshape(Transpose[0,2,1](Reshape(x, [-1, S, T])), [B, N, T, S]) = Transpose[0,1,3,2](x)    x: [B, N, S, T]
//! ```
//! PyTorch writes the keys of every attention so.

use ort_graph::{Attr, Attrs, Graph, NewNode, Node, Patch, ValueId};
use ort_ops::ops::transpose::Transpose;

use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};
use crate::sizes::{Size, sizes};

pub(crate) const PASS: Pass = Pass {
    name: "BatchTransposeFusion",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || Box::new(BatchTransposeFusion),
};

struct BatchTransposeFusion;

impl Rewrite for BatchTransposeFusion {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["Reshape"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let (graph, node) = (site.graph, site.node());
        let Some((x, list, transpose)) = list(graph, node) else { return Ok(None) };
        let Some(rank @ 4..) = graph.fact(x).rank() else { return Ok(None) };
        let swapped = |axis: usize| match rank - axis {
            2 => rank - 1,
            1 => rank - 2,
            _ => axis,
        };
        let is_list = are_matrices(graph, x, list);
        let is_split = output(node).is_some_and(|y| {
            is_shaped(graph, node, y, x, (0..rank).map(|axis| (axis, swapped(axis))))
        });
        if !is_list || !is_split {
            return Err(Refusal("its matrices may not be those of its result"));
        }
        let perm = (0..rank).filter_map(|axis| i64::try_from(swapped(axis)).ok()).collect();
        let mut patch = Patch::new(graph);
        let new = patch.output_of(NewNode {
            name: node.name.clone(),
            op_type: transpose.op_type.clone(),
            since_version: transpose.since_version,
            inputs: vec![Some(x)],
            attrs: Attrs::new().with("perm", Attr::Ints(perm)),
            ..NewNode::default()
        })?;
        if let Some(y) = output(node) {
            patch.replace(y, new);
        }
        Ok(Some(patch))
    }
}

/// What becomes a list of matrices, the list, and the node that transposes them for the Reshape.
fn list<'g>(graph: &'g Graph, reshape: &Node) -> Option<(ValueId, ValueId, &'g Node)> {
    let input = |node: &Node| node.inputs.first().copied().flatten();
    let producer = |value| graph.producer(value).map(|(id, _)| graph.node(id));
    let transpose = producer(input(reshape)?)?;
    let is_swap = transpose.operator::<Transpose>()?.perm.as_deref() == Some(&[0, 2, 1]);
    let list = input(transpose).filter(|_| is_swap)?;
    let from = producer(list).filter(|node| node.domain.is_empty() && node.op_type == "Reshape")?;
    Some((input(from)?, list, transpose))
}

/// Whether the list's matrices are those of `x`: their sizes are the last two.
fn are_matrices(graph: &Graph, x: ValueId, list: ValueId) -> bool {
    let Some((id, _)) = graph.producer(list) else { return false };
    let Some(rank) = graph.fact(x).rank() else { return false };
    is_shaped(graph, graph.node(id), list, x, [(1, rank - 2), (2, rank - 1)].into_iter())
}

/// Whether a Reshape's output has, at the first axis of each pair, the dimension that `x` has at the second. One of them
/// may be left to follow from the others.
fn is_shaped(
    graph: &Graph,
    reshape: &Node,
    output: ValueId,
    x: ValueId,
    axes: impl Iterator<Item = (usize, usize)>,
) -> bool {
    let dims = |value, axis: usize| graph.fact(value).dims()?.get(axis);
    let target = reshape.inputs.get(1).copied().flatten().and_then(|shape| sizes(graph, shape));
    let requested = |at: usize| target.as_ref().and_then(|target| target.get(at));
    let is_same = |(at, of): (usize, usize)| {
        let is_positive = |size: &Size| size.known().is_none_or(|number| number > 0);
        requested(at).is_some_and(|size| is_positive(size) && size.is_dim(graph, x, of))
            || dims(output, at).zip(dims(x, of)).is_some_and(|(a, b)| a.equals(b))
    };
    let mut others = axes.filter(|&pair| !is_same(pair));
    let first = others.next();
    let follows = first.is_none_or(|(at, _)| requested(at) == Some(&Size::Known(-1)));
    follows && others.next().is_none()
}

fn output(node: &Node) -> Option<ValueId> {
    node.outputs.first().copied().flatten()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn matrices_are_transposed_where_they_are() {
        assert_optimized(
            super::PASS,
            "graph(x: float[2,n,s,5], u: float[2,4,3,5], v: float[?,4,3,5]) -> (y, z, w) {
               list = const int64[3] [-1, 3, 5]
               split = const int64[4] [2, 4, 5, 3]
               from = const int64[1] [-2]
               end = const int64[1] [-1]
               last = const int64[1] [9223372036854775807]
               start = const int64[1] [-9223372036854775808]
               shape = Shape-15 (x)
               batch = Slice-13 (shape, start, from)
               s = Slice-13 (shape, from, end)
               t = Slice-13 (shape, end, last)
               to = Concat-13 [axis: 0] (end, s, t)
               back = Concat-13 [axis: 0] (batch, t, s)
               a = Reshape-14 (x, to)
               b = Transpose-13 [perm: [0, 2, 1]] (a)
               y = Reshape-14 (b, back)
               c = Reshape-14 (u, list)
               d = Transpose-13 [perm: [0, 2, 1]] (c)
               z = Reshape-14 (d, split)
               open = const int64[4] [-1, 4, 5, 3]
               e = Reshape-14 (v, list)
               f = Transpose-13 [perm: [0, 2, 1]] (e)
               w = Reshape-14 (f, open)
             }",
            &expect![[r#"
                graph(x: float[2,n,s,5], u: float[2,4,3,5], v: float[?,4,3,5]) -> (y, z, w) {
                  y = Transpose-13 [perm: [0, 1, 3, 2]] (x)
                  z = Transpose-13 [perm: [0, 1, 3, 2]] (u)
                  w = Transpose-13 [perm: [0, 1, 3, 2]] (v)
                }"#]],
        );
    }

    #[test]
    fn other_matrices_stay() {
        for (list, split) in [("[-1, 5, 3]", "[2, 4, 3, 5]"), ("[-1, 3, 5]", "[4, 2, 5, 3]")] {
            let text = format!(
                "graph(u: float[2,4,3,5]) -> (z) {{
                   list = const int64[3] {list}
                   split = const int64[4] {split}
                   c = Reshape-14 (u, list)
                   d = Transpose-13 [perm: [0, 2, 1]] (c)
                   z = Reshape-14 (d, split)
                 }}"
            );
            let (graph, _) = crate::testing::run(&super::PASS, &text, None);
            assert_eq!(graph.node_ids().count(), 3, "{graph}");
        }
    }
}
