//! SliceChainFusion: consecutive slices of different axes become one Slice.
//!
//! Our own pass: ONNX Runtime has no equivalent. Exporters write `x[a:b, c:d]` as two nodes.

use ort_graph::{Attrs, NewNode, Patch};
use ort_ops::infer::normalize_axes;
use ort_tensor::Tensor;

use super::eliminate_slice::Ranges;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "SliceChainFusion",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || Box::new(SliceChainFusion),
};

struct SliceChainFusion;

impl Rewrite for SliceChainFusion {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["Slice"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let (graph, last) = (site.graph, site.node());
        let (Some(&Some(between)), Some(&Some(old))) = (last.inputs.first(), last.outputs.first())
        else {
            return Ok(None);
        };
        let first = graph.producer(between).map(|(id, _)| graph.node(id));
        let Some(first) = first.filter(|first| first.op_type == "Slice") else { return Ok(None) };
        if graph.consumers(between).len() > 1 || graph.is_output(between) {
            return Err(Refusal("a value within it is used elsewhere"));
        }
        // Before version 10 the ranges are attributes.
        let ranges = [first, last].map(|node| {
            Ranges::of(graph, node).filter(|_| node.since_version >= 10).map(with_steps)
        });
        let rank = graph.fact(between).rank();
        let ([Some(first_ranges), Some(last_ranges)], Some(rank)) = (ranges, rank) else {
            return Err(Refusal("its ranges are not constant, or its rank is not known"));
        };
        let lists = joined(&first_ranges, &last_ranges, rank)?;
        let mut patch = Patch::new(graph);
        let mut inputs = vec![first.inputs.first().copied().flatten()];
        for list in lists {
            let list = Tensor::from_slice(&[list.len()], &list);
            inputs.push(Some(
                patch.constant("", list.map_err(|_| Refusal("it has too many axes"))?)?,
            ));
        }
        let new = patch.output_of(NewNode {
            name: last.name.clone(),
            op_type: "Slice".to_owned(),
            since_version: last.since_version,
            inputs,
            attrs: Attrs::new(),
            ..NewNode::default()
        })?;
        patch.replace(old, new);
        Ok(Some(patch))
    }
}

fn with_steps(ranges: Ranges) -> Ranges {
    let n = ranges.starts.len();
    let steps = if ranges.steps.is_empty() { vec![1; n] } else { ranges.steps };
    Ranges { steps, ..ranges }
}

/// Starts, ends, axes and steps of both, if no axis is in both.
fn joined(first: &Ranges, last: &Ranges, rank: usize) -> Result<[Vec<i64>; 4], Refusal> {
    let lists = [
        [&*first.starts, &last.starts].concat(),
        [&*first.ends, &last.ends].concat(),
        [&*first.axes, &last.axes].concat(),
        [&*first.steps, &last.steps].concat(),
    ];
    // A repeated axis is an error.
    normalize_axes(&lists[2], rank).map_err(|_| Refusal("an axis is sliced twice"))?;
    Ok(lists)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_rewritten;

    #[test]
    fn slices_of_different_axes_become_one() {
        assert_rewritten(
            super::PASS,
            "graph(x: float[n,5,6], s: int64[1], u: float[...]) -> (y, z, v, w) {
               one = const int64[1] [1]
               two = const int64[1] [2]
               last = const int64[1] [-1]
               max = const int64[1] [9223372036854775807]
               a = Slice-13 (x, one, max, two)
               b = Slice-13 (a, last, one, one, last)
               y = Neg-13 (b)
               c = Slice-10 (x, one, last, two)
               d = Slice-10 (c, one, last, last)
               z = Neg-13 (d)
               e = Slice-13 (x, one, max, two)
               v = Slice-13 (e, s, max, one)
               f = Slice-13 (u, one, max, two)
               w = Slice-13 (f, one, max, one)
             }",
            &expect![[r#"
                graph(x: float[n,5,6], s: int64[1], u: float[...]) -> (y, z, v, w) {
                  one = const int64[1] [1]
                  two = const int64[1] [2]
                  last = const int64[1] [-1]
                  max = const int64[1] [9223372036854775807]
                  value = const int64[2] [1, -1]
                  value_2 = const int64[2] [9223372036854775807, 1]
                  value_3 = const int64[2] [2, 1]
                  value_4 = const int64[2] [1, -1]
                  c = Slice-10 (x, one, last, two)
                  d = Slice-10 (c, one, last, last)
                  z = Neg-13 (d)
                  e = Slice-13 (x, one, max, two)
                  v = Slice-13 (e, s, max, one)
                  f = Slice-13 (u, one, max, two)
                  w = Slice-13 (f, one, max, one)
                  b = Slice-13 (x, value, value_2, value_3, value_4)
                  y = Neg-13 (b)
                }
                1 refused: an axis is sliced twice
                2 refused: its ranges are not constant, or its rank is not known"#]],
        );
    }
}
