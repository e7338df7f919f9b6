//! ReshapeFusion: a Reshape to dimensions of its own input gets a constant shape.
//!
//! ```text
//! Reshape(x, [dim 0 of x, 12, s, 64]) = Reshape(x, [0, 12, -1, 64])
//! ```
//! 0 copies the dimension at its position; −1 is inferred from the others, so one dimension may remain that is only
//! known in a run. (Where another dimension is 0 in a run, −1 cannot be inferred, and the run fails: ONNX Runtime
//! accepts that, too.)

use ort_graph::{Attr, Attrs, NewNode, Node, Patch};
use ort_tensor::Tensor;

use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};
use crate::sizes::{Size, sizes};

pub(crate) const PASS: Pass = Pass {
    name: "ReshapeFusion",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || Box::new(ReshapeFusion),
};

struct ReshapeFusion;

impl Rewrite for ReshapeFusion {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["Reshape"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let node = site.node();
        let (&[Some(x), Some(shape)], &[Some(y)]) = (&*node.inputs, &*node.outputs) else {
            return Ok(None);
        };
        if site.graph.constant(shape).is_some() {
            return Ok(None);
        }
        let is_zero_meant = is_zero_meant(node);
        let sizes = sizes(site.graph, shape).ok_or(Refusal("nothing is known of its shape"))?;
        let mut is_open = false;
        let mut target = Vec::with_capacity(sizes.len());
        for (axis, size) in sizes.iter().enumerate() {
            target.push(match size {
                Size::Known(-1) => -1,
                size if size.is_dim(site.graph, x, axis) && size.known().is_none() => 0,
                Size::Known(0) if is_zero_meant => return Err(Refusal("a dimension is 0")),
                Size::Known(size) => *size,
                // In place of a dimension that may be 0, beside another that is, −1 would be ambiguous.
                _ if is_zero_meant => return Err(Refusal("a dimension may be 0")),
                _ => -1,
            });
            if target.last() == Some(&-1) && std::mem::replace(&mut is_open, true) {
                return Err(Refusal("several of its dimensions are not known"));
            }
        }
        let mut patch = Patch::new(site.graph);
        let tensor = Tensor::from_slice(&[target.len()], &target);
        let tensor = tensor.map_err(|_| Refusal("its shape is not a tensor"))?;
        let shape = patch.constant("shape", tensor)?;
        let new = patch.output_of(NewNode {
            name: node.name.clone(),
            domain: node.domain.clone(),
            op_type: node.op_type.clone(),
            since_version: node.since_version,
            inputs: vec![Some(x), Some(shape)],
            attrs: Attrs::new(),
            ..NewNode::default()
        })?;
        patch.replace(y, new);
        Ok(Some(patch))
    }
}

/// Whether 0 means an empty dimension instead of a copy.
fn is_zero_meant(node: &Node) -> bool {
    matches!(node.attrs.get("allowzero"), Some(Attr::Int(allowzero)) if *allowzero != 0)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn dimensions_of_its_input_become_constants() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,?,6], u: float[n,4]) -> (a, b, c, d, e, f) {
               zero = const int64[] 0
               first = const int64[1] [0]
               one = const int64[] 1
               rest = const int64[1] [-1]
               two = const int64[1] [2]
               three = const int64[1] [3]
               heads = const int64[3] [0, 2, 3]
               s = Shape-15 (x)
               s0 = Gather-13 (s, zero)
               s1 = Gather-13 (s, one)
               b0 = Unsqueeze-13 (s0, first)
               b1 = Unsqueeze-13 (s1, first)
               t = Concat-13 [axis: 0] (b0, b1, two, three)
               a = Reshape-14 (x, t)
               v = Concat-13 [axis: 0] (b0, rest, two)
               b = Reshape-14 (x, v)
               w = Concat-13 [axis: 0] (b1, b0, rest)
               c = Reshape-14 (x, w)
               q = Concat-13 [axis: 0] (b1, two, three, b0)
               d = Reshape-14 (x, q)
               us = Shape-15 [start: 0, end: 1] (u)
               o = Concat-13 [axis: 0] (us, rest)
               e = Reshape-14 (x, o)
               p = Concat-13 [axis: 0] (b0, b1, rest)
               f = Reshape-14 [allowzero: 1] (x, p)
             }",
            &expect![[r#"
                graph(x: float[n,?,6], u: float[n,4]) -> (a, b, c, d, e, f) {
                  zero = const int64[] 0
                  first = const int64[1] [0]
                  one = const int64[] 1
                  rest = const int64[1] [-1]
                  two = const int64[1] [2]
                  three = const int64[1] [3]
                  shape = const int64[4] [0, 0, 2, 3]
                  shape_2 = const int64[3] [0, -1, 2]
                  shape_3 = const int64[2] [0, -1]
                  shape_4 = const int64[3] [0, 0, -1]
                  s = Shape-15 (x)
                  s0 = Gather-13 (s, zero)
                  s1 = Gather-13 (s, one)
                  b0 = Unsqueeze-13 (s0, first)
                  b1 = Unsqueeze-13 (s1, first)
                  w = Concat-13 [axis: 0] (b1, b0, rest)
                  c = Reshape-14 (x, w)
                  q = Concat-13 [axis: 0] (b1, two, three, b0)
                  d = Reshape-14 (x, q)
                  a = Reshape-14 (x, shape)
                  b = Reshape-14 (x, shape_2)
                  e = Reshape-14 (x, shape_3)
                  f = Reshape-14 (x, shape_4)
                }
                2 refused: several of its dimensions are not known"#]],
        );
    }
}
