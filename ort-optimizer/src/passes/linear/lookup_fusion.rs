//! LookupFusion: a function of looked-up rows becomes a lookup in a table of its results.
//!
//! ```text
//! f(Gather(table, i)) = Gather(f(table), i)
//! ```
//! where f is made of element-wise functions and constants that are the same for every row.
//! ConstantFolding makes a constant of `f(table)`, so only small tables are taken, in case it does not. Our own pass:
//! ONNX Runtime has no equivalent.

use ort_graph::{Attr, Attrs, Graph, NewNode, Node, NodeId, Patch, ValueId};
use ort_ops::ops::gather::Gather;
use ort_tensor::Tensor;

use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "LookupFusion",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || Box::new(LookupFusion),
};

/// The largest table whose function is computed.
const TABLE_BYTES: usize = 1 << 20;

struct LookupFusion;

/// A Gather of rows of a constant matrix.
struct Lookup<'a> {
    node: &'a Node,
    table: ValueId,
    width: usize,
    rows: ValueId,
    indices: ValueId,
    /// The rank of the result.
    rank: usize,
}

impl<'a> Lookup<'a> {
    fn of(graph: &'a Graph, node: &'a Node) -> Option<Self> {
        let (&[Some(table), Some(indices)], &[Some(rows)]) = (&*node.inputs, &*node.outputs) else {
            return None;
        };
        let constant = graph.constant(table)?;
        let &[_, width] = constant.shape() else { return None };
        let is_small = constant.n_bytes() <= TABLE_BYTES && constant.dtype().is_float();
        let is_of_rows = matches!(node.operator::<Gather>()?.axis, 0 | -2);
        let rank = graph.fact(indices).rank()? + 1;
        (is_small && is_of_rows).then_some(Self { node, table, width, rows, indices, rank })
    }

    /// The constant as an operand for one row, if it is the same for all rows.
    fn relative_to_a_row(&self, constant: &Tensor) -> Option<Tensor> {
        let shape = constant.shape();
        let Some((&last, ones)) = shape.split_last() else { return Some(constant.clone()) };
        let fits = (last == 1 || last == self.width) && shape.len() <= self.rank;
        (fits && ones.iter().all(|&n| n == 1)).then(|| constant.reshaped(&[last]).ok())?
    }

    /// Whether the node computes a function of rows in `functions` alone.
    fn is_function(&self, graph: &Graph, node: &Node, functions: &[(ValueId, NodeId)]) -> bool {
        node.domain.is_empty()
            && is_elementwise(&node.op_type)
            && node.inputs.iter().flatten().all(|&input| {
                let is_same = |constant| self.relative_to_a_row(constant).is_some();
                input == self.rows
                    || functions.iter().any(|&(value, _)| value == input)
                    || graph.constant(input).is_some_and(is_same)
            })
    }

    /// All functions of the rows, each after those it reads, with the nodes that compute them.
    fn functions(&self, graph: &Graph) -> Vec<(ValueId, NodeId)> {
        let mut functions = Vec::new();
        let (mut next, mut value) = (0, self.rows);
        loop {
            for id in graph.consumers(value) {
                let node = graph.node(*id);
                if let &[Some(output)] = &*node.outputs
                    && functions.iter().all(|&(known, _)| known != output)
                    && self.is_function(graph, node, &functions)
                {
                    functions.push((output, *id));
                }
            }
            let Some(&(other, _)) = functions.get(next) else { return functions };
            (next, value) = (next + 1, other);
        }
    }
}

impl Rewrite for LookupFusion {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["Gather"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let graph = site.graph;
        let Some(lookup) = Lookup::of(graph, site.node()) else { return Ok(None) };
        let functions = lookup.functions(graph);
        if functions.is_empty() {
            return Ok(None);
        }
        let is_inside = |id: &NodeId| functions.iter().any(|(_, node)| node == id);
        let is_result = |value: &ValueId| {
            graph.is_output(*value) || !graph.consumers(*value).iter().all(is_inside)
        };
        let results = functions.iter().map(|(value, _)| *value).filter(is_result);
        let &[old] = &*results.collect::<Vec<_>>() else { return Err(SEVERAL) };
        if is_result(&lookup.rows) {
            return Err(SEVERAL);
        }
        let mut patch = Patch::new(graph);
        let mut tables = vec![(lookup.rows, lookup.table)];
        for &(value, id) in &functions {
            let node = of_table(&lookup, graph.node(id), &tables, (graph, &mut patch))?;
            tables.push((value, patch.output_of(node)?));
        }
        let table = tables.iter().find(|(value, _)| *value == old).map(|(_, table)| *table);
        let new = patch.output_of(NewNode {
            name: lookup.node.name.clone(),
            op_type: "Gather".to_owned(),
            since_version: lookup.node.since_version,
            inputs: vec![table, Some(lookup.indices)],
            attrs: Attrs::new().with("axis", Attr::Int(0)),
            ..NewNode::default()
        })?;
        patch.replace(old, new);
        Ok(Some(patch))
    }
}

/// Whether each element of the result is a function of those at the same place.
fn is_elementwise(op_type: &str) -> bool {
    matches!(
        op_type,
        "Abs"
            | "Add"
            | "Clip"
            | "Div"
            | "Elu"
            | "Erf"
            | "Exp"
            | "Gelu"
            | "HardSigmoid"
            | "HardSwish"
            | "LeakyRelu"
            | "Log"
            | "Max"
            | "Min"
            | "Mul"
            | "Neg"
            | "Pow"
            | "Reciprocal"
            | "Relu"
            | "Sigmoid"
            | "Softplus"
            | "Sqrt"
            | "Sub"
            | "Tanh"
    )
}

const SEVERAL: Refusal = Refusal("several functions of the rows are used");

/// The node of the rows for the whole table.
fn of_table(
    lookup: &Lookup<'_>,
    node: &Node,
    tables: &[(ValueId, ValueId)],
    (graph, patch): (&Graph, &mut Patch),
) -> Result<NewNode, Refusal> {
    let mut inputs = Vec::with_capacity(node.inputs.len());
    for &input in &node.inputs {
        let table = tables.iter().find(|(value, _)| Some(*value) == input);
        let constant = input.and_then(|input| graph.constant(input));
        inputs.push(match (table, constant.filter(|constant| constant.shape().len() > 1)) {
            (Some((_, table)), _) => Some(*table),
            (None, Some(constant)) => {
                let constant = lookup.relative_to_a_row(constant).ok_or(SEVERAL)?;
                Some(patch.constant("", constant)?)
            }
            (None, None) => input,
        });
    }
    Ok(NewNode {
        name: node.name.clone(),
        op_type: node.op_type.clone(),
        since_version: node.since_version,
        inputs,
        attrs: node.attrs.clone(),
        ..NewNode::default()
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn functions_of_rows_become_part_of_the_table() {
        assert_optimized(
            super::PASS,
            "graph(i: int64[n,2]) -> (y) {
               table = const float[3,2] [1, -2, 3, 0.5, -0.25, 7]
               b = const float[1,1,2] [1, 2]
               half = const float[] 0.5
               low = const int64[] 0
               high = const int64[] 2
               j = Clip-13 (i, low, high)
               rows = Gather-13 (table, j)
               h = Add-14 (rows, b)
               t = Tanh-13 (h)
               u = Mul-14 (half, t)
               v = Mul-14 (u, h)
               y = ReduceSum-13 (v)
             }",
            &expect![[r#"
                graph(i: int64[n,2]) -> (y) {
                  table = const float[3,2] [1, -2, 3, 0.5, -0.25, 7]
                  half = const float[] 0.5
                  low = const int64[] 0
                  high = const int64[] 2
                  value = const float[2] [1, 2]
                  j = Clip-13 (i, low, high)
                  value_2 = Add-14 (table, value)
                  value_3 = Tanh-13 (value_2)
                  value_4 = Mul-14 (half, value_3)
                  value_5 = Mul-14 (value_4, value_2)
                  v = Gather-13 [axis: 0] (value_5, j)
                  y = ReduceSum-13 (v)
                }"#]],
        );
    }

    #[test]
    fn other_rows_stay() {
        assert_optimized(
            super::PASS,
            "graph(x: float[2]) -> (y, z, u) {
               table = const float[3,2] [1, -2, 3, 0.5, -0.25, 7]
               i = const int64[2] [0, 2]
               places = const float[2,1] [0.25, 4]
               a = Gather-13 (table, i)
               y = Add-14 (a, x)
               b = Gather-13 (table, i)
               z = Mul-14 (b, places)
               c = Gather-13 (table, i)
               d = Neg-13 (c)
               u = Concat-13 [axis: 0] (c, d)
             }",
            &expect![[r#"
                graph(x: float[2]) -> (y, z, u) {
                  table = const float[3,2] [1, -2, 3, 0.5, -0.25, 7]
                  i = const int64[2] [0, 2]
                  places = const float[2,1] [0.25, 4]
                  a = Gather-13 (table, i)
                  y = Add-14 (a, x)
                  b = Gather-13 (table, i)
                  z = Mul-14 (b, places)
                  c = Gather-13 (table, i)
                  d = Neg-13 (c)
                  u = Concat-13 [axis: 0] (c, d)
                }
                1 refused: several functions of the rows are used"#]],
        );
    }
}
