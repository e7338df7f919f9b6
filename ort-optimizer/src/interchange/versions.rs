//! Nodes that follow a version of their operator that ONNX Runtime's CPU has no kernel for, and say nothing that an
//! older one does not: they become nodes of that.
//!
//! Source: ONNX 1.23, what a version changed; ONNX Runtime 1.32, its CPU kernels.

use ort_graph::{Attr, Attrs, Fact, NewNode, Patch};

use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(super) const PASS: Pass = Pass {
    name: "OlderVersions",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || Box::new(OlderVersions),
};

struct OlderVersions;

/// An operator of ai.onnx.
struct Newer {
    op_type: &'static str,
    /// The version without kernel, and the newest with one.
    versions: [i32; 2],
    /// The attributes that it added, which mean nothing at -1.
    added: &'static [&'static str],
}

const NEWER: &[Newer] = &[
    Newer {
        op_type: "Attention",
        versions: [25, 24],
        added: &["left_window_size", "right_window_size"],
    },
    // These have fewer types.
    Newer { op_type: "ReduceLogSum", versions: [28, 18], added: &[] },
    Newer { op_type: "ReduceLogSumExp", versions: [28, 18], added: &[] },
];

impl Rewrite for OlderVersions {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(NEWER.iter().map(|newer| newer.op_type).collect())
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let node = site.node();
        let is_of = |newer: &&Newer| {
            newer.op_type == node.op_type
                && node.domain.is_empty()
                && node.since_version >= newer.versions[0]
        };
        let Some(newer) = NEWER.iter().find(is_of) else { return Ok(None) };
        let mut attrs = Attrs::new();
        for (name, attr) in node.attrs.iter() {
            match newer.added.contains(&name) {
                true if !matches!(attr, Attr::Int(-1)) => {
                    return Err(Refusal("no older version has this"));
                }
                true => {}
                false => {
                    attrs.set(name, attr.clone());
                }
            }
        }
        let mut patch = Patch::new(site.graph);
        let mut outputs = Vec::new();
        for old in &node.outputs {
            let new = old.map(|_| patch.value("", Fact::UNKNOWN)).transpose()?;
            outputs.push(new);
            if let Some((old, new)) = old.zip(new) {
                patch.replace(old, new);
            }
        }
        patch.node(NewNode {
            name: node.name.clone(),
            op_type: node.op_type.clone(),
            since_version: newer.versions[1],
            inputs: node.inputs.to_vec(),
            outputs,
            attrs,
            ..NewNode::default()
        });
        Ok(Some(patch))
    }
}

#[cfg(test)]
mod tests {
    use crate::lower_for_onnx_runtime;
    use crate::testing::{assert_equivalent, parse};

    #[test]
    fn nodes_that_say_nothing_new_are_of_an_older_version() {
        let text = "graph(x: float[1,2,3,4], m: float[3,3]) -> (a, b, c, d) {
               a = Attention-25 [is_causal: 1, right_window_size: -1] (x, x, x, m)
               b = Attention-25 [left_window_size: 1] (x, x, x)
               axes = const int64[1] [1]
               c = ReduceLogSum-28 [keepdims: 0] (x, axes)
               d = ReduceLogSumExp-28 (x)
             }";
        let before = parse(text);
        let registry = ort_ops::registry();
        let (graph, left) = lower_for_onnx_runtime(before.clone(), &registry, Some(28)).unwrap();
        assert_eq!(left.into_iter().collect::<Vec<_>>(), ["Attention"]);
        let versions = graph.node_ids().map(|id| graph.node(id).since_version);
        assert_eq!(versions.collect::<Vec<_>>(), [24, 25, 18, 18]);
        graph.verify().unwrap();
        assert_equivalent(&before, &graph, super::PASS.exactness);
    }
}
