//! New nodes.

use ort_graph::{Attr, Attrs, NewNode, ValueId};

use crate::nchwc::DOMAIN;

pub(super) fn int(n: usize) -> Attr {
    Attr::Int(i64::try_from(n).unwrap_or(i64::MAX))
}

/// A node of com.microsoft.nchwc.
pub(super) fn nchwc_node(
    name: &str,
    op_type: &str,
    inputs: Vec<Option<ValueId>>,
    attrs: Attrs,
) -> NewNode {
    NewNode { domain: DOMAIN.to_owned(), ..plain(name, op_type, 1, inputs, attrs) }
}

/// A node of ai.onnx.
pub(super) fn plain(
    name: &str,
    op_type: &str,
    since_version: i32,
    inputs: Vec<Option<ValueId>>,
    attrs: Attrs,
) -> NewNode {
    NewNode {
        name: name.to_owned(),
        op_type: op_type.to_owned(),
        since_version,
        inputs,
        attrs,
        ..NewNode::default()
    }
}
