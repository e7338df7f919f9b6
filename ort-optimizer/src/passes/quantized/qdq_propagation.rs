//! QDQPropagationTransformer: operators that only move data move quantized values.
//!
//! ```text
//! f(DQ(q, …)) = DQ(f(q), …)      Q(f(x)) = f(Q(x))
//! ```
//! Fewer bytes are moved, and neighbouring nodes may become quantized operators. ONNX Runtime inserts pairs that its
//! fusions later find; here nodes change places, including Gather, so that constant quantized tables stay small.
//! Where an equal QuantizeLinear follows, DoubleQDQPairsRemover removes both.

use ort_graph::{NewNode, Patch, ValueId};
use ort_tensor::DType;

use super::values::{Quantized, reading};
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "QDQPropagationTransformer",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || Box::new(QDQPropagation),
};

/// Operators whose results are elements of their first input.
const MOVERS: [&str; 7] =
    ["Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Gather"];
/// How many of them return all elements: no unused element is quantized.
const WHOLE_MOVERS: usize = 5;

struct QDQPropagation;

impl Rewrite for QDQPropagation {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(MOVERS.to_vec())
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let (graph, node) = (site.graph, site.node());
        let (Some(&Some(x)), &[Some(y)]) = (node.inputs.first(), &*node.outputs) else {
            return Ok(None);
        };
        if !node.domain.is_empty() {
            return Ok(None);
        }
        if let Some(before) = Quantized::of(graph, x) {
            return down(site, &before, y);
        }
        let is_whole = MOVERS[..WHOLE_MOVERS].contains(&node.op_type.as_str());
        match Quantized::after(graph, y).filter(|_| is_whole) {
            Some(after) => up(site, x, &after),
            None => Ok(None),
        }
    }
}

/// Moves the quantized values, and dequantizes the result.
fn down(site: &Site<'_>, before: &Quantized<'_>, y: ValueId) -> Result<Option<Patch>, Refusal> {
    let node = site.graph.node(before.node);
    check(before)?;
    let mut patch = Patch::new(site.graph);
    let moved = patch.output_of(reading(site.node(), before.value))?;
    let new = patch.output_of(elsewhere(reading(node, moved)))?;
    patch.replace(y, new);
    Ok(Some(patch))
}

/// Quantizes the operand, and moves its quantized values.
fn up(site: &Site<'_>, x: ValueId, after: &Quantized<'_>) -> Result<Option<Patch>, Refusal> {
    let node = site.graph.node(after.node);
    check(after)?;
    let mut patch = Patch::new(site.graph);
    let quantized = patch.output_of(elsewhere(reading(node, x)))?;
    let new = patch.output_of(reading(site.node(), quantized))?;
    patch.replace(after.value, new);
    Ok(Some(patch))
}

/// Checks that there is only one scale, and that all movers support the quantized type.
fn check(quantized: &Quantized<'_>) -> Result<(), Refusal> {
    match quantized.dtype {
        DType::I8 | DType::U8 | DType::I16 | DType::U16 if quantized.scales.len() == 1 => Ok(()),
        _ => Err(Refusal("it has several scales, or quantized values that cannot be moved")),
    }
}

/// The same node for another rank, without its axis: with a single scale it has no meaning, and might not exist
/// there.
fn elsewhere(node: NewNode) -> NewNode {
    let attrs = node.attrs.iter().filter(|(name, _)| *name != "axis");
    let attrs = attrs.map(|(name, attr)| (name.to_owned(), attr.clone())).collect();
    NewNode { attrs, ..node }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn quantized_values_are_moved_instead_of_floats() {
        assert_optimized(
            super::PASS,
            "graph(x: float[2,3], i: int64[4]) -> (a, b, c, d) {
               s = const float[1] [0.015625]
               t = const float[] 0.0625
               z = const int8[1] [7]
               shape = const int64[3] [3, 1, 2]
               table = const int8[3,2] [1, 2, 3, 4, 5, 6]
               values = DequantizeLinear-13 [axis: 1] (table, s, z)
               e = Gather-13 (values, i)
               a = Relu-14 (e)
               q = QuantizeLinear-13 [axis: 1] (x, t)
               y = DequantizeLinear-13 (q, t)
               f = Transpose-13 (y)
               g = Reshape-14 (f, shape)
               b = QuantizeLinear-13 (g, t)
               c = Neg-13 (y)
               h = Exp-13 (x)
               j = Transpose-13 (h)
               k = Reshape-14 (j, shape)
               d = QuantizeLinear-13 (k, s, z)
             }",
            &expect![[r#"
                graph(x: float[2,3], i: int64[4]) -> (a, b, c, d) {
                  s = const float[1] [0.015625]
                  t = const float[] 0.0625
                  z = const int8[1] [7]
                  shape = const int64[3] [3, 1, 2]
                  table = const int8[3,2] [1, 2, 3, 4, 5, 6]
                  q = QuantizeLinear-13 [axis: 1] (x, t)
                  y = DequantizeLinear-13 (q, t)
                  c = Neg-13 (y)
                  h = Exp-13 (x)
                  value = Gather-13 (table, i)
                  e = DequantizeLinear-13 (value, s, z)
                  a = Relu-14 (e)
                  value_2 = Transpose-13 (q)
                  value_3 = Reshape-14 (value_2, shape)
                  g = DequantizeLinear-13 (value_3, t)
                  b = QuantizeLinear-13 (g, t)
                  value_5 = QuantizeLinear-13 (h, s, z)
                  value_4 = Transpose-13 (value_5)
                  d = Reshape-14 (value_4, shape)
                }"#]],
        );
    }

    #[test]
    fn floats_are_moved_where_quantized_values_cannot_be() {
        assert_optimized(
            super::PASS,
            "graph(x: float[2,3], n: int32[2,3], i: int64[2]) -> (a, b, c, d, e) {
               s = const float[3] [0.015625, 1, 2]
               t = const float[] 0.0625
               q = QuantizeLinear-13 [axis: 1] (x, s)
               y = DequantizeLinear-13 [axis: 1] (q, s)
               a = Transpose-13 (y)
               f = Gather-13 [axis: 1] (x, i)
               b = QuantizeLinear-13 (f, t)
               g = DequantizeLinear-13 (n, t)
               c = Transpose-13 (g)
               d = Transpose-13 (x)
               e = QuantizeLinear-13 (d, t)
             }",
            &expect![[r#"
                graph(x: float[2,3], n: int32[2,3], i: int64[2]) -> (a, b, c, d, e) {
                  s = const float[3] [0.015625, 1, 2]
                  t = const float[] 0.0625
                  q = QuantizeLinear-13 [axis: 1] (x, s)
                  y = DequantizeLinear-13 [axis: 1] (q, s)
                  a = Transpose-13 (y)
                  f = Gather-13 [axis: 1] (x, i)
                  b = QuantizeLinear-13 (f, t)
                  g = DequantizeLinear-13 (n, t)
                  c = Transpose-13 (g)
                  d = Transpose-13 (x)
                  e = QuantizeLinear-13 (d, t)
                }
                2 refused: it has several scales, or quantized values that cannot be moved"#]],
        );
    }
}
