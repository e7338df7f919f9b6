//! CommonSubexpressionElimination: of equal nodes with equal inputs, one stays.
//!
//! Up to level Basic, each reader keeps its own DequantizeLinear, so that the runtime that loads the file can fuse
//! the two.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use ort_graph::{Attr, Node, NodeId, Patch, ValueId};

use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "CommonSubexpressionElimination",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || Box::new(CommonSubexpressionElimination(HashMap::new())),
};

/// The first node seen of each operator and inputs; attributes are compared when two meet.
struct CommonSubexpressionElimination(HashMap<(String, Vec<Option<ValueId>>), NodeId>);

impl Rewrite for CommonSubexpressionElimination {
    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let node = site.node();
        // Nodes without inputs are constants (left to folding) or random.
        if node.inputs.is_empty() || node.attrs.graphs().next().is_some() {
            return Ok(None);
        }
        let first = match self.0.entry((node.op_type.clone(), node.inputs.to_vec())) {
            Entry::Occupied(mut entry) => {
                let first = *entry.get();
                // Its inputs may have been replaced since.
                let is_still = |first: &Node| first.inputs == node.inputs;
                if !site.graph.get_node(first).is_some_and(is_still) {
                    entry.insert(site.id);
                    return Ok(None);
                }
                first
            }
            Entry::Vacant(entry) => {
                entry.insert(site.id);
                return Ok(None);
            }
        };
        if first == site.id {
            return Ok(None);
        }
        self.merge(site, site.graph.node(first), node)
    }

    fn end(&mut self) {
        self.0.clear();
    }
}

impl CommonSubexpressionElimination {
    /// Makes the readers of `node` read the outputs of `first`.
    fn merge(&self, site: &Site<'_>, first: &Node, node: &Node) -> Result<Option<Patch>, Refusal> {
        let is_same = first.domain == node.domain
            && first.since_version == node.since_version
            && first.outputs.len() == node.outputs.len()
            && first.attrs.iter().count() == node.attrs.iter().count()
            && first.attrs.iter().zip(node.attrs.iter()).all(
                |((name, attr), (other, other_attr))| name == other && is_equal(attr, other_attr),
            );
        if !is_same {
            return Ok(None);
        }
        if !node.op.behaviour().is_deterministic {
            return Err(Refusal("it is not deterministic"));
        }
        if node.op_type == "DequantizeLinear" && site.phase < Level::Extended {
            return Err(Refusal(
                "fusions in other runtimes need a DequantizeLinear for each reader",
            ));
        }
        let mut patch = Patch::new(site.graph);
        for (new, old) in first.outputs.iter().zip(&node.outputs) {
            match (*new, *old) {
                (Some(new), Some(old)) => patch.replace(old, new),
                (None, Some(old)) if site.graph.is_used(old) => {
                    return Err(Refusal("the two have different outputs"));
                }
                _ => {}
            }
        }
        Ok(Some(patch))
    }
}

/// Equal bit by bit; subgraphs are never equal.
fn is_equal(a: &Attr, b: &Attr) -> bool {
    let bits = |floats: &[f32]| floats.iter().map(|float| float.to_bits()).collect::<Vec<_>>();
    match (a, b) {
        (Attr::Float(a), Attr::Float(b)) => a.to_bits() == b.to_bits(),
        (Attr::Int(a), Attr::Int(b)) => a == b,
        (Attr::String(a), Attr::String(b)) => a == b,
        (Attr::Tensor(a), Attr::Tensor(b)) => a == b,
        (Attr::Floats(a), Attr::Floats(b)) => bits(a) == bits(b),
        (Attr::Ints(a), Attr::Ints(b)) => a == b,
        (Attr::Strings(a), Attr::Strings(b)) => a == b,
        (Attr::Tensors(a), Attr::Tensors(b)) => a == b,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_rewritten;

    #[test]
    fn equal_nodes_are_merged() {
        assert_rewritten(
            super::PASS,
            "graph(x: float[2,4]) -> (y, z, s, t) {
               a = Transpose-13 [perm: [1, 0]] (x)
               b = Transpose-13 [perm: [1, 0]] (x)
               c = Transpose-13 (x)
               d = Relu-14 (a)
               e = Relu-14 (b)
               f = Relu-14 (c)
               y = Concat-13 [axis: 0] (d, e, f)
               z = Relu-14 (b)
               g, _ = Split-13 [axis: 1] (x)
               _, h = Split-13 [axis: 1] (x)
               i, j = Split-13 [axis: 1] (x)
               s = Concat-13 [axis: 0] (g, h, i, j)
               training = const bool[] true
               u = Dropout-13 (x, _, training)
               v = Dropout-13 (x, _, training)
               t = Concat-13 [axis: 0] (u, v)
             }",
            &expect![[r#"
                graph(x: float[2,4]) -> (y, z, s, t) {
                  training = const bool[] true
                  a = Transpose-13 [perm: [1, 0]] (x)
                  c = Transpose-13 (x)
                  z = Relu-14 (a)
                  f = Relu-14 (c)
                  y = Concat-13 [axis: 0] (z, z, f)
                  g, _ = Split-13 [axis: 1] (x)
                  _, h = Split-13 [axis: 1] (x)
                  i, j = Split-13 [axis: 1] (x)
                  s = Concat-13 [axis: 0] (g, h, i, j)
                  u = Dropout-13 (x, _, training)
                  v = Dropout-13 (x, _, training)
                  t = Concat-13 [axis: 0] (u, v)
                }
                2 refused: the two have different outputs
                1 refused: it is not deterministic"#]],
        );
    }
}
