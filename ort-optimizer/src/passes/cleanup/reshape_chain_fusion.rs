//! ReshapeChainFusion: of consecutive reshapes, only the last shape matters.
//!
//! ```text
//! Reshape(r(x), shape) = Reshape(x, shape)         r: Reshape, Flatten, Squeeze or Unsqueeze
//! Flatten(r(x)) = Squeeze(r(x)) = Unsqueeze(r(x)) = Reshape(x, shape)
//! ```
//! where the shape is known without `r(x)`. Consecutive Unsqueezes stay: they cost nothing, and patterns of masks
//! contain them. Our own pass: ONNX Runtime has no equivalent.

use ort_graph::{Attrs, Dim, NewNode, Node, Patch, ValueId};
use ort_ops::ops::reshape::Reshape;
use ort_tensor::Tensor;

use super::reshape_elimination::RESHAPES;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "ReshapeChainFusion",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || Box::new(ReshapeChainFusion),
};

struct ReshapeChainFusion;

/// The shape cannot be found without the intermediate value.
const DEPENDS: Refusal = Refusal("its shape depends on the one before");

impl Rewrite for ReshapeChainFusion {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(RESHAPES.to_vec())
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let (graph, last) = (site.graph, site.node());
        let (Some(&Some(between)), Some(&Some(old))) = (last.inputs.first(), last.outputs.first())
        else {
            return Ok(None);
        };
        let first = graph.producer(between).map(|(id, _)| graph.node(id));
        let Some(first) = first.filter(|first| is_chained(first, last)) else { return Ok(None) };
        let Some(&Some(x)) = first.inputs.first() else { return Ok(None) };
        let mut patch = Patch::new(graph);
        let dims = |value: ValueId| graph.fact(value).dims();
        let (shape, since_version, attrs) = match last.operator() {
            Some(Reshape { shape: Some(_), .. }) => {
                return Err(Refusal("its shape is an attribute"));
            }
            Some(Reshape { allow_zero, .. }) => {
                let shape = last.inputs.get(1).copied().flatten();
                let shape = shape.and_then(|shape| graph.fact(shape).ints()).ok_or(DEPENDS)?;
                let shape =
                    if *allow_zero { shape } else { copied(shape, dims(between), dims(x))? };
                (shape, last.since_version, last.attrs.clone())
            }
            None => {
                let version = if last.since_version < 13 { 5 } else { 13 };
                (shape_of(dims(old), dims(x))?, version, Attrs::new())
            }
        };
        let shape = Tensor::from_slice(&[shape.len()], &shape).map_err(|_| DEPENDS)?;
        let shape = patch.constant("", shape)?;
        let new = patch.output_of(NewNode {
            name: last.name.clone(),
            op_type: "Reshape".to_owned(),
            since_version,
            inputs: vec![Some(x), Some(shape)],
            attrs,
            ..NewNode::default()
        })?;
        patch.replace(old, new);
        Ok(Some(patch))
    }
}

fn is_chained(first: &Node, last: &Node) -> bool {
    RESHAPES.contains(&first.op_type.as_str())
        && first.domain.is_empty()
        && last.domain.is_empty()
        && (first.op_type != "Unsqueeze" || last.op_type != "Unsqueeze")
}

/// A shape for `x` equivalent to `shape` for a value of the dimensions `between`: zeros copy.
fn copied(
    mut shape: Vec<i64>,
    between: Option<&[Dim]>,
    x: Option<&[Dim]>,
) -> Result<Vec<i64>, Refusal> {
    for (axis, size) in shape.iter_mut().enumerate().filter(|(_, size)| **size == 0) {
        let dim = between.and_then(|dims| dims.get(axis)).ok_or(DEPENDS)?;
        match (dim, x.and_then(|dims| dims.get(axis))) {
            (Dim::Known(known), _) if *known > 0 => {
                *size = i64::try_from(*known).map_err(|_| DEPENDS)?;
            }
            (dim, Some(other)) if dim.equals(other) => {}
            _ => return Err(DEPENDS),
        }
    }
    Ok(shape)
}

/// The shape that gives `x` the dimensions `to`: one unknown dimension follows from the others if none of them can be
/// 0.
fn shape_of(to: Option<&[Dim]>, x: Option<&[Dim]>) -> Result<Vec<i64>, Refusal> {
    let to = to.ok_or(DEPENDS)?;
    let is_nonzero = |dim: &&Dim| dim.known().is_some_and(|n| n > 0);
    if to.iter().filter(is_nonzero).count() + 1 == to.len() {
        let size = |dim: &Dim| dim.known().filter(|&n| n > 0).map_or(Ok(-1), i64::try_from);
        // A known 0 is not an unknown dimension.
        let is_open = !to.contains(&Dim::Known(0));
        let shape: Result<Vec<i64>, _> = to.iter().map(size).collect();
        return shape.ok().filter(|_| is_open).ok_or(DEPENDS);
    }
    let copied = to.iter().enumerate().map(|(axis, dim)| match dim {
        Dim::Known(n) if *n > 0 => i64::try_from(*n).ok(),
        _ => dim.equals(x?.get(axis)?).then_some(0),
    });
    copied.collect::<Option<_>>().ok_or(DEPENDS)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::{assert_optimized, assert_rewritten};

    #[test]
    fn the_last_shape_counts() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,6], t: float[n,m,1,4], v: float[n,m,6]) -> (a, b, c, d, e, h) {
               s = const int64[3] [-1, 2, 3]
               s0 = const int64[3] [0, 1, -1]
               axes = const int64[1] [2]
               r = Reshape-14 (x, s)
               u = Unsqueeze-13 (r, axes)
               f = Reshape-5 (u, s)
               g = Reshape-14 (f, s0)
               a = Flatten-13 [axis: 2] (g)
               b = Reshape-14 (r, s0)
               c = Squeeze-13 (u, axes)
               q = Squeeze-13 (t, axes)
               d = Unsqueeze-13 (q, axes)
               z = const int64[4] [0, 0, 2, -1]
               e = Reshape-14 (q, z)
               w = Reshape-14 (v, s)
               h = Reshape-14 (w, s0)
             }",
            &expect![[r#"
                graph(x: float[n,6], t: float[n,m,1,4], v: float[n,m,6]) -> (a, b, c, d, e, h) {
                  s = const int64[3] [-1, 2, 3]
                  s0 = const int64[3] [0, 1, -1]
                  value_4 = const int64[2] [-1, 6]
                  value_5 = const int64[3] [0, 1, -1]
                  value_6 = const int64[3] [-1, 2, 3]
                  value_7 = const int64[4] [0, 0, 1, 4]
                  value_8 = const int64[4] [0, 0, 2, -1]
                  w = Reshape-14 (v, s)
                  h = Reshape-14 (w, s0)
                  a = Reshape-13 (x, value_4)
                  b = Reshape-14 (x, value_5)
                  c = Reshape-13 (x, value_6)
                  d = Reshape-13 (t, value_7)
                  e = Reshape-14 (t, value_8)
                }
                1 refused: its shape depends on the one before"#]],
        );
    }

    #[test]
    fn a_shape_that_depends_on_another_stays() {
        assert_rewritten(
            super::PASS,
            "graph(x: float[n,6], t: float[n,?,4], s: int64[2]) -> (a, b, c, d) {
               k = const int64[2] [3, -1]
               z = const int64[2] [0, 2]
               axes = const int64[1] [1]
               one = const int64[1] [0]
               r = Reshape-14 (x, k)
               p = Transpose-13 (r)
               q = Reshape-14 (p, s)
               a = Reshape-14 (q, z)
               u = Unsqueeze-13 (t, axes)
               v = Unsqueeze-13 (u, one)
               b = Neg-13 (v)
               w = Flatten-13 (t)
               c = Reshape-14 (w, s)
               l = const int64[3] [2, 0, -1]
               y = Flatten-13 [axis: 2] (t)
               d = Unsqueeze-13 (y, axes)
             }",
            &expect![[r#"
                graph(x: float[n,6], t: float[n,?,4], s: int64[2]) -> (a, b, c, d) {
                  k = const int64[2] [3, -1]
                  z = const int64[2] [0, 2]
                  axes = const int64[1] [1]
                  one = const int64[1] [0]
                  value = const int64[3] [-1, 1, 4]
                  r = Reshape-14 (x, k)
                  p = Transpose-13 (r)
                  q = Reshape-14 (p, s)
                  a = Reshape-14 (q, z)
                  u = Unsqueeze-13 (t, axes)
                  v = Unsqueeze-13 (u, one)
                  b = Neg-13 (v)
                  w = Flatten-13 (t)
                  c = Reshape-14 (w, s)
                  d = Reshape-13 (t, value)
                }
                2 refused: its shape depends on the one before"#]],
        );
    }
}
